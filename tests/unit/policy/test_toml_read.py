from __future__ import annotations

import pytest

from mixte import PolicyError
from mixte.policy import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPath,
    LossScaleSpec,
    Outputs,
    Policy,
    Precision,
    Rule,
    parse_policy,
    read_policy,
)

GOOD = """\
schema = 1
name = "mine"
extends = "mixed_float16"
reason = "measured on our data"

[loss_scale]
law = "dynamic"
initial = 1024

[[rules]]
path = "encoder/**"
precision = "float32"
reason = "its variances overflow"

[[rules]]
class = "Softmax"
precision = "mixed_float16"
reason = "ten classes only"
"""


def test_a_file_says_what_it_says(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_text(GOOD)
    preset = Policy.named("mixed_float16")
    assert read_policy(file) == Policy(
        "mixed_float16",
        [
            Rule(ByPath("encoder/**"), "float32", "its variances overflow"),
            Rule(ByClass("Softmax"), "mixed_float16", "ten classes only"),
        ],
        safeguards=preset.safeguards,
        loss_scale=LossScaleSpec("dynamic", {"initial": 1024}),
        name="mine",
        reason="measured on our data",
    )


def test_every_selector_of_the_format_is_read():
    lines = ['path = "a"', 'class = "A"', 'activation = "a"', "outputs = true", "activity_regularizer = true"]
    rules = "".join(f'[[rules]]\n{line}\nprecision = "float32"\nreason = "r"\n' for line in lines)
    policy = parse_policy(f'schema = 1\ndefault = "mixed_bfloat16"\n{rules}')
    assert [rule.select for rule in policy.rules] == [
        ByPath("a"),
        ByClass("A"),
        ByActivation("a"),
        Outputs(),
        ActivityRegularized(),
    ]
    assert policy.safeguards == ()


def test_default_replaces_the_default_of_the_preset_and_keeps_its_safeguards():
    policy = parse_policy('schema = 1\nextends = "mixed_float16"\ndefault = "float32"')
    assert policy.default == Precision.float32
    assert policy.safeguards == Policy.named("mixed_float16").safeguards


def test_extends_auto_takes_the_recommendation():
    text = 'schema = 1\nextends = "auto"'
    policy = parse_policy(text, recommendation=("bfloat16", "a TPU"))
    assert (policy.default, policy.reason) == (Precision.bfloat16, "auto chose bfloat16: a TPU")
    with pytest.raises(PolicyError, match=r"line 2, key 'extends': policy 'auto' depends on the device"):
        parse_policy(text)


def test_a_loss_scale_may_be_a_law_alone():
    policy = parse_policy('schema = 1\ndefault = "float32"\nloss_scale = "dynamic"')
    assert policy.loss_scale == LossScaleSpec("dynamic")


def test_a_policy_without_a_name_is_named_after_its_file(tmp_path):
    file = tmp_path / "resnet.toml"
    file.write_text('schema = 1\ndefault = "float32"')
    assert read_policy(file).name == "resnet"


def test_a_byte_order_mark_is_not_an_error(tmp_path):
    file = tmp_path / "policy.toml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_policy(file).name == "mine"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        # the frame
        ("schema = 1", "", r"policy\.toml: the key 'schema' is missing; write 'schema = 1'"),
        ("schema = 1", "schema = 2", r"line 1, key 'schema': schema 2 is not known"),
        ("schema = 1", "schema = true", r"line 1, key 'schema': expected an integer, found true"),
        ("extends", "extend", r"line 3, key 'extend': there is no such key\. Did you mean 'extends'\?"),
        ('extends = "mixed_float16"', "", r"policy\.toml: neither 'extends' nor 'default' is there"),
        ("mixed_float16", "mixed_float61", r"line 3, key 'extends': .*Did you mean 'mixed_float16'\?"),
        ("extends", 'default = "flaot32"\nextends', r"line 3, key 'default': .*Did you mean 'float32'\?"),
        ('"mine"', '" "', r"line 2, key 'name': the name is empty"),
        ('"mine"', "3", r"line 2, key 'name': expected a string, found 3"),
        # syntax
        ('"mine"', '"mine', r"policy\.toml, line 2, column \d+: not valid TOML"),
        ('reason = "measured on our data"', 'name = "again"', r"line 4.*: not valid TOML: Cannot overwrite"),
        ("[[rules]]\nclass", "[rules]\nclass", r"line 15.*: not valid TOML"),
        ('only"\n', "only", r"policy\.toml, line 18 \(the end\): not valid TOML"),
        # loss scale
        ("[loss_scale]", "[loss_scal]", r"line 6, key 'loss_scal': .*Did you mean 'loss_scale'\?"),
        ('law = "dynamic"', "", r"line 6, key 'loss_scale': the key 'law' is missing"),
        ('"dynamic"', '""', r"line 7, \[loss_scale\], key 'law': .*empty"),
        ("1024", "[1024]", r"line 8, \[loss_scale\], key 'initial': a law's parameter is .* not \[1024\]"),
        (
            '[loss_scale]\nlaw = "dynamic"\ninitial = 1024',
            "loss_scale = 8",
            r"line 6, key 'loss_scale': expected a table",
        ),
        # rules
        ("precision", "precison", r"line 12, \[\[rules\]\] 1, key 'precison': .*Did you mean 'precision'\?"),
        ('"float32"', '"float23"', r"line 12, \[\[rules\]\] 1, key 'precision': .*Did you mean 'float32'\?"),
        ('"float32"', "32", r"line 12, \[\[rules\]\] 1, key 'precision': expected a string, found 32"),
        ('precision = "float32"', "", r"line 10, \[\[rules\]\] 1: the key 'precision' is missing"),
        ('reason = "ten classes only"', "", r"line 15, \[\[rules\]\] 2: the key 'reason' is missing"),
        ('"ten classes only"', '""', r"line 18, \[\[rules\]\] 2, key 'reason': .*has no reason"),
        ('path = "encoder/**"', "", r"line 10, \[\[rules\]\] 1: a rule selects by exactly one .*found none"),
        ("\nclass", "\noutputs = true\nclass", r"line 17, .* 2, key 'class': .*found outputs and class"),
        ('class = "Softmax"', "outputs = false", r"line 16, .* key 'outputs': false selects nothing"),
        ('class = "Softmax"', 'outputs = "yes"', r'line 16, .* expected true or false, found "yes"'),
        ('"Softmax"', '"keras.layers.Softmax"', r"line 16, .* key 'class': .*write 'Softmax'"),
        ('class = "Softmax"', 'activation = ""', r"line 16, .* key 'activation': .*empty"),
        ("encoder/**", "encoder/", r"line 11, .* key 'path': the path pattern 'encoder/' has an empty segment"),
        ('class = "Softmax"', 'path = "encoder/**"', r"line 15, .* 2: the rule on line 10 selects the same"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_line_and_key(old, new, message):
    text = GOOD.replace(old, new)
    assert text != GOOD
    with pytest.raises(PolicyError, match=message):
        parse_policy(text)


@pytest.mark.parametrize(("value", "line"), [("3", 1), ('"x"', 1), ("[3]", 1), ("[\n'x']", 2)])
def test_rules_that_are_no_tables_are_named_with_their_line(value, line):
    with pytest.raises(PolicyError, match=rf"line {line}, .*expected an? (array|table)"):
        parse_policy(f'rules = {value}\nschema = 1\ndefault = "float32"')


def test_rules_may_be_written_as_inline_tables():
    rule = '{ path = "a", precision = "float32", reason = "r" }'
    policy = parse_policy(f'schema = 1\ndefault = "float16"\nrules = [\n  {rule},\n]')
    assert policy.rules == (Rule(ByPath("a"), "float32", "r"),)
    with pytest.raises(PolicyError, match=r"line 5, \[\[rules\]\] 2: the rule on line 4 selects the same"):
        parse_policy(f'schema = 1\ndefault = "float16"\nrules = [\n  {rule},\n  {rule},\n]')


def test_arrays_nested_beyond_reason_are_an_error_and_no_crash():
    with pytest.raises(PolicyError, match="nested too deeply"):
        parse_policy("a = " + "[" * 100_000)


def test_a_missing_file_a_folder_and_binary_data_are_named(tmp_path):
    with pytest.raises(PolicyError, match=r"cannot read the policy .*missing\.toml: No such file"):
        read_policy(tmp_path / "missing.toml")
    with pytest.raises(PolicyError, match="Is a directory"):
        read_policy(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PolicyError, match=r"binary\.toml: it is not UTF-8 text"):
        read_policy(binary)

from __future__ import annotations

import tomllib

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from mixte import PolicyError
from mixte.policy import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPath,
    ByPredicate,
    LossScaleSpec,
    Outputs,
    Policy,
    Precision,
    Rule,
    format_policy,
    read_policy,
    write_policy,
)

TEXT = st.text(min_size=1).filter(str.strip)
SEGMENT = st.text(min_size=1).filter(lambda text: "/" not in text and "**" not in text)
SELECTORS = st.one_of(
    st.lists(SEGMENT | st.just("**"), min_size=1, max_size=4).map("/".join).map(ByPath),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True).map(ByClass),
    st.text(min_size=1).map(ByActivation),
    st.just(Outputs()),
    st.just(ActivityRegularized()),
)
RULES = st.builds(Rule, SELECTORS, st.sampled_from(Precision), TEXT)
PARAMETERS = st.dictionaries(
    st.text().filter(lambda name: name != "law"),
    st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans(),
    max_size=4,
)
POLICIES = st.builds(
    Policy,
    st.sampled_from(Precision),
    st.lists(RULES, max_size=4, unique_by=lambda rule: rule.select),
    safeguards=st.sampled_from(Precision).map(lambda preset: Policy.named(preset).safeguards),
    loss_scale=st.none() | st.builds(LossScaleSpec, st.text(min_size=1), PARAMETERS),
    name=st.none() | TEXT,
    reason=st.text(),
)


@settings(
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # each example replaces the file
)
@given(policy=POLICIES)
def test_what_is_written_is_read_back_equal(policy, tmp_path):
    file = tmp_path / "policy.toml"
    write_policy(policy, file)
    again = read_policy(file)
    assert again == policy
    types = [type(value) for _, value in policy.loss_scale.parameters] if policy.loss_scale else []
    assert [type(value) for _, value in (again.loss_scale.parameters if again.loss_scale else ())] == types


def test_a_file_is_written_for_people_to_read():
    policy = Policy.mixed("float16").with_rules(
        Rule(ByPath("encoder/**"), "float32", "its variances overflow"),
        Rule(Outputs(), "mixed_float16", "logits stay small"),
    )
    assert (
        format_policy(policy)
        == """\
schema = 1
name = "mixed_float16"
extends = "mixed_float16"

[[rules]]
path = "encoder/**"
precision = "float32"
reason = "its variances overflow"

[[rules]]
outputs = true
precision = "mixed_float16"
reason = "logits stay small"
"""
    )


def test_a_policy_without_safeguards_extends_nothing():
    assert tomllib.loads(format_policy(Policy("mixed_float16"))) == {
        "schema": 1,
        "name": "mixed_float16",
        "default": "mixed_float16",
    }


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            Policy("float32", [Rule(ByPredicate(bool, "wide layers"), "float32", "r")]),
            r"'predicate wide layers -> float32'; a file cannot hold a Python function",
        ),
        (
            Policy("float32", [Rule(Outputs(), "float32", "r"), Rule(Outputs(), "float64", "r")]),
            r"two rules for 'outputs'; the later one always wins",
        ),
        (
            Policy("float32", safeguards=[Rule(Outputs(), "float64", "r")]),
            r"safeguards that are those of no preset",
        ),
        (Policy("float32", reason="lone \ud800"), r"not Unicode, '\\ud800'"),
    ],
)
def test_what_the_format_cannot_express_is_refused_and_nothing_is_written(policy, message, tmp_path):
    file = tmp_path / "policy.toml"
    with pytest.raises(PolicyError, match=message):
        write_policy(policy, file)
    assert not file.exists()


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(PolicyError, match=r"cannot write the policy .*missing/policy\.toml: No such file"):
        write_policy(Policy("float32"), tmp_path / "missing" / "policy.toml")


def test_a_parameter_called_law_is_refused():
    with pytest.raises(PolicyError, match="cannot be called 'law'"):
        LossScaleSpec("dynamic", {"law": 1})

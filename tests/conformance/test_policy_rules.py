"""Rules of every kind on real models: by path, class, output, activation and predicate; and rules without effect."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers

import mixte.keras as mk
from mixte import MixteWarning, Policy, PolicyError
from mixte.policy import ByActivation, ByClass, ByPath, ByPredicate, Outputs, Rule, parse_policy

from .policy_models import call_and_look, layers_of

FLOAT16, FLOAT32, BFLOAT16 = "float16", "float32", "bfloat16"


def model():
    """Two blocks with the same names inside, and two outputs."""
    x = layers.Input((4,))
    y = x
    for block in ("encoder", "decoder"):
        inner = keras.Sequential(
            [
                layers.Input((4,)),
                layers.Dense(4, activation="relu", name="first"),
                layers.Dense(4, name="second"),
            ],
            name=block,
        )
        y = inner(y)
    outputs = [layers.Dense(3, activation="softmax", name="classes")(y), layers.Dense(1, name="score")(y)]
    return keras.Model(x, outputs)


DEFAULT = {
    "encoder/first": FLOAT16,
    "encoder/second": FLOAT16,
    "decoder/first": FLOAT16,
    "decoder/second": FLOAT16,
    "classes": FLOAT32,
    "score": FLOAT32,
}


def rule(select, precision="float32"):
    return Rule(select, precision, "for this test")


def units_of_three(description):
    return getattr(description.layer, "units", None) == 3


RULES = {
    "none": ([], {}),
    "path": ([rule(ByPath("encoder/first"))], {"encoder/first": FLOAT32}),
    "name in every block": (
        [rule(ByPath("first"))],
        {"encoder/first": FLOAT32, "decoder/first": FLOAT32},
    ),
    "all in a block": (
        [rule(ByPath("decoder/**"))],
        {"decoder/first": FLOAT32, "decoder/second": FLOAT32},
    ),
    "the more specific path": (
        [rule(ByPath("decoder/second"), "mixed_bfloat16"), rule(ByPath("decoder/**"))],
        {"decoder/first": FLOAT32, "decoder/second": BFLOAT16},
    ),
    "the later of two alike": (
        [rule(ByPath("decoder/first")), rule(ByPath("decoder/first"), "mixed_bfloat16")],
        {"decoder/first": BFLOAT16},
    ),
    "class": (
        [rule(ByClass("Dense"), "mixed_bfloat16")],
        dict.fromkeys(list(DEFAULT)[:4], BFLOAT16),  # a class does not undo what is said of outputs
    ),
    "outputs": ([rule(Outputs(), "mixed_float16")], {"score": FLOAT16, "classes": FLOAT16}),
    "activation": (
        [rule(ByActivation("relu"))],
        {"encoder/first": FLOAT32, "decoder/first": FLOAT32},
    ),
    "predicate": (
        [rule(ByPredicate(units_of_three, "three units"), "mixed_bfloat16")],
        {"classes": BFLOAT16},
    ),
    "path before predicate": (
        [
            rule(ByPath("classes"), "float32"),
            rule(ByPredicate(units_of_three, "three units"), "mixed_bfloat16"),
        ],
        {},
    ),
}


@pytest.mark.parametrize(("rules", "changes"), RULES.values(), ids=RULES.keys())
@pytest.mark.parametrize("under", ["apply", "use"])
def test_rules_decide_what_layers_compute_in(under, rules, changes):
    policy = Policy.mixed("float16").with_rules(*rules)
    if under == "use":
        with mk.use(policy):  # where any warning is an error
            built = model()
    else:
        built = model()
        assert mk.apply(built, policy).warnings == ()

    _, seen = call_and_look(built, np.ones((2, 4), "float32"))

    assert seen == DEFAULT | changes
    assert {variable.dtype for variable in built.variables} == {"float32"}


def test_a_policy_file_decides_as_its_policy():
    text = """
    schema = 1
    extends = "mixed_float16"
    [[rules]]
    path = "encoder/**"
    precision = "float32"
    reason = "for this test"
    """
    built = model()

    mk.apply(built, parse_policy(text, source="policy.toml"))

    encoder = {"encoder/first": FLOAT32, "encoder/second": FLOAT32}
    assert call_and_look(built, np.ones((2, 4), "float32"))[1] == DEFAULT | encoder


def test_rules_reach_the_parts_of_layers():
    x = layers.Input((4, 6))
    y = layers.MultiHeadAttention(2, 3, dropout=0.25, name="attention")(x, x)
    y = layers.Bidirectional(layers.LSTM(3, name="lstm"), name="both")(y)
    built = keras.Model(x, layers.Dense(1, name="out")(y))
    policy = Policy.mixed("float16").with_rules(rule(ByPath("attention/key")), rule(ByPath("both")))

    applied = mk.apply(built, policy)

    found = {path: layer.compute_dtype for path, layer in layers_of(built).items()}
    assert found["attention/key"] == FLOAT32
    assert found["attention/query"] == FLOAT16
    assert {dtype for path, dtype in found.items() if path.startswith("both")} == {FLOAT32}
    reasons = {decision.path: decision.reason for decision in applied.decisions}
    assert reasons["both/forward_lstm/lstm_cell"] == "part of both: for this test"


WITHOUT_EFFECT = {
    "path": (ByPath("encodr/first"), "No layer is called 'encodr'; the nearest is 'encoder'"),
    "class": (ByClass("Dens"), "The nearest class is 'Dense'"),
    "activation": (ByActivation("rellu"), "The nearest activation is 'relu'"),
    "predicate": (ByPredicate(lambda _: False, "nothing"), "'predicate nothing -> float32' selects no layer"),
}


@pytest.mark.parametrize(("select", "words"), WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT.keys())
def test_a_rule_that_selects_nothing_is_warned_of_with_the_nearest(select, words):
    policy = Policy.mixed("float16").with_rules(rule(select))

    with pytest.warns(MixteWarning, match=words) as warned:
        applied = mk.apply(model(), policy)

    assert len(warned) == 1
    assert [str(each.message) for each in warned] == list(applied.warnings)


def test_a_rule_that_selects_nothing_is_warned_of_once_under_use():
    policy = Policy.mixed("float16").with_rules(rule(ByClass("Dens")))

    def build():
        with mk.use(policy):
            x = layers.Input((2,))
            return keras.Model(x, layers.Dense(2)(layers.Dense(2)(x)))

    with pytest.warns(MixteWarning, match="The nearest class is 'Dense'") as warned:
        built = build()

    assert len(warned) == 1
    built.compile("sgd", loss="mse")  # where any warning is an error
    built.compile("sgd", loss="mse")


def sequential():
    return keras.Sequential([layers.Input((4,)), layers.Dense(4, name="first")])


@pytest.mark.parametrize(("build", "path"), [(model, "/encoder/first"), (sequential, "/nowhere")])
def test_a_model_inside_another_is_not_governed_by_itself(build, path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MixteWarning)
        with mk.use(Policy.mixed("float16").with_rules(rule(ByPath(path)))):
            built = build()

    missed = path.removeprefix("/") not in layers_of(built)
    assert len(caught) == int(missed)


def test_a_predicate_that_fails_is_an_error_that_names_the_rule_and_changes_nothing():
    policy = Policy.mixed("float16").with_rules(rule(ByPredicate(lambda each: each.missing, "broken")))
    built = model()

    with pytest.raises(PolicyError, match=r"'predicate broken'.*raised AttributeError"):
        mk.apply(built, policy)

    assert {layer.compute_dtype for layer in layers_of(built).values()} == {FLOAT32}


def test_a_dtype_that_the_script_gives_a_layer_stands_against_the_default_and_not_against_a_rule():
    def scripted():
        x = layers.Input((4,))
        y = layers.Dense(4, dtype="float32", name="kept")(x)
        return keras.Model(x, layers.Dense(2, name="out")(layers.Dense(4, name="free")(y)))

    with mk.use("mixed_float16"):
        kept = scripted()
    with mk.use(Policy.mixed("float16").with_rules(rule(ByPath("kept"), "mixed_float16"))):
        ruled = scripted()

    assert [layer.compute_dtype for layer in kept.layers[1:]] == [FLOAT32, FLOAT16, FLOAT32]
    assert [layer.compute_dtype for layer in ruled.layers[1:]] == [FLOAT16, FLOAT16, FLOAT32]

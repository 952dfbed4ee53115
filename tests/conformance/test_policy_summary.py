"""The summary of a model: one row for each layer, true to the layers, within the width."""

import re
from functools import cache

import keras
import pytest
from keras import layers

import mixte.keras as mk
from mixte import InputError, MixteWarning, Policy
from mixte.keras._describe import describe_layers
from mixte.policy import ByPath, Rule

from .policy_models import CASES, attention

cases = pytest.mark.parametrize("name", CASES)


@cache
def applied_to(name):
    """Return a model with a policy applied, and what was done."""
    model = CASES[name].built()
    return model, mk.apply(model, "mixed_float16")


def sections(text):
    """Return the table and what follows it: the reasons, and the counts."""
    parts = text.split("\n\n")
    return parts[next(number for number, part in enumerate(parts) if part.startswith("layer ")) :]


def rows(text):
    """Return the rows of the table, each split into its columns."""
    return [re.split(r" {2,}", line, maxsplit=4) for line in sections(text)[0].splitlines()[1:]]


def reasons(text):
    """Return the reasons below the table by number."""
    unwrapped = re.sub(r"\n +", " ", sections(text)[1])
    return dict(line.split(" ", 1) for line in unwrapped.splitlines())


@cases
def test_there_is_a_row_for_each_layer_with_its_real_precision_and_a_reason(name):
    model, applied = applied_to(name)

    text = mk.summary(applied, width=200)

    described, table = describe_layers(model), rows(text)
    assert [row[0] for row in table] == [each.path or "/" for each in described]
    assert [row[1] for row in table] == [type(each.layer).__name__ for each in described]
    assert [row[3] for row in table] == [each.layer.compute_dtype for each in described]
    assert [row[2] for row in table] == [_stored(each.layer) for each in described]
    why = reasons(text)
    for row, decision in zip(table, applied.decisions, strict=True):
        assert why[row[4].split()[0]].endswith(decision.reason)


def _stored(layer):
    own = [*layer._trainable_variables, *layer._non_trainable_variables]
    return "/".join(sorted({each.dtype for each in own if "float" in each.dtype})) or "-"


@cases
def test_a_summary_fits_80_columns_with_a_row_for_each_layer(name):
    model, applied = applied_to(name)

    text = mk.summary(applied)

    assert max(len(line) for line in text.splitlines()) <= 80
    assert len(rows(text)) == len(describe_layers(model))


@pytest.mark.parametrize("width", [40, 60, 120])
def test_a_summary_fits_any_width_from_40_columns(width):
    rule = Rule(ByPath("nowhere"), "float32", "a reason that is quite long, so that it has to be wrapped")
    with pytest.warns(MixteWarning, match="selects no layer"):
        applied = mk.apply(attention(), Policy.mixed("float16").with_rules(rule))

    text = mk.summary(applied, width=width)

    assert max(len(line) for line in text.splitlines()) <= width
    assert "Warning: The rule 'path nowhere -> float32'" in re.sub(r"\n +", " ", text)


def test_long_paths_keep_their_end():
    model = keras.Sequential([layers.Input((2,)), layers.Dense(1, name="x" * 100 + "_the_end")])

    (_, row) = rows(mk.summary(model))

    assert row[0].startswith("..x")
    assert row[0].endswith("_the_end")


def test_layers_are_counted_by_what_they_compute_in():
    text = mk.summary(mk.apply(attention(), "mixed_float16"))

    assert text.splitlines()[-1] == "6 of 8 layers compute in float16, 2 of 8 layers compute in float32"


def test_the_summary_of_a_model_without_a_policy_says_what_keras_and_the_script_chose():
    model = keras.Sequential(
        [
            layers.Input((2,)),
            layers.Dense(2, dtype="mixed_bfloat16", name="first"),
            layers.Dense(1, name="last"),
        ]
    )

    text = mk.summary(model)

    assert [(row[0], row[3]) for row in rows(text)] == [
        ("/", "float32"),
        ("first", "bfloat16"),
        ("last", "float32"),
    ]
    assert set(reasons(text).values()) == {
        "Keras: the dtype policy float32",
        "script: it sets dtype='mixed_bfloat16'",
    }


def test_the_summary_of_a_model_under_use_has_the_policys_reasons():
    with mk.use("mixed_float16"):
        model = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(1, name="last")])

    text = mk.summary(model)

    assert text.startswith("Policy mixed_float16: mixed_float16 unless said otherwise")
    assert rows(text)[-1][3:] == ["float32", "2 outputs"]


def test_a_summary_shows_what_layers_have_now():
    model = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(1)])
    applied = mk.apply(model, "mixed_float16")

    applied.undo()

    assert {row[3] for row in rows(mk.summary(applied))} == {"float32"}


@pytest.mark.parametrize("wrong", [None, "model", 3])
def test_what_is_no_model_has_no_summary(wrong):
    with pytest.raises(InputError, match="needs a Keras model"):
        mk.summary(wrong)


def test_a_width_below_40_is_refused():
    with pytest.raises(InputError, match="at least 40 columns, received 39"):
        mk.summary(attention(), width=39)

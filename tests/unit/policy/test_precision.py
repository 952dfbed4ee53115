from __future__ import annotations

import pickle

import pytest

from mixte import InputError
from mixte.policy import Precision


@pytest.mark.parametrize("precision", Precision)
def test_dtypes_are_those_of_keras_policy_of_the_same_name(precision):
    keras = pytest.importorskip("keras", reason="Keras is the oracle of the names and dtypes")
    oracle = keras.dtype_policies.DTypePolicy(precision.name)
    assert precision.compute_dtype == oracle.compute_dtype
    assert precision.variable_dtype == oracle.variable_dtype


@pytest.mark.parametrize("precision", Precision)
def test_a_precision_is_accepted_where_keras_takes_a_policy_name(precision):
    keras = pytest.importorskip("keras", reason="Keras is the oracle of the names and dtypes")
    assert keras.dtype_policies.get(precision).name == precision.name


def test_the_set_of_precisions_is_closed():
    assert [precision.name for precision in Precision] == [
        "float64",
        "float32",
        "mixed_float16",
        "mixed_bfloat16",
        "float16",
        "bfloat16",
    ]


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(
        InputError, match=r"no precision is called 'mixed_flot16'\. Did you mean 'mixed_float16'"
    ):
        Precision.named("mixed_flot16")


def test_a_name_that_is_near_to_none_lists_them_without_a_suggestion():
    with pytest.raises(InputError) as caught:
        Precision.named("int8_from_float32_quantised")
    assert "Did you mean" not in str(caught.value)
    assert "mixed_bfloat16" in str(caught.value)


@pytest.mark.parametrize("value", [16, None, b"float16"])
def test_a_name_that_is_no_string_is_refused_with_its_type(value):
    with pytest.raises(InputError, match=type(value).__name__):
        Precision.named(value)


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("float64", "float32", True),
        ("float32", "mixed_float16", True),
        ("mixed_float16", "float16", True),
        ("mixed_bfloat16", "float16", True),
        ("float32", "float32", False),
        ("float16", "bfloat16", False),
        ("mixed_float16", "mixed_bfloat16", False),
        ("float16", "mixed_float16", False),
    ],
)
def test_wider_means_more_bits_in_one_dtype_and_fewer_in_none(wide, narrow, expected):
    assert Precision.named(wide).is_wider_than(Precision.named(narrow)) is expected


def test_a_precision_survives_pickling_as_the_same_member():
    assert pickle.loads(pickle.dumps(Precision.mixed_float16)) is Precision.mixed_float16  # noqa: S301 - our own bytes

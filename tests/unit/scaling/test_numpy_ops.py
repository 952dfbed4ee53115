from __future__ import annotations

import math

import numpy as np
import pytest

from mixte.scaling import NUMPY

VALUES = [np.float32(value) for value in (-np.inf, -2.5, -0.0, 0.0, 1.0, 3e38, np.inf, np.nan)]


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_minimum_and_maximum_agree_with_numpy(name: str) -> None:
    for x in VALUES:
        for y in VALUES:
            result = getattr(NUMPY, name)(x, y)
            assert isinstance(result, np.float32)
            assert np.array_equal(result, getattr(np, name)(x, y), equal_nan=True)


@pytest.mark.parametrize("name", ["log2", "exp2", "sqrt"])
def test_functions_agree_with_numpy_and_never_warn(name: str) -> None:
    for x in VALUES:
        result = getattr(NUMPY, name)(x)
        assert isinstance(result, np.float32)
        with np.errstate(all="ignore"):
            np.testing.assert_equal(result, getattr(np, name)(x))


def test_logic_agrees_with_numpy() -> None:
    for x in (np.True_, np.False_):
        assert NUMPY.logical_not(x) == np.logical_not(x)
        for y in (np.True_, np.False_):
            assert NUMPY.logical_and(x, y) == np.logical_and(x, y)
            assert NUMPY.logical_or(x, y) == np.logical_or(x, y)


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf, 3.5e38])
def test_float32_past_its_range_is_infinite_without_a_warning(value: float) -> None:
    assert NUMPY.float32(value) == math.copysign(math.inf, value)


def test_casts_give_exactly_their_type() -> None:
    assert isinstance(NUMPY.float32(0.8), np.float32)
    assert NUMPY.float32(0.8) == np.float32(0.8)
    assert isinstance(NUMPY.int32(np.True_), np.int32)
    assert NUMPY.isfinite(np.float32(1.0))
    assert not NUMPY.isfinite(np.float32(np.nan))

"""Shapes, dtypes, memory: what the array function does besides rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mixte import InputError
from mixte.formats import round_to


def test_no_copy_where_no_element_can_change():
    x = np.array([1.0, np.inf, np.nan, 1e-45], np.float32)
    assert round_to(x, "float32") is x


def test_copy_where_one_could():
    x = np.array([np.inf], np.float32)
    assert round_to(x, "float32", overflow="saturate").tolist() == [np.finfo(np.float32).max]
    assert x.tolist() == [np.inf]


def test_input_is_left_alone_and_out_may_be_the_input():
    x = np.array([0.1, 70000.0], np.float32)
    rounded = round_to(x, "float16")
    assert x.tolist() == np.array([0.1, 70000.0], np.float32).tolist()
    assert round_to(x, "float16", out=x) is x
    assert np.array_equal(x, rounded)


@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 0, 2), (40_000,), (5, 7, 11)])
def test_any_shape_is_kept(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    assert np.array_equal(round_to(x, "bfloat16"), x.astype(ml_dtypes.bfloat16).astype(np.float64))
    assert round_to(x, "bfloat16").shape == shape


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::2, ::-1],
        lambda x: np.broadcast_to(x[:1], x.shape),
        np.asfortranarray,
        lambda x: x.transpose(1, 0)[3:],
    ],
)
def test_any_memory_layout_gives_the_same_numbers(view):
    x = view(np.random.default_rng(1).standard_normal((60, 90)).astype(np.float32))
    expected = x.astype(np.float16).astype(np.float32)
    assert np.array_equal(round_to(x, "float16"), expected)
    out = np.empty((x.shape[1], x.shape[0]), np.float32).T
    assert np.array_equal(round_to(x, "float16", out=out), expected)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    "dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn]
)
def test_narrow_dtypes_are_widened_to_float32(dtype):
    rounded = round_to(np.array([0.5, 3.0]).astype(dtype), "float8_e4m3fn")
    assert rounded.dtype == np.float32
    assert rounded.tolist() == [0.5, 3.0]


def test_other_byte_order_is_understood():
    assert round_to(np.array([1.5, 1e-9], ">f4"), "float16").tolist() == [1.5, 0.0]


@pytest.mark.parametrize("x", [3, [True, False], np.array([2**53], np.int64)])
def test_integers_that_float64_holds_are_taken(x):
    assert np.array_equal(round_to(x, "float32"), np.asarray(x, np.float64))


@pytest.mark.parametrize("x", [2**53 + 1, [1j], ["1"], np.longdouble(1), None])
def test_what_is_not_a_float64_is_refused(x):
    with pytest.raises(InputError):
        round_to(x, "float16")


@pytest.mark.parametrize("out", [np.empty(3, np.float32), np.empty(2, np.float64)])
def test_out_that_does_not_fit_is_refused(out):
    with pytest.raises(InputError, match=r"out has shape .* the result has shape \(2,\) and dtype float32"):
        round_to(np.zeros(2, np.float32), "float16", out=out)


def test_generator_without_stochastic_rounding_is_refused():
    with pytest.raises(InputError, match="draws nothing"):
        round_to(1.0, "float16", generator=np.random.default_rng(0))


class EveryDraw:
    """A generator that hands out every 32-bit draw whose lowest bits are zero, once, in order."""

    def __init__(self, bits):
        self.draws = np.arange(2**bits, dtype=np.uint32) << np.uint32(32 - bits)
        self.used = 0

    def bytes(self, count):
        part = self.draws[self.used : self.used + count // 4]
        self.used += count // 4
        return part.tobytes()


@pytest.mark.parametrize(
    ("name", "bits", "x", "below", "above"),
    [
        ("float16", 13, 1 + 5 * 2.0**-13, 1.0, 1 + 2.0**-10),
        ("float16", 13, -(2.0**-24) * (1 + 3 / 8192), -(2.0**-24), -(2.0**-23)),
        ("bfloat16", 16, 1 + 77 * 2.0**-23, 1.0, 1 + 2.0**-7),
        ("float8_e4m3fn", 20, 440 - 2.0**-12, 416.0, 448.0),
    ],
)
def test_stochastic_rounding_is_exactly_unbiased_over_all_draws(name, bits, x, below, above):
    x = np.float32(x)
    rounded = round_to(np.full(2**bits, x), name, rounding="stochastic", generator=EveryDraw(bits))
    share = (float(x) - below) / (above - below)
    assert sorted(set(rounded.tolist())) == sorted([below, above])
    assert np.count_nonzero(rounded == above) == share * 2**bits


def test_stochastic_rounding_keeps_numbers_of_the_format():
    x = np.arange(-2048, 2049, dtype=np.float64)
    assert np.array_equal(round_to(x, "float16", rounding="stochastic", generator=np.random.default_rng(3)), x)


def test_stochastic_rounding_repeats_with_the_seed_and_differs_without():
    x = np.full(1000, 0.1)
    first, again, other = (
        round_to(x, "float8_e5m2", rounding="stochastic", generator=np.random.default_rng(seed))
        for seed in (4, 4, 5)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_mean_of_stochastic_rounding_is_the_value():
    x, count = 0.3, 200_000
    rounded = round_to(
        np.full(count, x), "float8_e4m3fn", rounding="stochastic", generator=np.random.default_rng(6)
    )
    gap = 2.0**-5  # of float8_e4m3fn in [0.25, 0.5)
    # A two-valued variable of range `gap` has a standard deviation of at most gap / 2; six of the mean's.
    assert abs(rounded.mean() - x) < 6 * (gap / 2) / count**0.5

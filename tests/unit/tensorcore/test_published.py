"""One-line values from the papers, and the corner cases that they state."""

from __future__ import annotations

import numpy as np
import pytest

from mixte.tensorcore import Restart, dot_scalar, dot_unit, matmul

HALF = ["float16", "bfloat16", "tf32"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2"]
NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF


def dot(a, b, c=0.0, **how):
    """One output, checked on the scalar twin as well."""
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    result = matmul(a[None], b[:, None], c, **how)[0, 0]
    fmt, accumulate = how.get("input", "float16"), how.get("accumulate", "float32")
    unit = dot_unit(how["arch"], fmt, accumulate=accumulate, instruction=how.get("instruction"))
    start = float(np.float64(c).astype(accumulate))
    twin = np.array(dot_scalar(a.tolist(), b.tolist(), start, unit), accumulate)
    assert np.array_equal(result, twin, equal_nan=True)
    assert np.signbit(result) == np.signbit(twin) or np.isnan(twin)
    return result


# Xie et al., arXiv 2511.10909, table 8.
@pytest.mark.parametrize(
    ("arch", "fmt", "expected"),
    [
        ("volta", "float16", 0.0),
        ("turing", "float16", -0.5),
        *(("ampere", fmt, -0.5) for fmt in HALF),
        *(("ada", fmt, -0.5) for fmt in HALF),
        *(("hopper", fmt, -0.75) for fmt in HALF),
        *(("blackwell", fmt, -0.75) for fmt in HALF),
        ("ada", "float8_e5m2", 0.0),
        ("hopper", "float8_e5m2", 0.0),
        ("blackwell", "float8_e5m2", -0.75),
    ],
)
def test_published_sum_that_tells_the_fraction_bits(arch, fmt, expected):
    a, b = [-(2.0**13), -0.5, -0.25, -0.125], [2.0**10, 1.0, 1.0, 1.0]
    assert dot(a, b, 2.0**23, arch=arch, input=fmt) == expected


def test_products_are_not_renormalised_before_the_alignment():
    small = 2.0**-11, 2.0**-12
    assert dot([1.5, small[0], small[0]], [1.5, small[1], small[1]], arch="volta") == 2.25 + 2.0**-22
    assert dot([1.0, small[0], small[0]], [2.25, small[1], small[1]], arch="volta") == 2.25


# arXiv 2512.07004: which products of a float8 mma.sync go to the first of the two float16 instructions.
@pytest.mark.parametrize("arch", ["hopper", "blackwell"])
@pytest.mark.parametrize("k", range(2, 32))
def test_float8_mma_sync_deals_out_pairs(arch, k):
    a, b = np.zeros(32), np.ones(32)
    a[0] = 1.0
    a[[1, k]], b[[1, k]] = 2.0**-8, 2.0**-16
    result = dot(a, b, arch=arch, input="float8_e5m2", instruction="mma.sync")
    assert result == (1 + 2.0**-23 if k % 4 in {0, 1} else 1.0)


@pytest.mark.parametrize("arch", ["ampere", "hopper"])
def test_values_below_2_to_128_truncate_to_the_largest_number_and_others_overflow(arch):
    largest = float(np.finfo(np.float32).max)
    assert dot([2.0**52], [2.0**51], largest, arch=arch, input="bfloat16") == largest  # half an ulp more
    assert dot([2.0**52], [2.0**52], largest, arch=arch, input="bfloat16") == np.inf
    # Products may exceed the range of float32 inside a block, and cancel.
    assert dot([2.0**127, 2.0**127], [2.0, -2.0], 2.0**104, arch=arch, input="bfloat16") == 2.0**104


def test_float16_accumulator_overflows_to_infinity_and_stays_there():
    a, b = [256.0] + [0.0] * 15 + [-256.0] * 16, [256.0] * 32
    assert dot(a, b, arch="hopper", accumulate="float16") == np.inf
    assert dot([256.0], [255.75], arch="volta", accumulate="float16") == 65472.0


@pytest.mark.parametrize("accumulate", ["float32", "float16"])
@pytest.mark.parametrize("arch", ["volta", "turing", "ampere", "ada", "hopper", "blackwell"])
class TestSpecialValues:
    def test_zero_results_are_positive(self, arch, accumulate):
        for a, b, c in [
            ([1.0, -1.0], [1.0, 1.0], 0.0),
            ([0.0], [0.0], -0.0),
            ([-0.0], [1.0], -0.0),
            ([-1.0], [1.0], 1.0),
        ]:
            result = dot(a, b, c, arch=arch, accumulate=accumulate)
            assert result == 0
            assert not np.signbit(result)

    @pytest.mark.parametrize(
        ("a", "b", "c"),
        [
            ([np.nan, 1.0], [1.0, 1.0], 0.0),
            ([0.0, 1.0], [np.nan, 1.0], 0.0),
            ([np.inf, 1.0], [0.0, 1.0], 0.0),
            ([np.inf, 1.0], [1.0, -np.inf], 0.0),
            ([-np.inf, 0.0], [1.0, 1.0], np.inf),
            ([1.0], [1.0], np.nan),
        ],
    )
    def test_nan_is_the_one_with_all_bits_set_but_the_sign(self, arch, accumulate, a, b, c):
        result = dot(a, b, c, arch=arch, accumulate=accumulate)
        bits = result.view(np.uint32) if accumulate == "float32" else result.view(np.uint16)
        assert bits == (NAN32 if accumulate == "float32" else NAN16)

    def test_infinities_keep_their_sign(self, arch, accumulate):
        assert dot([np.inf, -65504.0], [2.0, 65504.0], arch=arch, accumulate=accumulate) == np.inf
        assert dot([1.0], [1.0], -np.inf, arch=arch, accumulate=accumulate) == -np.inf


# Predictions of the model with the exponent floors of arXiv 2512.07004; no public hardware run states them.
def test_exponent_floor_drops_what_lies_below_it():
    tiny = [2.0**-76] * 8
    assert dot(tiny, tiny, arch="ampere", input="bfloat16") == 2.0**-149
    assert dot([217 * 2.0**-82, 2.0**-82], [151 * 2.0**-82, 2.0**-82], arch="ampere", input="bfloat16") == 0
    for arch in ("volta", "turing", "ampere", "hopper"):
        factors = [2.0**-12, 2.0**-24], [2.0**-13, 2.0**-24]
        assert dot(*factors, arch=arch, accumulate="float16") == 0
    assert dot([0.0, 2.0**-30], [2.0**100, 2.0**-30], arch="hopper", input="bfloat16") == 2.0**-60
    assert not np.signbit(dot([-(2.0**-76)], [2.0**-76], arch="hopper", input="bfloat16"))


def test_subnormal_operands_keep_the_smallest_exponent_of_their_format():
    # 2**-24 as a float16 has exponent -14 and significand 2**-10: the product with 1 aligns at -14.
    assert dot([2.0**-24, 1.0], [1.0, 2.0**-14], arch="volta") == 2.0**-14 + 2.0**-24
    assert dot([2.0**-133], [2.0**16], arch="ampere", input="bfloat16") == 2.0**-117


def test_tf32_operands_lose_the_lowest_13_bits():
    x = 1 + 2.0**-10 + 2.0**-11
    assert dot_without_twin([x], [1.0], arch="ampere", input="tf32") == 1 + 2.0**-10
    assert dot_without_twin([x], [1.0], arch="ampere", input="tf32", rounding="nearest_away") == 1 + 2.0**-9


def dot_without_twin(a, b, **how):
    return matmul(np.array([a]), np.array([b]).T, **how)[0, 0]


@pytest.mark.parametrize("fmt", FLOAT8)
def test_long_float8_chain_on_hopper_loses_what_a_restart_keeps(fmt):
    # All-positive data: a 14-bit accumulator stops growing well below the sum (DeepSeek-V3, arXiv 2412.19437).
    ones = np.ones((1, 65536))
    chain = matmul(ones, ones.T, arch="hopper", input=fmt)[0, 0]
    assert chain == 2.0**14  # from where on a product of 1 lies below 2**(14 - 13), and is truncated to 0
    assert matmul(ones, ones.T, arch="hopper", input=fmt, accumulation=Restart())[0, 0] == 65536.0

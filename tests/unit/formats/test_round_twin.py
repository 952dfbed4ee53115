"""The array code against its readable scalar twin, on random bit patterns; and the rules of both."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mixte import InputError
from mixte.formats import FORMATS, round_scalar, round_to

ROUNDINGS = ["nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative"]
BITS = {
    np.float32: st.integers(0, 2**32 - 1).map(lambda u: np.uint32(u).view(np.float32)),
    np.float64: st.integers(0, 2**64 - 1).map(lambda u: np.uint64(u).view(np.float64)),
}


def near(name):
    """Values within a few units in the last place of the format's own range, where rounding decides."""
    fmt = FORMATS[name]
    exponents = st.integers(fmt.emin - fmt.mantissa_bits - 3, fmt.emax + 2)
    significands = st.integers(-(2 ** (fmt.mantissa_bits + 4)), 2 ** (fmt.mantissa_bits + 4))
    return st.builds(lambda s, e: np.ldexp(float(s), e - fmt.mantissa_bits - 3), significands, exponents)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_array_and_scalar_agree(name, rounding, same_bits, data):
    rule = {
        "rounding": rounding,
        "overflow": data.draw(st.sampled_from([None, "saturate"])),
        "subnormals": data.draw(st.sampled_from(["keep", "flush"])),
    }
    for dtype, patterns in BITS.items():
        with np.errstate(over="ignore"):
            values = np.array(data.draw(st.lists(patterns | near(name), min_size=1, max_size=12)), dtype)
        expected = [round_scalar(float(x), FORMATS[name], **rule) for x in values]
        assert same_bits(round_to(values, name, **rule), expected).all()


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_stochastic_array_and_scalar_agree_on_the_same_draws(name, same_bits, data):
    for dtype, patterns in BITS.items():
        with np.errstate(over="ignore"):
            values = np.array(data.draw(st.lists(patterns | near(name), min_size=1, max_size=12)), dtype)
        wide = dtype is np.float64 or name == "float8_e8m0fnu"
        seed = data.draw(st.integers(0, 2**32))
        raw = np.frombuffer(
            np.random.default_rng(seed).bytes(values.size * (8 if wide else 4)),
            np.uint64 if wide else np.uint32,
        )
        draws = [Fraction(int(r) >> 11, 2**53) if wide else Fraction(int(r), 2**32) for r in raw]
        pairs = zip(values, draws, strict=True)
        expected = [round_scalar(float(x), FORMATS[name], rounding="stochastic", draw=d) for x, d in pairs]
        actual = round_to(values, name, rounding="stochastic", generator=np.random.default_rng(seed))
        assert same_bits(actual, expected).all()


def test_float64_is_rounded_once_where_a_detour_through_float32_would_round_twice():
    x = 1 + 2.0**-11 + 2.0**-30  # just above a tie of float16; float32 would land on the tie, and then on even
    assert round_to(np.float64(x), "float16") == 1 + 2.0**-10
    assert round_to(np.float32(x), "float16") == 1.0


@pytest.mark.parametrize("function", [round_to, lambda x, f, **rule: round_scalar(x, FORMATS[f], **rule)])
class TestRulesOfBoth:
    def test_overflow_is_an_argument(self, function):
        assert function(1e6, "float16") == np.inf
        assert np.isnan(function(1e6, "float16", overflow="nan"))
        assert function(-1e6, "float16", overflow="saturate") == -65504.0
        assert np.isnan(function(464.1, "float8_e4m3fn"))
        assert function(464.1, "float8_e4m3fn", overflow="saturate") == 448.0

    def test_infinity_saturates_too(self, function):
        assert function(-np.inf, "float8_e5m2", overflow="saturate") == -57344.0
        assert function(np.inf, "float4_e2m1fn") == 6.0

    def test_directed_rounding_keeps_a_finite_value_finite_but_not_an_infinity(self, function):
        assert function(1e9, "float16", rounding="toward_zero") == 65504.0
        assert function(-1e9, "float16", rounding="toward_positive", overflow="nan") == -65504.0
        assert function(1e9, "float16", rounding="toward_positive") == np.inf
        assert function(np.inf, "float16", rounding="toward_zero") == np.inf

    def test_nan_stays_nan_even_where_the_format_has_none(self, function):
        assert np.isnan(function(np.nan, "float6_e2m3fn"))
        assert np.isnan(function(np.nan, "float8_e5m2", overflow="saturate"))

    def test_negative_zero_survives_only_where_the_format_has_it(self, function):
        assert np.signbit(function(-1e-9, "float8_e4m3fn"))
        assert not np.signbit(function(-1e-9, "float8_e4m3fnuz"))

    def test_flush_keeps_the_sign_and_the_smallest_normal_number(self, function):
        flushed = function(-(2.0**-15), "float16", subnormals="flush")
        assert flushed == 0
        assert np.signbit(flushed)
        assert function(2.0**-14, "float16", subnormals="flush") == 2.0**-14

    @pytest.mark.parametrize(
        ("rule", "message"),
        [
            ({"rounding": "nearest"}, r"'nearest'.*nearest_even.*stochastic"),
            ({"overflow": "infinity"}, r"float8_e4m3fn has no infinity: overflow can be nan or saturate"),
            ({"overflow": "clip"}, r"'clip'.*nan or saturate"),
            ({"subnormals": "ftz"}, r"'ftz'.*keep, flush"),
            ({"rounding": "stochastic"}, r"stochastic rounding needs"),
        ],
    )
    def test_rule_that_is_none_is_refused_with_those_that_are(self, function, rule, message):
        with pytest.raises(InputError, match=message):
            function(1.0, "float8_e4m3fn", **rule)

"""Codes to values and back, over every code of every format of up to 16 bits."""

from __future__ import annotations

import numpy as np
import pytest
from gfloat import decode_float

from mixte import InputError
from mixte.formats import FORMATS, decode, encode, is_member

NARROW = sorted(name for name, fmt in FORMATS.items() if fmt.bits <= 16)


@pytest.mark.parametrize("name", NARROW)
def test_every_code_decodes_as_in_the_library(name, ml_dtype, same_bits):
    fmt = FORMATS[name]
    codes = np.arange(2**fmt.bits, dtype=np.uint16 if fmt.bits == 16 else np.uint8)
    with np.errstate(invalid="ignore"):  # signalling NaN
        expected = codes.view(ml_dtype(name)).astype(np.float32)
    assert same_bits(decode(codes, fmt), expected).all()


def test_codes_of_tf32_decode_as_in_gfloat(gfloat_format, same_bits):
    codes = np.random.default_rng(1).integers(0, 2**19, 2000)
    expected = [decode_float(gfloat_format("tf32"), int(code)).fval for code in codes]
    assert same_bits(decode(codes, "tf32"), expected).all()


def test_codes_of_float32_are_its_bit_patterns(same_bits):
    codes = np.random.default_rng(2).integers(0, 2**32, 100_000, dtype=np.uint32)
    assert same_bits(decode(codes, "float32"), codes.view(np.float32)).all()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_code_that_is_a_number_survives_a_round_trip(name):
    fmt = FORMATS[name]
    codes = np.arange(2**fmt.bits) if fmt.bits <= 19 else np.arange(0, 2**32, 9973)
    values = decode(codes, fmt)
    numbers = ~np.isnan(values)
    assert np.array_equal(encode(values[numbers], fmt), codes[numbers])


@pytest.mark.parametrize("name", [name for name in NARROW if FORMATS[name].has_nan])
def test_nan_encodes_as_a_nan_of_the_format(name, ml_dtype):
    code = encode(np.array([np.nan]), name)
    assert np.isnan(code.view(ml_dtype(name)).astype(np.float32)).all()


@pytest.mark.parametrize(
    ("name", "dtype"), [("float4_e2m1fn", "uint8"), ("float16", "uint16"), ("tf32", "uint32")]
)
def test_codes_use_the_narrowest_unsigned_integer(name, dtype):
    assert encode(1.0, name).dtype == dtype


def test_value_between_two_numbers_is_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"0\.1.*float16.*round_to"):
        encode([1.0, 0.1], "float16")


@pytest.mark.parametrize(
    ("value", "name"), [(-0.0, "float8_e4m3fnuz"), (np.nan, "float4_e2m1fn"), (np.inf, "float8_e4m3fn")]
)
def test_special_value_that_the_format_lacks_is_refused(value, name):
    with pytest.raises(InputError, match=name):
        encode(value, name)


def test_membership_tells_what_a_format_has():
    values = np.array([0.5, 0.3, -0.0, np.inf, np.nan, 448.0, 480.0])
    assert is_member(values, "float8_e4m3fn").tolist() == [True, False, True, False, True, True, False]
    assert is_member(values, "float8_e4m3fnuz").tolist() == [True, False, False, False, True, False, False]


@pytest.mark.parametrize("codes", [[256], [-1], [0.5]])
def test_code_that_is_none_is_refused(codes):
    with pytest.raises(InputError, match="codes"):
        decode(codes, "float8_e5m2")


def test_a_single_code_and_a_single_value_are_taken():
    assert decode(0xC000, "float16") == -2.0
    assert encode(-2.0, "float16") == 0xC000


def test_no_code_decodes_to_no_value():
    assert decode(np.array([], np.uint8), "float8_e5m2").shape == (0,)

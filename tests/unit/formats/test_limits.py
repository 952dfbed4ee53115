"""The derived limits, against ml_dtypes, numpy and gfloat, and against published figures."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mixte import InputError
from mixte.formats import FLOAT8_E4M3FN, FLOAT16, FORMATS, float_format

ALL = sorted(FORMATS)
WITH_DTYPE = [name for name in ALL if name != "tf32"]


@pytest.mark.parametrize("name", WITH_DTYPE)
def test_limits_are_those_of_ml_dtypes(name, ml_dtype):
    fmt, info = FORMATS[name], ml_dtypes.finfo(ml_dtype(name))
    assert fmt.bits == info.bits
    assert fmt.mantissa_bits == info.nmant
    assert fmt.max == float(info.max)
    assert fmt.min_normal == float(info.smallest_normal)
    assert fmt.epsilon == float(info.eps)
    assert fmt.smallest == float(info.smallest_subnormal)


@pytest.mark.parametrize("name", ALL)
def test_limits_are_those_of_gfloat(name, gfloat_format):
    fmt, info = FORMATS[name], gfloat_format(name)
    assert fmt.bits == info.bits
    assert (fmt.min, fmt.max) == (info.min, info.max)
    assert fmt.emax == info.emax
    assert fmt.min_normal == info.smallest_normal
    assert fmt.smallest == info.smallest
    assert fmt.has_zero == info.has_zero
    assert fmt.has_negative_zero == info.has_nz
    assert fmt.has_infinity == (info.num_posinfs == 1)
    assert sum(len(codes) for codes in fmt.nan_codes) == info.num_nans


@pytest.mark.parametrize("name", [name for name in WITH_DTYPE if FORMATS[name].bits <= 16])
def test_nan_codes_are_exactly_those_that_the_library_reads_as_nan(name, ml_dtype):
    fmt, dtype = FORMATS[name], ml_dtype(name)
    codes = np.arange(2**fmt.bits, dtype=np.uint16 if fmt.bits == 16 else np.uint8)
    nan = np.isnan(codes.view(dtype).astype(np.float32))
    assert [code for codes in fmt.nan_codes for code in codes] == np.flatnonzero(nan).tolist()


@pytest.mark.parametrize("name", [name for name in WITH_DTYPE if name != "float8_e8m0fnu"])
def test_overflow_and_zero_boundaries_are_where_the_library_crosses_them(name, ml_dtype):
    fmt, dtype = FORMATS[name], ml_dtype(name)
    if fmt.has_nan:
        with np.errstate(over="ignore"):
            edge = np.array([fmt.overflow_boundary, np.nextafter(fmt.overflow_boundary, 0)])
            rounded = edge.astype(dtype).astype(np.float64)
        assert np.isfinite(rounded[0]) != fmt.overflow_boundary_overflows
        assert rounded[1] == fmt.max
    edge = np.array([fmt.zero_boundary, np.nextafter(fmt.zero_boundary, 1)])
    assert edge.astype(dtype).astype(np.float64).tolist() == [0.0, fmt.min_subnormal]


def test_published_boundaries_of_float16_and_float8():
    assert (FLOAT16.overflow_boundary, FLOAT16.overflow_boundary_overflows) == (65520.0, True)
    assert FLOAT16.zero_boundary == 2.0**-25
    assert (FLOAT8_E4M3FN.overflow_boundary, FLOAT8_E4M3FN.overflow_boundary_overflows) == (464.0, False)


def test_format_without_zero_has_no_subnormals_and_no_zero_boundary():
    fmt = FORMATS["float8_e8m0fnu"]
    assert fmt.min_subnormal is None
    assert fmt.zero_boundary is None
    assert not fmt.overflow_boundary_overflows  # 1.5 * 2**127 goes to the even code, that of 2**127


def test_format_is_found_by_name_and_passes_through():
    assert float_format("float16") is FLOAT16
    assert float_format(FLOAT16) is FLOAT16
    assert str(FLOAT16) == "float16"


def test_unknown_format_names_the_nearest_and_all_others():
    with pytest.raises(InputError, match=r"'float18'.*Did you mean 'float16'\?.*bfloat16"):
        float_format("float18")


def test_a_format_cannot_be_changed():
    with pytest.raises(AttributeError):
        FLOAT16.bias = 3

"""Oracles that this project did not write, and the values to try them on."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from gfloat import Domain, FormatInfo

from mixte.formats import FORMATS, decode

# name: (code width, precision with the hidden bit, bias, infinities, negative zero, NaN codes at the top of
# each sign, subnormals), written from the specifications and independent of the records under test.
_GFLOAT = {
    "float32": (32, 24, 127, True, True, 2**23 - 1, True),
    "tf32": (19, 11, 127, True, True, 2**10 - 1, True),
    "float16": (16, 11, 15, True, True, 2**10 - 1, True),
    "bfloat16": (16, 8, 127, True, True, 2**7 - 1, True),
    "float8_e5m2": (8, 3, 15, True, True, 3, True),
    "float8_e4m3fn": (8, 4, 7, False, True, 1, True),
    "float8_e5m2fnuz": (8, 3, 16, False, False, 0, True),
    "float8_e4m3fnuz": (8, 4, 8, False, False, 0, True),
    "float8_e4m3b11fnuz": (8, 4, 11, False, False, 0, True),
    "float8_e4m3": (8, 4, 7, True, True, 7, True),
    "float8_e3m4": (8, 5, 3, True, True, 15, True),
    "float8_e8m0fnu": (8, 1, 127, False, False, 1, False),
    "float6_e2m3fn": (6, 4, 1, False, True, 0, True),
    "float6_e3m2fn": (6, 3, 3, False, True, 0, True),
    "float4_e2m1fn": (4, 2, 1, False, True, 0, True),
}


@pytest.fixture(scope="session")
def gfloat_format():
    """Return gfloat's description of a format, by its name."""

    def describe(name):
        width, precision, bias, infinities, negative_zero, high_nans, subnormals = _GFLOAT[name]
        return FormatInfo(
            name,
            width,
            precision,
            bias=bias,
            is_signed=name != "float8_e8m0fnu",
            domain=Domain.Extended if infinities else Domain.Finite,
            has_nz=negative_zero,
            num_high_nans=high_nans,
            has_subnormals=subnormals,
            is_twos_complement=False,
        )

    return describe


@pytest.fixture(scope="session")
def ml_dtype():
    """Return the dtype of numpy or ml_dtypes of a format's name, or None for tf32, which has none."""

    def find(name):
        if name == "tf32":
            return None
        return np.dtype(name) if name in {"float16", "float32"} else np.dtype(getattr(ml_dtypes, name))

    return find


@pytest.fixture(scope="session")
def codes_of_16_bits():
    """All 65,536 patterns of float16 and of bfloat16, as float32 values: NaN, infinities and both zeros too."""
    codes = np.arange(65536, dtype=np.uint16)
    return np.concatenate([decode(codes, "float16"), decode(codes, "bfloat16")])


@pytest.fixture(scope="session")
def hard_values(codes_of_16_bits):
    """Return float64 values that are hard for a format.

    Every number of the format (of 16 bits or fewer; tf32 and float32: those of bfloat16), every midpoint of two
    neighbours, both with their float64 neighbours on either side, and every 16-bit pattern.
    """

    def values(name):
        fmt = FORMATS[name if FORMATS[name].bits <= 16 else "bfloat16"]
        numbers = decode(np.arange(2**fmt.bits), fmt).astype(np.float64)
        numbers = np.unique(numbers[np.isfinite(numbers)])
        beyond = 2 * numbers[-1] - numbers[-2]
        grid = np.concatenate([[-beyond], numbers, [beyond]])
        exact = np.concatenate([grid, (grid[1:] + grid[:-1]) / 2])
        around = [np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)]
        extremes = [0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300, np.inf, -np.inf, np.nan]
        return np.concatenate([exact, *around, extremes, codes_of_16_bits.astype(np.float64)])

    return values


@pytest.fixture(scope="session")
def same_bits():
    """Return a comparison of arrays that tells -0 from +0 and takes every NaN for the same."""

    def compare(actual, expected):
        with np.errstate(invalid="ignore"):  # a signalling NaN that becomes a quiet one
            actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
        both_nan = np.isnan(actual) & np.isnan(expected)
        return both_nan | ((actual == expected) & (np.signbit(actual) == np.signbit(expected)))

    return compare

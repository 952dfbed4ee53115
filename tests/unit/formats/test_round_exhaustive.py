"""Rounding, exhaustively, against ml_dtypes (nearest even) and gfloat (every deterministic mode)."""

from __future__ import annotations

import numpy as np
import pytest
from gfloat import RoundMode
from gfloat.round_ndarray import round_ndarray

from mixte.formats import FORMATS, round_to

MODES = {
    "nearest_even": RoundMode.TiesToEven,
    "nearest_away": RoundMode.TiesToAway,
    "toward_zero": RoundMode.TowardZero,
    "toward_positive": RoundMode.TowardPositive,
    "toward_negative": RoundMode.TowardNegative,
}
WITH_DTYPE = sorted(name for name in FORMATS if name not in {"tf32", "float8_e8m0fnu"})
SIGNED = sorted(name for name in FORMATS if name != "float8_e8m0fnu")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", WITH_DTYPE)
def test_nearest_even_is_the_cast_of_the_library(name, dtype, hard_values, ml_dtype, same_bits):
    with np.errstate(over="ignore"):
        values = hard_values(name).astype(dtype)
        if not FORMATS[name].has_nan:
            values = values[~np.isnan(values)]
        # One rounding: numpy and ml_dtypes 0.7 convert float64 directly. ml_dtypes 0.5.4 went through float32.
        expected = values.astype(ml_dtype(name)).astype(np.float64)
    assert same_bits(round_to(values, name), expected).all()


@pytest.mark.parametrize("rounding", sorted(MODES))
@pytest.mark.parametrize("name", SIGNED)
def test_every_mode_agrees_with_gfloat(name, rounding, hard_values, gfloat_format, same_bits):
    fmt, values = FORMATS[name], hard_values(name)
    rules = [None, "saturate"]
    if not fmt.has_nan:  # gfloat refuses what the format cannot hold
        values, rules = values[~np.isnan(values)], ["saturate"]
    for rule in rules:
        with np.errstate(over="ignore"):
            expected = round_ndarray(gfloat_format(name), values, MODES[rounding], sat=rule == "saturate")
        assert same_bits(round_to(values, fmt, rounding=rounding, overflow=rule), expected).all()


@pytest.mark.parametrize("rounding", sorted(MODES))
@pytest.mark.parametrize("name", SIGNED)
def test_float32_arrays_round_as_the_same_values_in_float64(name, rounding, hard_values, same_bits):
    with np.errstate(over="ignore"):
        values = hard_values(name).astype(np.float32)
    narrow = round_to(values, name, rounding=rounding)
    assert narrow.dtype == np.float32
    assert same_bits(narrow, round_to(values.astype(np.float64), name, rounding=rounding)).all()


@pytest.mark.parametrize("rounding", sorted(MODES))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_two_agree_with_gfloat_inside_their_range(rounding, dtype, gfloat_format, same_bits):
    # gfloat does not say what lies below 2**-127; ml_dtypes breaks ties upward, gfloat to the even exponent.
    exponents = np.arange(-126, 127, dtype=np.float64)
    grid = np.concatenate([np.exp2(exponents) * factor for factor in (1.0, 1.25, 1.5, 1.75)]).astype(dtype)
    info = gfloat_format("float8_e8m0fnu")
    expected = round_ndarray(info, grid.astype(np.float64), MODES[rounding], sat=True)
    assert same_bits(round_to(grid, "float8_e8m0fnu", rounding=rounding, overflow="saturate"), expected).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_two_rounded_away_are_the_cast_of_ml_dtypes(dtype, ml_dtype, same_bits):
    values = np.array(
        [1.5, 3.0, 1e-45, 2.0**-127, 2.0**-126, 3e38, 0.0, -0.0, -1.0, np.inf, -np.inf, np.nan], dtype
    )
    expected = values.astype(ml_dtype("float8_e8m0fnu")).astype(np.float64)
    assert same_bits(round_to(values, "float8_e8m0fnu", rounding="nearest_away"), expected).all()

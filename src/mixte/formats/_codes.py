"""From values to the bit patterns of a format, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixte._errors import InputError
from mixte.formats._array import as_floats, round_to, widened
from mixte.formats._table import float_format

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from mixte.formats._float import FloatFormat


def is_member(x: ArrayLike, fmt: FloatFormat | str) -> NDArray[np.bool_]:
    """Say of every element whether the format has exactly this value.

    NaN and infinities count as members of a format that has them, and -0 of one that has a negative zero.

    Args:
        x: Array of any shape, of a dtype that :func:`round_to` takes.
        fmt: The format, or its name.

    Returns:
        bool, of the shape of ``x``.
    """
    fmt = float_format(fmt)
    values = as_floats(x)
    rounded = round_to(values, fmt)
    same = (rounded == values) & (np.signbit(rounded) == np.signbit(values))
    return same | np.isnan(values) if fmt.has_nan else same


def encode(x: ArrayLike, fmt: FloatFormat | str) -> NDArray[np.unsignedinteger[Any]]:
    """Return the code of every element.

    Args:
        x: Values that the format has; round them first with :func:`round_to`.
        fmt: The format, or its name.

    Returns:
        uint8 for formats of up to 8 bits, else uint16 or uint32, of the shape of ``x``. NaN becomes the quiet
        NaN with a clear sign bit and no payload, or the format's only one.

    Raises:
        InputError: A value that the format does not have.

    Example:
        >>> hex(encode(1.0, "float16").item())
        '0x3c00'
    """
    fmt = float_format(fmt)
    values = widened(as_floats(x), np.float64)
    member = is_member(values, fmt)
    if not member.all():
        raise InputError(
            f"{values[~member].flat[0]!r} is not a number of {fmt.name}: round the array with round_to first."
        )
    magnitude = np.where(np.isfinite(values), np.abs(values), 0.0)
    exponent = np.where(magnitude > 0, np.maximum(np.frexp(magnitude)[1] - 1, fmt.emin), fmt.emin)
    significand = np.ldexp(magnitude, fmt.mantissa_bits - exponent).astype(np.int64)
    # A normal significand has bit mantissa_bits set, which adds the 1 by which its exponent field exceeds
    # exponent - emin; a subnormal one has not, and its exponent is emin.
    codes = significand + ((exponent - fmt.emin) << fmt.mantissa_bits)
    if not fmt.is_signed:  # the significand is always 1, and the smallest exponent has the field 0
        codes = exponent - fmt.emin
    codes = np.where(np.isinf(values), (2**fmt.exponent_bits - 1) << fmt.mantissa_bits, codes)
    codes = np.where(np.signbit(values), codes | 1 << (fmt.bits - 1), codes)
    if fmt.has_nan:
        codes = np.where(np.isnan(values), _quiet_nan(fmt), codes)
    return codes.astype(_code_dtype(fmt))


def decode(codes: ArrayLike, fmt: FloatFormat | str) -> NDArray[np.float32]:
    """Return the value of every code.

    Args:
        codes: Integers in [0, 2**bits), any shape and integer dtype.
        fmt: The format, or its name.

    Returns:
        float32, which holds every number of every format here. Every NaN code gives the same NaN.

    Raises:
        InputError: A code out of range, or codes that are not integers.

    Example:
        >>> float(decode(0x7E, "float8_e4m3fn"))
        448.0
    """
    fmt = float_format(fmt)
    array = np.asarray(codes)
    if array.dtype.kind not in "iu":
        raise InputError(f"codes must be integers, got dtype {array.dtype}.")
    wide = array.astype(np.int64)
    if wide.size and (wide.min() < 0 or wide.max() >= 2**fmt.bits):
        raise InputError(f"codes of {fmt.name} lie in [0, {2**fmt.bits}), got {wide.min()} to {wide.max()}.")
    mantissa = wide & (2**fmt.mantissa_bits - 1)
    field = (wide >> fmt.mantissa_bits) & (2**fmt.exponent_bits - 1)
    subnormal = (field == 0) & fmt.has_zero
    significand = mantissa + np.where(subnormal, 0, 2**fmt.mantissa_bits)
    exponent = np.where(subnormal, 1, field) - fmt.bias - fmt.mantissa_bits
    values = np.asarray(np.ldexp(significand.astype(np.float64), exponent))
    if fmt.has_infinity:
        values[field == 2**fmt.exponent_bits - 1] = np.inf
    if fmt.is_signed:
        np.negative(values, out=values, where=(wide >> (fmt.bits - 1)) == 1)
    for nan in fmt.nan_codes:
        values[(wide >= nan.start) & (wide < nan.stop)] = np.nan
    return values.astype(np.float32)


def _quiet_nan(fmt: FloatFormat) -> int:
    if fmt.specials == "ieee":  # the highest mantissa bit marks it as quiet
        return ((2**fmt.exponent_bits - 1) << fmt.mantissa_bits) | (1 << (fmt.mantissa_bits - 1))
    return fmt.nan_codes[0].start


def _code_dtype(fmt: FloatFormat) -> type[np.unsignedinteger[Any]]:
    if fmt.bits <= 8:
        return np.uint8
    return np.uint16 if fmt.bits <= 16 else np.uint32

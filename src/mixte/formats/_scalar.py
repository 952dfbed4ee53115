"""Rounding one number, exactly: the readable definition that the array code is tested against."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from mixte._errors import InputError
from mixte.formats._modes import check_overflow, check_rounding, check_subnormals

if TYPE_CHECKING:
    from mixte.formats._float import FloatFormat
    from mixte.formats._modes import Overflow, Rounding, Subnormals


def round_scalar(
    x: float,
    fmt: FloatFormat,
    *,
    rounding: Rounding = "nearest_even",
    overflow: Overflow | None = None,
    subnormals: Subnormals = "keep",
    draw: Fraction | None = None,
) -> float:
    """Round one number to a format, in exact rational arithmetic.

    The same function as :func:`mixte.formats.round_to`, thousands of times slower and written to be read.

    Args:
        x: Any float, infinities and NaN included.
        fmt: The format.
        rounding: The rounding mode.
        overflow: What becomes of a value beyond the format; the format's own rule if None.
        subnormals: Whether subnormal results are kept or become zero.
        draw: For ``"stochastic"`` only: a number in [0, 1). The result is the neighbour of larger magnitude
            if draw plus the distance to the other, in units of the gap, is at least 1.

    Returns:
        A number of the format, or NaN. NaN stays NaN, even in a format without NaN: hiding it would be worse.

    Raises:
        InputError: A rule that the format does not allow, or a draw that is missing or out of range.
    """
    rounding, overflow = check_rounding(rounding), check_overflow(fmt, overflow)
    flush = check_subnormals(subnormals) == "flush"
    negative = math.copysign(1.0, x) < 0
    if math.isnan(x) or (not fmt.is_signed and x <= 0):
        return math.nan
    magnitude = math.inf if math.isinf(x) else _round_magnitude(Fraction(abs(x)), negative, fmt, rounding, draw)
    if magnitude > fmt.max:
        return _beyond(negative, fmt, rounding if math.isfinite(x) else "nearest_even", overflow)
    result = float(magnitude)
    if flush and result < fmt.min_normal:
        result = 0.0
    if negative and (result or fmt.has_negative_zero):
        return -result
    return result


def _round_magnitude(
    x: Fraction, negative: bool, fmt: FloatFormat, rounding: Rounding, draw: Fraction | None
) -> Fraction:
    """Round |x|, as if the format had no largest number."""
    if not fmt.has_zero and x < Fraction(fmt.smallest):
        return Fraction(fmt.smallest)
    gap = _gap(x, fmt)
    below = x // gap
    fraction = x / gap - below
    return (below + _goes_away(fraction, _is_odd(below, gap, fmt), negative, rounding, draw)) * gap


def _gap(x: Fraction, fmt: FloatFormat) -> Fraction:
    """The distance between the two numbers of the format that enclose x."""
    if x == 0:
        return Fraction(fmt.smallest)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    return Fraction(2) ** (max(exponent, fmt.emin) - fmt.mantissa_bits)


def _is_odd(below: int, gap: Fraction, fmt: FloatFormat) -> bool:
    """Whether the code of the neighbour nearer to zero is odd."""
    if fmt.mantissa_bits:
        return below % 2 == 1
    exponent = gap.numerator.bit_length() - gap.denominator.bit_length()
    return (exponent + fmt.bias) % 2 == 1


def _goes_away(
    fraction: Fraction, odd: bool, negative: bool, rounding: Rounding, draw: Fraction | None
) -> bool:
    """Whether the neighbour of larger magnitude is taken, at a given fraction of the gap above the other."""
    half = Fraction(1, 2)
    match rounding:
        case "nearest_even":
            return fraction > half or (fraction == half and odd)
        case "nearest_away":
            return fraction >= half
        case "toward_zero":
            return False
        case "toward_positive":
            return fraction > 0 and not negative
        case "toward_negative":
            return fraction > 0 and negative
        case "stochastic":
            if draw is None or not 0 <= draw < 1:
                raise InputError(f"stochastic rounding needs a draw in [0, 1), got {draw}.")
            return draw + fraction >= 1


def _beyond(negative: bool, fmt: FloatFormat, rounding: Rounding, overflow: Overflow) -> float:
    """The result for a magnitude that lies beyond the largest finite number."""
    sign = -1.0 if negative else 1.0
    stays_finite = rounding in {"toward_zero", "toward_positive" if negative else "toward_negative"}
    if stays_finite or overflow == "saturate":
        return sign * fmt.max
    return sign * math.inf if overflow == "infinity" else math.nan

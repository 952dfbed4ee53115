"""One output of a matrix product, in exact rational arithmetic: the readable definition of the arithmetic.

The array code is tested against it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from mixte.formats import FLOAT16, FLOAT32, round_scalar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.tensorcore._unit import Conversion, DotUnit

_PAIRED = 32  # products that the two float16 instructions of a float8 mma.sync share out


def dot_scalar(
    a: Sequence[float],
    b: Sequence[float],
    c: float,
    unit: DotUnit,
    *,
    scales: tuple[Sequence[float], Sequence[float]] | None = None,
    scale_emin: int = -127,
) -> float:
    """Compute c + a_1 b_1 + ... + a_K b_K as the unit does, chained over K.

    The same function as :func:`mixte.tensorcore.matmul`, for one output and one chain; tens of thousands of
    times slower, and written to be read.

    Args:
        a: K numbers of the unit's first input format.
        b: K numbers of its second.
        c: Where the chain starts, a number of the accumulator's format.
        unit: The rules.
        scales: For a block format, the scale of each of the K elements, for a and b; powers of two unless the
            unit groups its products.
        scale_emin: The exponent of a subnormal scale.

    Returns:
        A number of the accumulator's format.
    """
    ones = [1.0] * len(a)
    scale_a, scale_b = scales or (ones, ones)
    factors = list(zip(a, b, scale_a, scale_b, strict=True))
    if not unit.adds_c_last:
        for start in range(0, len(factors), unit.block):
            c = _block(factors[start : start + unit.block], c, unit, scale_emin)
        return c
    for start in range(0, len(factors), _PAIRED):
        share = factors[start : start + _PAIRED]
        first = _block([x for k, x in enumerate(share) if k // 2 % 2 == 0], 0.0, unit, scale_emin)
        both = _block([x for k, x in enumerate(share) if k // 2 % 2 == 1], first, unit, scale_emin)
        target = FLOAT16 if unit.conversion == "float16_nearest_even" else FLOAT32
        c = round_scalar(c + both, target)  # c + both is exact in float64, or the double rounding is harmless
    return c


def _block(
    factors: Sequence[tuple[float, float, float, float]], c: float, unit: DotUnit, scale_emin: int
) -> float:
    """One block: exact products, one alignment, truncation, an exact sum, one conversion."""
    special = _non_finite(factors, c)
    if special is not None:
        return special
    terms = _terms(factors, unit, scale_emin)
    terms.append((Fraction(c), _exponent(c, FLOAT32.emin)))
    present = [exponent for value, exponent in terms if value]
    if not present:
        return 0.0
    largest = max(present)
    if unit.exponent_floor is not None:
        largest = max(largest, unit.exponent_floor)
    quantum = Fraction(2) ** (largest - unit.fraction_bits)
    return _convert(sum((_truncate(value, quantum) for value, _ in terms), Fraction(0)), unit.conversion)


def _non_finite(factors: Sequence[tuple[float, float, float, float]], c: float) -> float | None:
    """The result where infinities or NaN decide it: what IEEE arithmetic gives; None where they do not."""
    if all(math.isfinite(x) for x in (c, *(x for factor in factors for x in factor))):
        return None
    terms = [c, *(math.prod(factor) for factor in factors if not all(map(math.isfinite, factor)))]
    return sum(x for x in terms if not math.isfinite(x))


def _terms(
    factors: Sequence[tuple[float, float, float, float]], unit: DotUnit, scale_emin: int
) -> list[tuple[Fraction, int]]:
    """The terms of a block: exact values, and the exponents by which they are aligned."""
    if unit.group == 1:
        low_a, low_b = unit.emin
        return [
            (
                Fraction(x) * Fraction(y) * Fraction(s) * Fraction(t),
                _exponent(x, low_a) + _exponent(y, low_b) + _exponent(s, scale_emin) + _exponent(t, scale_emin),
            )
            for x, y, s, t in factors
        ]
    terms: list[tuple[Fraction, int]] = []
    for start in range(0, len(factors), unit.group):
        group = factors[start : start + unit.group]
        _, _, s, t = group[0]
        total = sum((Fraction(x) * Fraction(y) for x, y, _, _ in group), Fraction(0))
        exponent = _exponent(s, scale_emin) + _exponent(t, scale_emin)
        terms.append((total * Fraction(s) * Fraction(t), exponent))
    return terms


def _exponent(x: float, emin: int) -> int:
    """The exponent of x as the unit reads it: that of a subnormal is emin."""
    return max(math.frexp(x)[1] - 1, emin)


def _truncate(x: Fraction, quantum: Fraction) -> Fraction:
    """The multiple of quantum next to x toward zero."""
    return math.trunc(x / quantum) * quantum


def _convert(total: Fraction, conversion: Conversion) -> float:
    """Convert the exact sum; a zero result is +0, whatever the sign of the sum."""
    if conversion == "float16_nearest_even":
        return round_scalar(float(total), FLOAT16) + 0.0  # exact: a sum has fewer than 53 bits
    mantissa_bits = 23 if conversion == "float32_toward_zero" else 13
    exponent = max(math.frexp(float(total))[1] - 1, FLOAT32.emin)
    truncated = float(_truncate(total, Fraction(2) ** (exponent - mantissa_bits)))
    if abs(truncated) >= 2.0 ** (FLOAT32.emax + 1):
        return math.copysign(math.inf, truncated)
    return truncated + 0.0

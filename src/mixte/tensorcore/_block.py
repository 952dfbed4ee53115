"""One block of the chain for a tile of outputs: align, truncate, add, convert.

There are two implementations of the same arithmetic. ``narrow_block`` works on float32 products and int32
terms and is several times faster; ``fits_narrow`` says for which operands it is exact. ``wide_block`` works in
float64, takes infinities, NaN and every exponent, and is exact always.

Shapes: a is (L, batch, M, 1), b is (L, batch, 1, N), the accumulator (batch, M, N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mixte.formats import FLOAT16, FLOAT32, FloatFormat, round_to
from mixte.tensorcore._operand import ABSENT, Operand

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mixte.tensorcore._unit import Conversion, DotUnit

Accumulator: TypeAlias = "NDArray[np.float32]"

_E8M13 = FloatFormat(
    name="e8m13", exponent_bits=8, mantissa_bits=13, bias=127, specials="ieee", source="arXiv 2511.10909"
)

_LOWEST = -100
"""The smallest exponent of a product, and of the accumulator, for which float32 is wide enough.

With every exponent in [_LOWEST, _HIGHEST] and F <= 25, the scale factors 2**(F - E) and 2**(E - F) are normal
float32 numbers, and every accumulator is a multiple of 2**(_LOWEST - F): raising E to _LOWEST loses nothing.
"""
_HIGHEST = 120
_NARROW_FRACTION_BITS = 25
_NARROW_TERMS = 16
"""Terms whose sum stays in int32: each is below 2**(F + 2) * (1 - 2**-11)**2, for significands of 11 bits."""
_BIAS = 127  # of the exponent field of a float32
_NO_FLOOR = -600  # below every exponent that operands and accumulators can have


def fits_narrow(a: Operand, b: Operand, c: Accumulator, unit: DotUnit) -> bool:
    """Whether ``narrow_block`` is exact for these operands and this accumulator, over the whole chain."""
    if unit.group > 1 or unit.fraction_bits > _NARROW_FRACTION_BITS:
        return False
    (low_a, high_a), (low_b, high_b) = _exponent_range(a.exponents), _exponent_range(b.exponents)
    if max(high_a, high_b, high_a + high_b) > _HIGHEST or min(low_a, low_b, low_a + low_b) < _LOWEST:
        return False  # infinities and NaN are among them: their bits spell the exponent 128
    return bool(np.all((np.abs(c) >= 2.0**_LOWEST) | (c == 0) | np.isnan(c)))


def _exponent_range(exponents: NDArray[np.int16]) -> tuple[int, int]:
    """The smallest exponent of a value that is not zero, and the largest; (0, ABSENT) if all are zero."""
    present = exponents > ABSENT // 2
    return int(exponents.min(initial=0, where=present)), int(exponents.max(initial=ABSENT))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scratch:
    """Buffers of one tile, allocated once for the whole chain."""

    largest: NDArray[np.int16]
    exponent: NDArray[np.int16]
    field: NDArray[np.uint32]
    product: NDArray[np.float32]
    term: NDArray[np.int32]
    terms: NDArray[np.int32]
    total: NDArray[np.float64]
    wide: NDArray[np.float64]

    @classmethod
    def of_shape(cls, shape: tuple[int, ...]) -> Scratch:
        """Allocate the buffers for outputs of this shape."""
        return cls(
            largest=np.empty(shape, np.int16),
            exponent=np.empty(shape, np.int16),
            field=np.empty(shape, np.uint32),
            product=np.empty(shape, np.float32),
            term=np.empty(shape, np.int32),
            terms=np.empty(shape, np.int32),
            total=np.empty(shape, np.float64),
            wide=np.empty(shape, np.float64),
        )


def narrow_block(a: Operand, b: Operand, acc: Accumulator, unit: DotUnit, work: Scratch) -> None:
    """Add one block to the accumulator in place, where ``fits_narrow`` holds."""
    largest, field, accumulator = work.largest, work.field, work.term.view(np.uint32)
    _largest_product(a, b, work)
    floor = _LOWEST if unit.exponent_floor is None else max(_LOWEST, unit.exponent_floor)
    np.maximum(largest, np.int16(floor), out=largest)
    # Bit patterns of float32 numbers, of which only the exponent field is set: 2**E for the products, the
    # accumulator's (0 for a zero), then 2**(F - E), whose field is twice the bias plus F minus that of 2**E.
    largest += np.int16(_BIAS)
    np.copyto(field, largest, casting="unsafe")
    field <<= np.uint32(23)
    np.bitwise_and(acc.view(np.uint32), np.uint32(0xFF << 23), out=accumulator)
    np.maximum(field, accumulator, out=field)
    np.subtract(np.uint32((2 * _BIAS + unit.fraction_bits) << 23), field, out=field)
    _sum_terms(a, b, acc, work)
    _convert_narrow(work, unit.conversion, acc)


def _largest_product(a: Operand, b: Operand, work: Scratch) -> None:
    """The largest exponent of a product, ABSENT or less if all are zero."""
    np.add(a.exponents[0], b.exponents[0], out=work.largest)
    for left, right in zip(a.exponents[1:], b.exponents[1:], strict=True):
        np.add(left, right, out=work.exponent)
        np.maximum(work.largest, work.exponent, out=work.largest)


def _sum_terms(a: Operand, b: Operand, acc: Accumulator, work: Scratch) -> None:
    """Sum products and accumulator in units of 2**(E - F), each truncated toward zero."""
    product, term, terms, total, wide = work.product, work.term, work.terms, work.total, work.wide
    reciprocal = work.field.view(np.float32)
    np.multiply(acc, reciprocal, out=product)
    np.trunc(product, out=product)
    np.copyto(total, product)
    for start in range(0, len(a.values), _NARROW_TERMS):
        stop = min(start + _NARROW_TERMS, len(a.values))
        for k in range(start, stop):
            np.multiply(a.values[k], b.values[k], out=product)
            np.multiply(product, reciprocal, out=product)
            # The conversion to an integer truncates toward zero.
            np.copyto(terms if k == start else term, product, casting="unsafe")
            if k > start:
                np.add(terms, term, out=terms)
        np.copyto(wide, terms)
        total += wide


def _convert_narrow(work: Scratch, conversion: Conversion, acc: Accumulator) -> None:
    """Convert the sum, scaled by ``work.field`` as a float32, and write it to the accumulator."""
    total, wide, reciprocal = work.total, work.wide, work.field.view(np.float32)
    match conversion:
        case "float16_nearest_even":
            np.copyto(wide, reciprocal)
            total /= wide
            np.copyto(acc, round_to(total, FLOAT16, out=total), casting="unsafe")
            acc += np.float32(0)  # a negative sum that underflows gives +0
        case "float32_toward_zero" | "e8m13_toward_zero":
            mantissa_bits = 23 if conversion == "float32_toward_zero" else 13
            bits = total.view(np.int64)
            bits &= np.int64(-1 << (52 - mantissa_bits))
            np.copyto(acc, total, casting="unsafe")
            acc /= reciprocal  # by a power of two: exact


def wide_block(a: Operand, b: Operand, acc: Accumulator, unit: DotUnit) -> None:
    """Add one block to the accumulator in place, for any operands."""
    terms = _wide_terms(a, b, unit.group)
    exponents = [left + right for left, right in zip(a.exponents, b.exponents, strict=True)]
    if unit.group > 1:  # the sum of a group can be zero although its scales are not
        pairs = zip(terms, exponents, strict=True)
        exponents = [np.where(term == 0, np.int16(ABSENT), exponent) for term, exponent in pairs]
    largest = exponents[0]
    for exponent in exponents[1:]:
        np.maximum(largest, exponent, out=largest)
    floor = _NO_FLOOR if unit.exponent_floor is None else unit.exponent_floor
    aligned = np.maximum(np.maximum(largest, np.int16(floor)), _accumulator_exponent(acc)).astype(np.int64)
    reciprocal = _power_of_two(unit.fraction_bits - aligned)
    total = np.trunc(acc * reciprocal)
    for term in terms:
        np.multiply(term, reciprocal, out=term)
        total += np.trunc(term, out=term)
    total *= _power_of_two(aligned - unit.fraction_bits)
    acc[...] = _convert_wide(total, unit.conversion)


def _wide_terms(a: Operand, b: Operand, group: int) -> list[NDArray[np.float64]]:
    """The terms of a block: products, or exact sums of a group of products.

    In a group all products are multiples of one power of two, few bits above it: float64 adds them exactly.
    """
    terms: list[NDArray[np.float64]] = []
    for k, (left, right) in enumerate(zip(a.values, b.values, strict=True)):
        product = np.multiply(left, right, dtype=np.float64)
        if k % group:
            terms[-1] += product
        else:
            terms.append(product)
    return terms


def _accumulator_exponent(acc: Accumulator) -> NDArray[np.int16]:
    """The exponent of the accumulator read as float32, that of a subnormal being -126; ABSENT for zero."""
    field = ((acc.view(np.int32) >> 23) & 0xFF).astype(np.int16)
    return np.where(acc == 0, np.int16(ABSENT), np.maximum(field - np.int16(_BIAS), np.int16(FLOAT32.emin)))


def _power_of_two(exponent: NDArray[np.int64]) -> NDArray[np.float64]:
    return ((exponent + 1023) << 52).view(np.float64)


def _convert_wide(total: NDArray[np.float64], conversion: Conversion) -> NDArray[Any]:
    if conversion == "float16_nearest_even":
        return round_to(total, FLOAT16) + 0.0
    fmt = FLOAT32 if conversion == "float32_toward_zero" else _E8M13
    truncated = round_to(total, fmt, rounding="toward_zero")
    overflowed = np.abs(total) >= 2.0 ** (fmt.emax + 1)  # infinity, although the mode is toward zero
    return np.where(overflowed, np.copysign(np.inf, total), truncated) + 0.0

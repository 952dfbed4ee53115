"""Operands as the unit reads them: values, and the exponent that each product takes from its factor."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mixte._errors import InputError
from mixte.formats import (
    BLOCK_FORMATS,
    FORMATS,
    BlockScaled,
    FloatFormat,
    Rounding,
    block_format,
    is_member,
    round_to,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from mixte.tensorcore._unit import DotUnit

Floats: TypeAlias = "NDArray[np.floating[Any]]"

ABSENT = -8192
"""The exponent of a zero: far below every other, and still within int16 when two are added."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operand:
    """One matrix of a product, ordered by k so that a block is one contiguous piece.

    Attributes:
        values: float32 or float64, shape (K, ..., rows): the numbers, a block's scale multiplied in.
        exponents: int16, shape (K / group, ..., rows): the exponent of each term's factor; ``ABSENT`` for zero.
        group: Values that share an exponent.
    """

    values: Floats
    exponents: NDArray[np.int16]
    group: int = 1

    def block(self, start: int, stop: int) -> Operand:
        """The part with start <= k < stop; ``start`` is a multiple of the group."""
        first, last = start // self.group, -(-stop // self.group)
        return replace(self, values=self.values[start:stop], exponents=self.exponents[first:last])

    def in_float32(self) -> Operand:
        """The same with float32 values, where they are exact in it; without a copy where they are float32."""
        return replace(self, values=self.values.astype(np.float32, copy=False))

    def take(self, ks: NDArray[np.intp]) -> Operand:
        """The given k, in that order; only for a group of 1."""
        return replace(self, values=self.values[ks], exponents=self.exponents[ks])

    def with_batch(self, batch: tuple[int, ...]) -> Operand:
        """Broadcast the axes between the first and the last to ``batch``, and make them one."""
        return replace(
            self, values=_one_batch_axis(self.values, batch), exponents=_one_batch_axis(self.exponents, batch)
        )

    def tile(self, batch: slice, rows: slice, side: int) -> Operand:
        """Some rows of A as (K, batch, rows, 1), or columns of B as (K, batch, 1, columns)."""
        index = (slice(None), batch, rows, None) if side == 0 else (slice(None), batch, None, rows)
        return replace(self, values=self.values[index], exponents=self.exponents[index])


def _one_batch_axis(x: NDArray[Any], batch: tuple[int, ...]) -> NDArray[Any]:
    length, *inner, rows = x.shape
    padded = x.reshape(length, *(1,) * (len(batch) - len(inner)), *inner, rows)
    return np.broadcast_to(padded, (length, *batch, rows)).reshape(length, math.prod(batch), rows)


def operand(
    x: ArrayLike | BlockScaled, name: str, unit: DotUnit, *, side: int, rounding: Rounding | None
) -> Operand:
    """Check one matrix against its format and take it apart.

    Args:
        x: A with shape (..., M, K) for side 0, B with shape (..., K, N) for side 1.
        name: The format that it must be in.
        unit: The unit that will read it.
        side: 0 for A, 1 for B.
        rounding: How to bring it into the format; None if it must be in it already.

    Raises:
        InputError: Not a matrix, not of the format, or blocks that do not lie along K.
    """
    axis = -1 if side == 0 else -2
    if name in BLOCK_FORMATS:
        return _block_scaled(x, name, unit, side, axis)
    if isinstance(x, BlockScaled):
        raise InputError(f"{'AB'[side]} is in the block format {x.format.name}, but input says {name}.")
    _check_matrix(np.ndim(x), side)
    values = np.moveaxis(_members(x, FORMATS[name], side, rounding), axis, 0)
    return Operand(values=np.ascontiguousarray(values), exponents=_exponents(values, unit.emin[side]))


def _check_matrix(ndim: int, side: int) -> None:
    if ndim < 2:
        raise InputError(
            f"{'AB'[side]} must be a matrix or a stack of matrices, got {ndim} dimension(s): "
            "reshape a vector to one row (A) or one column (B)."
        )


def _members(x: ArrayLike, fmt: FloatFormat, side: int, rounding: Rounding | None) -> NDArray[np.float32]:
    array = np.asarray(x)
    if rounding == "stochastic":
        raise InputError("operands are not rounded stochastically here: use mixte.formats.round_to first.")
    if rounding is None and fmt.name == "tf32":
        # The instruction reads float32 registers and ignores the lowest 13 bits.
        return np.asarray(round_to(round_to(array, "float32"), fmt, rounding="toward_zero"), np.float32)
    if rounding is not None:
        return np.asarray(round_to(array, fmt, rounding=rounding), np.float32)
    if array.dtype.name == fmt.name:
        return np.asarray(round_to(array, "float32"), np.float32)
    member = is_member(array, fmt)
    if not member.all():
        index = tuple(int(i) for i in np.argwhere(~member)[0])
        raise InputError(
            f"{'AB'[side]}{list(index)} = {array[index]} is not a number of {fmt.name}: round the array with "
            "mixte.formats.round_to, or pass rounding='nearest_even'."
        )
    return array.astype(np.float32)


def _exponents(values: NDArray[np.float32], emin: int) -> NDArray[np.int16]:
    """The exponent of each value, that of a subnormal being the format's smallest."""
    field = (np.ascontiguousarray(values).view(np.uint32) >> np.uint32(23)) & np.uint32(0xFF)
    exponents = np.maximum(field.astype(np.int16) - np.int16(127), np.int16(emin))
    return np.where(values == 0, np.int16(ABSENT), exponents)


def _block_scaled(x: ArrayLike | BlockScaled, name: str, unit: DotUnit, side: int, axis: int) -> Operand:
    if not isinstance(x, BlockScaled) or x.format.name != name:
        got = x.format.name if isinstance(x, BlockScaled) else type(x).__name__
        raise InputError(
            f"{'AB'[side]} must be in the block format {name}, got {got}: "
            f"mixte.formats.to_blocks(x, '{name}', axis={axis}) brings it there."
        )
    _check_matrix(x.elements.ndim, side)
    if x.axis != x.elements.ndim + axis:
        raise InputError(
            f"the blocks of {'AB'[side]} lie along axis {x.axis}, but the product sums over axis "
            f"{x.elements.ndim + axis}: use to_blocks(..., axis={axis})."
        )
    elements, scales = np.moveaxis(x.elements, axis, 0), np.moveaxis(x.scales, axis, 0)
    size, length = block_format(name).block_size, elements.shape[0]
    per_element = np.repeat(scales, size, axis=0)[:length]
    exponents = _exponents(elements, unit.emin[side])
    scale_exponents = _exponents(scales, block_format(name).scale.emin)
    if unit.group == 1:
        exponents = exponents + np.repeat(scale_exponents, size, axis=0)[:length]
    else:
        groups = -(-length // unit.group)
        exponents = np.repeat(scale_exponents, size // unit.group, axis=0)[:groups]
    values = elements.astype(np.float64) * per_element
    return Operand(
        values=np.ascontiguousarray(values), exponents=np.ascontiguousarray(exponents), group=unit.group
    )

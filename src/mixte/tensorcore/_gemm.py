"""How a matrix product uses the chains: one for all of K, restarted, or split over K.

What the libraries do was measured for float8 only: cuBLAS 12.8 on an RTX 4060 and an H100 PCIe (documentation
of mmaemu 0.1.0). Which split a library takes depends on the GPU, its number of multiprocessors, the library's
version and the workspace, not on the shape alone: therefore it is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from mixte._errors import InputError
from mixte.tensorcore._chain import chain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mixte.tensorcore._block import Accumulator
    from mixte.tensorcore._operand import Operand
    from mixte.tensorcore._unit import DotUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """One chain over all of K: what the instructions do by themselves.

    cuBLAS does this for float16 and bfloat16 without split-K, and for float8 with fast accumulation
    (``torch._scaled_mm(..., use_fast_accum=True)``).
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A new chain every so many products, each from +0; the results are added in float32, to nearest even.

    cuBLAS does this every 128 for float8 without fast accumulation (PyTorch's default).

    Attributes:
        every: Products in one chain.
    """

    every: int = 128

    def __post_init__(self) -> None:
        _check_positive("every", self.every)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitK:
    """K dealt out to several partial products, which are then added in float32, to nearest even.

    An H100 deals out contiguous runs of tiles of 128 and adds serially; an RTX 4060 deals tiles of 64 in turn
    and adds serially or pairwise. Without fast accumulation both restart every 128 products of a part.

    Attributes:
        parts: Number of partial products.
        tile: Products that stay together.
        deal: ``"contiguous"``: part s takes the tiles [s q, (s + 1) q), q = ceil(tiles / parts).
            ``"in_turn"``: part s takes the tiles t with t mod parts = s.
        combine: ``"serial"``: ((p_0 + p_1) + p_2) + ... ``"pairwise"``: with h = ceil(parts / 2), the last
            part, plus p_i + p_(i + h) for i = 0, ..., h - 1 (p_i alone where i + h reaches the last part).
        restart: Products in one chain of a part; None for one chain.
    """

    parts: int
    tile: int = 128
    deal: Literal["contiguous", "in_turn"] = "contiguous"
    combine: Literal["serial", "pairwise"] = "serial"
    restart: int | None = None

    def __post_init__(self) -> None:
        _check_positive("parts", self.parts)
        _check_positive("tile", self.tile)
        if self.restart is not None:
            _check_positive("restart", self.restart)
        if self.deal not in {"contiguous", "in_turn"}:
            raise InputError(f"unknown deal '{self.deal}'. It is one of: contiguous, in_turn.")
        if self.combine not in {"serial", "pairwise"}:
            raise InputError(f"unknown combine '{self.combine}'. It is one of: serial, pairwise.")


Accumulation: TypeAlias = Chain | Restart | SplitK


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise InputError(f"{name} must be at least 1, got {value}.")


def run_gemm(
    a: Operand,
    b: Operand,
    c: Accumulator,
    unit: DotUnit,
    accumulation: Accumulation,
    *,
    threads: int | None,
) -> Accumulator:
    """Compute the product for every output; ``c`` is zero unless the accumulation is one chain.

    Args:
        a: A, values of shape (K, batch, M).
        b: B, values of shape (K, batch, N).
        c: float32, shape (batch, M, N).
        unit: The rules of the instruction.
        accumulation: How K is cut.
        threads: As for :func:`chain`.
    """
    length = len(a.values)

    def chains(ks: NDArray[np.intp], every: int | None) -> Accumulator:
        if every is None or len(ks) == 0:
            return chain(a.take(ks), b.take(ks), c, unit, threads=threads)
        total = np.zeros_like(c)
        for start in range(0, len(ks), every):
            part = ks[start : start + every]
            total = _add(total, chain(a.take(part), b.take(part), c, unit, threads=threads))
        return total

    match accumulation:
        case Chain():
            return chain(a, b, c, unit, threads=threads)
        case Restart(every=every):
            return chains(np.arange(length), every)
        case SplitK():
            parts = [chains(ks, accumulation.restart) for ks in _deal(length, accumulation)]
            return _combine(parts, accumulation.combine)


def _add(x: Accumulator, y: Accumulator) -> Accumulator:
    with np.errstate(over="ignore", invalid="ignore"):
        return x + y


def _deal(length: int, split: SplitK) -> list[NDArray[np.intp]]:
    """The k of each part, in ascending order; a part may be empty."""
    tiles = -(-length // split.tile)
    run = -(-tiles // split.parts)
    ks = np.arange(length)
    owner = ks // split.tile // run if split.deal == "contiguous" else ks // split.tile % split.parts
    return [np.flatnonzero(owner == part) for part in range(split.parts)]


def _combine(parts: list[Accumulator], combine: Literal["serial", "pairwise"]) -> Accumulator:
    if combine == "serial" or len(parts) == 1:
        return reduce(_add, parts)
    half = -(-len(parts) // 2)
    last = len(parts) - 1
    slots = [_add(parts[i], parts[i + half]) if i + half < last else parts[i] for i in range(half)]
    return reduce(_add, slots, parts[last])

"""Whole chains for whole matrices: cut the outputs into tiles, run them on threads."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mixte.formats import FLOAT16, round_to
from mixte.tensorcore._block import Scratch, fits_narrow, narrow_block, wide_block
from mixte.tensorcore._operand import ABSENT, Operand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixte.tensorcore._block import Accumulator
    from mixte.tensorcore._unit import DotUnit

_NARROW_TILE = 32768  # outputs: some 1.2 MiB of buffers, for a second-level cache of 1 to 2 MiB
_WIDE_TILE = 8192  # outputs: one float64 array for each product of a block
_LONGEST_ROW = 1024
_PAIRED = 32  # products that the two float16 instructions of a float8 mma.sync share out

Tile: TypeAlias = "tuple[slice, slice, slice]"


def chain(a: Operand, b: Operand, c: Accumulator, unit: DotUnit, *, threads: int | None = None) -> Accumulator:
    """Run the chain over all of K for every output.

    Args:
        a: A, values of shape (K, batch, M).
        b: B, values of shape (K, batch, N).
        c: Where the chain starts, float32 of shape (batch, M, N); of float16 values if the unit accumulates so.
        unit: The rules.
        threads: How many threads; as many as there are CPUs if None. The result does not depend on it.

    Returns:
        float32 of shape (batch, M, N), a new array.
    """
    if unit.adds_c_last:
        a, b = _dealt(a), _dealt(b)
    result = np.array(c, np.float32, order="C")
    if result.size == 0 or len(a.values) == 0:
        return result
    if result.shape[1] > result.shape[2]:
        # The last axis is the one that numpy's inner loops run along: make it the longer one.
        return _run(b, a, result.swapaxes(1, 2).copy(), unit, threads).swapaxes(1, 2)
    return _run(a, b, result, unit, threads)


def available_cpus() -> int:
    """The number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _run(a: Operand, b: Operand, result: Accumulator, unit: DotUnit, threads: int | None) -> Accumulator:
    """Fill ``result``, which holds c, with d."""
    workers = threads or available_cpus()
    limit = _NARROW_TILE if fits_narrow(a, b, result, unit) else _WIDE_TILE
    limit = max(_LONGEST_ROW, min(limit, -(-result.size // workers)))
    tiles = list(_tiles(result.shape, limit))

    def run(tile: Tile) -> None:
        batch, rows, columns = tile
        left, right = a.tile(batch, rows, 0), b.tile(batch, columns, 1)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow and NaN are results here; kept per thread
            result[tile] = _run_tile(left, right, result[tile].copy(), unit)

    if min(workers, len(tiles)) == 1:
        for tile in tiles:
            run(tile)
    else:
        with ThreadPoolExecutor(min(workers, len(tiles))) as pool:
            for _ in pool.map(run, tiles):
                pass
    return result


def _tiles(shape: tuple[int, ...], limit: int) -> Iterator[Tile]:
    """Cut (batch, M, N) into tiles of at most ``limit`` outputs, long along N."""
    batches, rows, columns = shape
    width = min(columns, _LONGEST_ROW)
    height = max(1, min(rows, limit // width))
    depth = max(1, min(batches, limit // (rows * columns))) if height == rows and width == columns else 1
    for i in range(0, batches, depth):
        for j in range(0, rows, height):
            for k in range(0, columns, width):
                yield slice(i, i + depth), slice(j, j + height), slice(k, k + width)


def _run_tile(a: Operand, b: Operand, acc: Accumulator, unit: DotUnit) -> Accumulator:
    """Run the chain of one tile."""
    if not unit.adds_c_last:
        _run_blocks(a, b, acc, unit)
        return acc
    for k in range(0, len(a.values), _PAIRED):
        part = np.zeros_like(acc)
        _run_blocks(a.block(k, k + _PAIRED), b.block(k, k + _PAIRED), part, unit)
        acc += part
        if unit.conversion == "float16_nearest_even":
            # float32 has more than twice the precision of float16 plus two bits: its rounding does no harm.
            round_to(acc, FLOAT16, out=acc)
    return acc


def _run_blocks(a: Operand, b: Operand, acc: Accumulator, unit: DotUnit) -> None:
    """Add block after block to the accumulator, in place."""
    work = Scratch.of_shape(acc.shape) if fits_narrow(a, b, acc, unit) else None
    if work is not None:
        a, b = a.in_float32(), b.in_float32()
    for k in range(0, len(a.values), unit.block):
        left, right = a.block(k, k + unit.block), b.block(k, k + unit.block)
        if work is None:
            wide_block(left, right, acc, unit)
        else:
            narrow_block(left, right, acc, unit, work)


def _dealt(x: Operand) -> Operand:
    """Order k as the two float16 instructions of a float8 ``mma.sync`` take it, pair by pair in turn."""
    missing = -len(x.values) % _PAIRED
    padding = [(0, missing)] + [(0, 0)] * (x.values.ndim - 1)
    values = np.pad(x.values, padding)
    exponents = np.pad(x.exponents, padding, constant_values=ABSENT)
    ks = np.arange(len(values)).reshape(-1, _PAIRED // 4, 2, 2).transpose(0, 2, 1, 3).ravel()
    return Operand(values=values[ks], exponents=exponents[ks])

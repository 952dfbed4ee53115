"""D = A x B + C as the Tensor Cores of a GPU compute it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mixte._errors import InputError
from mixte.formats import FLOAT16, round_to
from mixte.tensorcore._gemm import Chain, run_gemm
from mixte.tensorcore._operand import operand
from mixte.tensorcore._units import dot_unit

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from mixte.formats import BlockScaled, Rounding
    from mixte.tensorcore._block import Accumulator
    from mixte.tensorcore._gemm import Accumulation
    from mixte.tensorcore._operand import Operand
    from mixte.tensorcore._units import Accumulate, Architecture

_ONE_CHAIN = Chain()


def matmul(
    a: ArrayLike | BlockScaled,
    b: ArrayLike | BlockScaled,
    c: ArrayLike | None = None,
    *,
    arch: Architecture,
    input: str | tuple[str, str] = "float16",  # noqa: A002 - the matrices' format, as the vendors call it
    accumulate: Accumulate = "float32",
    instruction: str | None = None,
    accumulation: Accumulation = _ONE_CHAIN,
    rounding: Rounding | None = None,
    threads: int | None = None,
) -> NDArray[np.float32] | NDArray[np.float16]:
    """Multiply matrices bit for bit as the Tensor Cores of an architecture do.

    Args:
        a: A, shape (..., M, K): values of the input format, of any dtype that holds them. For a block format, a
            ``BlockScaled`` whose blocks lie along K.
        b: B, shape (..., K, N), likewise. Leading axes are broadcast, as by ``numpy.matmul``.
        c: C, broadcast to (..., M, N), where the accumulation starts; +0 if None. It is rounded to the
            accumulator's format, to nearest even.
        arch: ``"volta"``, ``"turing"``, ``"ampere"``, ``"ada"``, ``"hopper"`` or ``"blackwell"``.
        input: The format of A and B, or a pair of formats; :func:`inputs_of` lists what an architecture has.
        accumulate: ``"float32"``, or ``"float16"`` for float16 and float8 inputs.
        instruction: Which instruction, where there are several for the same formats (see :func:`dot_unit`).
        accumulation: How K is cut: one chain, or as a library does it for float8 (:class:`Restart`,
            :class:`SplitK`).
        rounding: How to bring A and B into the input format. None: they must be in it, except that tf32 drops
            the lowest 13 bits of a float32, as the instruction does. Values beyond the format follow its own
            overflow rule; use :func:`mixte.formats.round_to` for another.
        threads: Threads to use; one for each CPU if None. The result does not depend on it.

    Returns:
        D, shape (..., M, N): float32, or float16 for a float16 accumulator. The scales of whole tensors (NVFP4)
        are not applied: they belong to the epilogue, see :func:`scaled_matmul`.

    Special values: overflow gives an infinity although results are truncated; a zero result is always +0; any
    NaN operand, infinity times zero, or infinities of both signs give the NaN with all bits set but the sign.

    Raises:
        InputError: An architecture, format or instruction that does not exist, matrices that do not fit
            together or hold values that the format does not have, or C together with a cut K.

    Example:
        >>> import numpy as np
        >>> a = np.array([[-(2.0**13), -0.5, -0.25, -0.125]])
        >>> b = np.array([[2.0**10], [1.0], [1.0], [1.0]])
        >>> [float(matmul(a, b, 2.0**23, arch=arch)[0, 0]) for arch in ("volta", "ampere", "hopper")]
        [0.0, -0.5, -0.75]
    """
    input_a, input_b = (input, input) if isinstance(input, str) else input
    unit = dot_unit(arch, input_a, input_b, accumulate=accumulate, instruction=instruction)
    if threads is not None and threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}.")
    if c is not None and not isinstance(accumulation, Chain):
        raise InputError(
            f"C starts one chain, but {type(accumulation).__name__} has several: add C to the result instead."
        )
    left = operand(a, input_a, unit, side=0, rounding=rounding)
    right = operand(b, input_b, unit, side=1, rounding=rounding)
    left, right, shape = _aligned(left, right)
    start = _accumulator(c, shape, accumulate)
    stacked = start.reshape(math.prod(shape[:-2]), *shape[-2:])
    result = run_gemm(left, right, stacked, unit, accumulation, threads=threads)
    return _finished(result.reshape(shape), accumulate)


def _aligned(a: Operand, b: Operand) -> tuple[Operand, Operand, tuple[int, ...]]:
    """Give both one batch axis; return them and the shape of D."""
    if len(a.values) != len(b.values):
        raise InputError(
            f"A has {len(a.values)} columns and B has {len(b.values)} rows: they must be as many, K."
        )
    (*batch_a, rows), (*batch_b, columns) = a.values.shape[1:], b.values.shape[1:]
    try:
        batch = np.broadcast_shapes(tuple(batch_a), tuple(batch_b))
    except ValueError:
        raise InputError(
            f"the leading axes of A, {tuple(batch_a)}, and of B, {tuple(batch_b)}, do not broadcast."
        ) from None
    return a.with_batch(batch), b.with_batch(batch), (*batch, rows, columns)


def _accumulator(c: ArrayLike | None, shape: tuple[int, ...], accumulate: Accumulate) -> Accumulator:
    """C in the accumulator's format, as float32."""
    if c is None:
        return np.zeros(shape, np.float32)
    values = round_to(c, FLOAT16 if accumulate == "float16" else "float32")
    try:
        return np.broadcast_to(values.astype(np.float32, copy=False), shape)
    except ValueError:
        raise InputError(f"C has shape {values.shape}, which does not broadcast to D's, {shape}.") from None


def _finished(d: Accumulator, accumulate: Accumulate) -> NDArray[Any]:
    """D in the accumulator's type, every NaN being the one that the hardware gives."""
    nan = np.isnan(d)
    if accumulate == "float32":
        d.view(np.uint32)[nan] = 0x7FFFFFFF
        return d
    half = d.astype(np.float16)
    half.view(np.uint16)[nan] = 0x7FFF
    return half

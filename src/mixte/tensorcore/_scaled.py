"""A float8 product with scales, as ``torch._scaled_mm`` and the library below it compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixte._errors import InputError
from mixte.formats import FORMATS, BlockScaled, round_to
from mixte.tensorcore._matmul import matmul

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from mixte.tensorcore._gemm import Accumulation
    from mixte.tensorcore._units import Architecture

_OUTPUTS = ("float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")


def scaled_matmul(
    a: ArrayLike | BlockScaled,
    b: ArrayLike | BlockScaled,
    *,
    scale_a: float = 1.0,
    scale_b: float = 1.0,
    arch: Architecture,
    accumulation: Accumulation,
    input: str | tuple[str, str] = "float8_e4m3fn",  # noqa: A002 - as in matmul
    output: str = "float32",
    scale_output: float = 1.0,
    threads: int | None = None,
) -> NDArray[np.float32]:
    """Multiply matrices in a narrow format and apply the scales of the whole tensors.

    The product is that of :func:`matmul` with a float32 accumulator. Then, each step with one rounding to
    nearest even: alpha = scale_a x scale_b in float32; y = alpha x product + 0 in float32; for a float8 output
    y times ``scale_output`` in float32, saturated; and y in the output format. Measured for cuBLAS 12.8 on an
    RTX 4060 (documentation of mmaemu 0.1.0).

    Args:
        a: As for :func:`matmul`.
        b: As for :func:`matmul`.
        scale_a: What the elements of A are to be multiplied by; taken as float32. For NVFP4 its
            ``tensor_scale``.
        scale_b: The same for B.
        arch: The architecture.
        accumulation: How K is cut. Required, because libraries differ: :class:`Restart` is PyTorch's default
            (``use_fast_accum=False``), :class:`Chain` is ``use_fast_accum=True``.
        input: The format of A and B, or a pair of formats.
        output: ``"float32"``, ``"bfloat16"``, ``"float16"``, ``"float8_e4m3fn"`` or ``"float8_e5m2"``.
        scale_output: For a float8 output: what the result is multiplied by.
        threads: As for :func:`matmul`.

    Returns:
        float32, shape (..., M, N); numbers of the output format.

    Raises:
        InputError: As for :func:`matmul`, and for an unknown output format, or a ``scale_output`` for an output
            that has none.
    """
    if output not in _OUTPUTS:
        raise InputError(f"cannot write '{output}'. It is one of: {', '.join(_OUTPUTS)}.")
    if scale_output != 1.0 and not output.startswith("float8"):
        raise InputError(f"scale_output is for a float8 output; the output here is {output}.")
    product = matmul(a, b, arch=arch, input=input, accumulation=accumulation, threads=threads)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        alpha = np.float32(scale_a) * np.float32(scale_b)
        # float64 holds the product of two float32 numbers exactly: one rounding, as in a fused multiply-add.
        y = (product.astype(np.float64) * np.float64(alpha) + 0.0).astype(np.float32)
        if output.startswith("float8"):
            y *= np.float32(scale_output)
            return np.asarray(round_to(y, FORMATS[output], overflow="saturate"), np.float32)
    result = np.asarray(round_to(y, FORMATS[output]), np.float32)
    result.view(np.uint32)[np.isnan(result)] = 0x7FFFFFFF
    return result

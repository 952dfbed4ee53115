"""Growing and shrinking a loss scale so that it stays finite, above zero and within its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mixte.scaling._law import ArrayOps, Scalar

FLOAT32_MAX: Final = (2.0 - 2.0**-23) * 2.0**127
"""Largest finite float32: the upper bound of a law that has none of its own."""

FLOAT32_TINY: Final = 2.0**-126
"""Smallest normal float32: the lower bound of a law that has none of its own.

Not a subnormal number, because some CPU and GPU kernels flush those to zero.
"""

DEFAULT_MIN_SCALE: Final = 2.0**-14
"""Default lower bound. Below it, a scaled gradient that overflows float16 is at least 2**30 unscaled."""

DEFAULT_MAX_SCALE: Final = 2.0**24
"""Default upper bound: apex.amp's (NVIDIA/apex, apex/amp/scaler.py). It lifts float16's smallest subnormal
number, 2**-24, to 1."""


def grown(scale: Scalar, factor: float, max_scale: float, ops: ArrayOps) -> Scalar:
    """Return ``scale * factor``, at most ``max_scale``; ``scale`` itself if the product would not be finite.

    The product is never computed where it overflows, so no framework sees an inf or warns of one. The factor
    ``1 - 2**-23`` keeps the limit below the exact quotient whichever way its conversion to float32 rounds.
    """
    limit = ops.float32(FLOAT32_MAX / factor * (1.0 - 2.0**-23))
    product = ops.minimum(scale, limit) * ops.float32(factor)
    return ops.where(scale <= limit, ops.minimum(product, ops.float32(max_scale)), scale)


def shrunk(scale: Scalar, factor: float, min_scale: float, ops: ArrayOps) -> Scalar:
    """Return ``scale * factor``, at least ``min_scale``."""
    return ops.maximum(scale * ops.float32(factor), ops.float32(min_scale))

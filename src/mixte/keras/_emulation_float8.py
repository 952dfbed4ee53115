"""Round the operands of a product to float8: e4m3 in the forward pass, e5m2 for the gradients that come back.

Each tensor is scaled as a whole, by its own largest magnitude at that moment ("current scaling"): the largest number
of the format stands for it. Then nothing overflows, nothing has to be remembered from step to step, and nothing of
the emulation is in a saved model. NVIDIA's library Transformer Engine offers the same recipe (Float8CurrentScaling)
beside one whose scales come from past steps.

A tensor with an infinity or a NaN in it keeps them, so that the loss scaler sees them; its scale is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.formats import FLOAT8_E4M3FN, FLOAT8_E5M2
from mixte.keras._emulation_tensors import cast, with_gradient
from mixte.keras._framework import keras

if TYPE_CHECKING:
    from collections.abc import Callable

FORWARD = FLOAT8_E4M3FN
GRADIENT = FLOAT8_E5M2

_LARGEST_SCALE = 2.0**126  # whose inverse is still a normal float32: a subnormal one is 0 to many kernels


def scaled_round(x: Any, name: str, largest: float) -> Any:
    """Round a float32 tensor to a float8 format after scaling it, and scale it back.

    Args:
        x: float32, any shape.
        name: The format.
        largest: Its largest finite number, which the largest magnitude of ``x`` becomes.

    Returns:
        float32, the shape of ``x``.
    """
    ops = keras.ops
    amax = ops.max(ops.abs(x)) if x.ndim else ops.abs(x)
    usable = ops.logical_and(ops.isfinite(amax), amax > 0)
    # One division: PyTorch computes number / tensor as number x (1 / tensor), which rounds twice.
    quotient = ops.divide(ops.convert_to_tensor(largest, "float32"), ops.where(usable, amax, 1.0))
    scale = ops.where(usable, quotient, 1.0)
    scale = ops.minimum(scale, _LARGEST_SCALE)
    # Multiplied by the inverse, as float8 kernels do: XLA makes that of a division, and others do not.
    inverse = ops.divide(ops.ones_like(scale), scale)
    # Clipped, because backends differ in what a conversion makes of more than the largest number.
    inside = ops.clip(ops.multiply(x, scale), -largest, largest)
    rounded = ops.multiply(cast(cast(inside, name), "float32"), inverse)
    return ops.where(ops.isfinite(x), rounded, x)


round_operand: Callable[[Any], Any] = with_gradient(
    lambda x: scaled_round(x, FORWARD.name, FORWARD.max), lambda _, dx: (dx,)
)
"""Rounds a float32 operand to e4m3; its gradient passes as it is."""

round_gradient: Callable[[Any], Any] = with_gradient(
    lambda y: y, lambda _, dy: (scaled_round(dy, GRADIENT.name, GRADIENT.max),)
)
"""Returns a float32 result as it is; the gradient that comes back for it is rounded to e5m2."""

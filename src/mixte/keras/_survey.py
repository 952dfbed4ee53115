"""See whether any value of unscaled gradients is NaN or infinite, and the largest, in one pass over them.

The magnitudes of float32 numbers order as the integers of their bits without the sign, with infinity above
every finite number and NaN above infinity. So one integer maximum per tensor tells all three (IEEE 754-2019,
section 3.4); and where a backend's floating-point maximum is known to carry NaN on, that one does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixte._errors import LossScaleError
from mixte.keras._conditional import choose, compiles_with_xla
from mixte.keras._framework import BACKEND, keras
from mixte.keras._processes import in_one_of_several, seen_by_all
from mixte.keras._unscaling import SMALL_ELEMENTS
from mixte.scaling import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.keras._unscaling import Unscaled

_MAGNITUDE = 0x7FFFFFFF
_FLOAT16_MIN_NORMAL = 2.0**-14


def survey(unscaled: Unscaled, *, scale: Any, loss_finite: Any, needs: frozenset[str]) -> Observation:
    """Look at unscaled gradients once.

    The step is good if they are finite. A loss that is not (a float16 sum that overflowed, say) may well have
    true, finite gradients; where they are not, it tells the cause.

    Args:
        unscaled: The gradients.
        scale: The scale that multiplied the loss; read only where ``needs`` asks for the underflow, and where
            several processes of PyTorch's train together.
        loss_finite: Scalar bool tensor, or None where the loss is not known.
        needs: The fields of ``Observation`` beside the flags that the law reads.

    Raises:
        LossScaleError: If all gradients are None.
    """
    if all(gradient is None for gradient in unscaled.gradients):
        raise LossScaleError(
            f"all {len(unscaled.gradients)} gradients are None: the loss does not depend on any of the variables. "
            "Compute it from the model's output, inside the gradient tape or the differentiated function, and "
            "check that the optimizer was given the variables of that model."
        )
    ops = keras.ops
    fraction = _underflow_fraction(unscaled, scale) if "underflow_fraction" in needs else None
    if BACKEND == "torch":
        return _on_host(_largest_torch(unscaled.blocks), loss_finite, fraction, scale)
    largest = unscaled.divide(_largest(unscaled.blocks, exactly="largest_gradient" in needs))
    return Observation(
        finite=_is_finite(largest),
        has_nan=largest != largest,  # noqa: PLR0124 - true of NaN alone
        loss_finite=ops.convert_to_tensor(True) if loss_finite is None else loss_finite,
        largest_gradient=largest,
        underflow_fraction=ops.cast(0.0, "float32") if fraction is None else fraction,
    )


def _on_host(largest: Any, loss_finite: Any, fraction: Any, scale: Any) -> Observation:
    """Bring what was seen to the host, at once: the one time in a step that PyTorch waits for the device."""
    import torch

    if in_one_of_several():
        value, loss, fraction = seen_by_all(largest, loss_finite, fraction, scale=float(scale))
    elif loss_finite is None:
        value, loss = np.float32(float(largest)), True
    else:
        value, loss = torch.stack([largest, loss_finite.to(largest.dtype)]).tolist()
    return Observation(
        finite=np.bool_(np.isfinite(value)),
        has_nan=np.bool_(np.isnan(value)),
        loss_finite=np.bool_(loss),
        largest_gradient=np.float32(value),
        underflow_fraction=np.float32(0.0 if fraction is None else float(fraction)),
    )


def _largest(blocks: list[Any], *, exactly: bool) -> Any:
    """Return the largest magnitude as a float32 scalar: NaN if any is NaN.

    Args:
        blocks: Float32 tensors.
        exactly: Whether it must be that number where all is finite. Otherwise it may be any finite number.
    """
    if BACKEND == "jax":
        return keras.ops.max(keras.ops.stack([_largest_jax(block) for block in blocks]))
    import tensorflow as tf

    def by_bits() -> Any:
        maxima = [tf.reduce_max(_bits(block)) for block in blocks]
        return tf.bitcast(tf.reduce_max(tf.stack(maxima)), tf.float32)

    if exactly or compiles_with_xla(blocks[0]):
        return by_bits()
    # A sum reads each value once, the bits take three times as long. It is finite only if every value is; should it
    # overflow though they all are, the bits tell.
    total = tf.add_n([tf.reduce_sum(block) for block in blocks])
    return choose(tf.math.is_finite(total), lambda: total, by_bits)


def _is_finite(largest: Any) -> Any:
    """Tell whether a magnitude is finite, by a division.

    XLA computes what is cheap wherever it is read: every update would work the flag out again, from all that the
    largest magnitude comes from. A division it computes once.
    """
    return largest / keras.ops.maximum(largest, 1.0) <= 1.0


def _largest_jax(block: Any) -> Any:
    """Return the largest magnitude of an array.

    XLA's maximum carries NaN on. As a reduction of its own it reads the array once; of the array's bits, or of its
    absolute values, XLA for processors would make a copy first. The longest axis is reduced last, because that
    is how the reduction is spread over cores and vector registers.

    Of gradients that were joined to a vector the bits are taken: XLA would make of a plain maximum one for each.
    """
    from jax import lax, numpy as jnp

    if block.ndim == 1:
        return lax.bitcast_convert_type(jnp.max(_bits(block)), jnp.float32)

    def larger(first: Any, second: Any) -> Any:
        return lax.max(lax.abs(first), lax.abs(second))

    zero = jnp.float32(0.0)
    longest = max(range(block.ndim), key=lambda axis: block.shape[axis], default=None)
    others = tuple(axis for axis in range(block.ndim) if axis != longest)
    along = lax.reduce(block, zero, larger, others) if others else block
    return lax.abs(lax.reduce(along, zero, larger, tuple(range(along.ndim))))


def _largest_torch(blocks: Sequence[Any]) -> Any:
    import torch

    # PyTorch's maxima carry NaN on, and so does its infinity norm.
    with torch.no_grad():
        small = [block.reshape(-1) for block in blocks if block.numel() <= SMALL_ELEMENTS]
        large = [block for block in blocks if block.numel() > SMALL_ELEMENTS]
        maxima = [*torch._foreach_norm(large, float("inf"))] if large else []  # noqa: SLF001 - one call for all
        joined = torch.cat(small) if small else None
        if joined is not None and joined.numel():
            maxima.append(joined.abs_().amax())
        return torch.stack(maxima).amax() if maxima else torch.tensor(0.0)  # every gradient is empty


def _bits(values: Any) -> Any:
    """Return the bits of float32 values without the sign, as int32."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.bitwise.bitwise_and(tf.bitcast(values, tf.int32), _MAGNITUDE)
    from jax import lax, numpy as jnp

    return lax.bitcast_convert_type(values, jnp.int32) & _MAGNITUDE


def _underflow_fraction(unscaled: Unscaled, scale: Any) -> Any:
    """Return the share of the non-zero values that are below float16's normal numbers once scaled."""
    ops = keras.ops
    magnitudes = [ops.abs(unscaled.divide(block)) for block in unscaled.blocks]
    small = [
        ops.sum(ops.cast(ops.logical_and(m > 0, m * scale < _FLOAT16_MIN_NORMAL), "float32"))
        for m in magnitudes
    ]
    non_zero = [ops.sum(ops.cast(m > 0, "float32")) for m in magnitudes]
    return sum(small[1:], small[0]) / ops.maximum(sum(non_zero[1:], non_zero[0]), 1.0)

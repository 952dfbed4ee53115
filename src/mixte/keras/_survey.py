"""Unscale gradients in float32, and see in one pass whether any value is NaN or infinite, and the largest.

The magnitudes of float32 numbers order as the integers of their bits without the sign, with infinity above
every finite number and NaN above infinity. So one integer maximum per gradient tells all three (IEEE 754-2019,
section 3.4), on every backend alike: a floating-point maximum need not carry a NaN on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixte._errors import LossScaleError
from mixte.keras._conditional import compiles_with_xla
from mixte.keras._framework import BACKEND, keras
from mixte.scaling import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MAGNITUDE = 0x7FFFFFFF
_INFINITY = 0x7F800000
_FLOAT16_MIN_NORMAL = 2.0**-14

# Below this many elements, gradients are joined before they are looked at: two hundred small ones then cost a
# few operations, not hundreds. Larger ones would cost more to copy than an operation costs to start.
_SMALL_ELEMENTS = 1 << 14


def _float32() -> Any:
    if BACKEND == "torch":
        import torch

        return torch.float32
    return "float32"  # the dtypes of TensorFlow and JAX compare equal to their names


_FLOAT32 = _float32()


def survey(
    gradients: Sequence[Any],
    *,
    scale: Any,
    loss_finite: Any,
    needs: frozenset[str],
    scaled: Sequence[Any] | None = None,
) -> Observation:
    """Look at unscaled gradients once.

    The step is good if they are finite. A loss that is not (a float16 sum that overflowed, say) may well have
    true, finite gradients; where they are not, it tells the cause.

    Args:
        gradients: Tensors; of a sparse one only its values are read; None is passed over.
        scale: The scale that multiplied the loss; read only where ``needs`` asks for the underflow.
        loss_finite: Scalar bool tensor, or None where the loss is not known.
        needs: The costly fields of ``Observation`` that the law reads.
        scaled: The same gradients before they were unscaled, if they are at hand. XLA would compute the small
            unscaled ones twice, once to join them, in a kernel for each: it joins these, and unscales them
            together.

    Raises:
        LossScaleError: If all gradients are None.
    """
    values = [_values(gradient) for gradient in gradients if gradient is not None]
    if not values:
        raise LossScaleError(
            f"all {len(gradients)} gradients are None: the loss does not depend on any of the variables. Compute "
            "it from the model's output, inside the gradient tape or the differentiated function, and check "
            "that the optimizer was given the variables of that model."
        )
    ops = keras.ops
    if scaled is None or not compiles_with_xla(scale):
        largest_bits = _largest_magnitude_bits(values)
    else:
        joined = _join_small([_values(gradient) for gradient in scaled if gradient is not None])
        divide = _by_multiplying(scale)
        largest_bits = _largest([_magnitude_bits(divide(group)) for group in joined])
    fraction = _underflow_fraction(values, scale) if "underflow_fraction" in needs else None
    if BACKEND == "torch":
        return _on_host(largest_bits, loss_finite, fraction)
    return Observation(
        finite=largest_bits < _INFINITY,
        has_nan=largest_bits > _INFINITY,
        loss_finite=ops.convert_to_tensor(True) if loss_finite is None else loss_finite,
        largest_gradient=_as_float32(largest_bits),
        underflow_fraction=ops.cast(0.0, "float32") if fraction is None else fraction,
    )


def _on_host(largest_bits: Any, loss_finite: Any, fraction: Any) -> Observation:
    """Bring what was seen to the host, at once: the one time in a step that PyTorch waits for the device."""
    import torch

    if loss_finite is None:
        bits, loss = int(largest_bits), True
    else:
        bits, loss = torch.stack([largest_bits, loss_finite.to(largest_bits.dtype)]).tolist()
    return Observation(
        finite=np.bool_(bits < _INFINITY),
        has_nan=np.bool_(bits > _INFINITY),
        loss_finite=np.bool_(loss),
        largest_gradient=np.int32(bits).view(np.float32),
        underflow_fraction=np.float32(0.0 if fraction is None else float(fraction)),
    )


def unscale(gradients: Sequence[Any], scale: Any, *, untouched: Sequence[bool]) -> list[Any]:
    """Divide gradients by the scale, in float32 at least. None stays None; sparse ones stay sparse.

    Under XLA they are multiplied by the reciprocal: XLA computes a division that several operations read, the check
    and the update, once and apart, which takes a kernel for each gradient; a product it computes wherever it is
    read. For a power of two, as nearly all laws give, the result is the same; for another scale it may differ
    in the last bit.

    Args:
        gradients: What differentiating the scaled loss gave.
        scale: float32 scalar tensor.
        untouched: For each gradient, whether it is no derivative but the new value of a float8 scale, which
            Keras hands on as a gradient.
    """
    if BACKEND == "torch":
        return _unscale_torch(gradients, scale, untouched)
    divide = _by_multiplying(scale) if compiles_with_xla(scale) else lambda gradient: gradient / scale
    return [
        gradient if gradient is None or untouched[index] else _divided(gradient, scale, divide)
        for index, gradient in enumerate(gradients)
    ]


def _by_multiplying(scale: Any) -> Callable[[Any], Any]:
    """Return a division by the scale made of products only, right for every normal float32 scale.

    The reciprocal of a scale beyond 2**126 is subnormal, and XLA's kernels take that as 0: such a scale is divided in
    two steps.
    """
    ops = keras.ops
    second = ops.where(scale > 2.0**64, 2.0**-64, 1.0)
    first = 1.0 / (scale * second)
    return lambda gradient: (gradient * first) * second


def _divided(gradient: Any, scale: Any, divide: Callable[[Any], Any]) -> Any:
    if _is_indexed_slices(gradient):
        values = _divided(gradient.values, scale, divide)
        return type(gradient)(values, gradient.indices, gradient.dense_shape)
    if gradient.dtype == scale.dtype:  # nearly always: float32 variables have float32 gradients
        return divide(gradient)
    if keras.backend.standardize_dtype(gradient.dtype) == "float64":
        return gradient / keras.ops.cast(scale, "float64")
    return divide(keras.ops.cast(gradient, "float32"))


def _unscale_torch(gradients: Sequence[Any], scale: Any, untouched: Sequence[bool]) -> list[Any]:
    import torch

    result = list(gradients)
    places = [i for i, g in enumerate(gradients) if g is not None and not untouched[i] and not g.is_sparse]
    wide = [
        g if g.dtype in (torch.float32, torch.float64) else g.float() for g in (gradients[i] for i in places)
    ]
    with torch.no_grad():
        if wide:
            divided = torch._foreach_div(wide, float(scale))  # noqa: SLF001 - PyTorch's own optimizers use it
            for place, value in zip(places, divided, strict=True):
                result[place] = value
        for place, gradient in enumerate(gradients):
            if gradient is not None and gradient.is_sparse and not untouched[place]:
                # A float16 sum over repeated rows may overflow: coalesce in float32.
                result[place] = (gradient.float().coalesce()) / float(scale)
    return result


def _is_indexed_slices(gradient: Any) -> bool:
    return BACKEND == "tensorflow" and type(gradient).__name__ == "IndexedSlices"


def _values(gradient: Any) -> Any:
    """Return the stored values of a sparse gradient, or the gradient itself; float64 clipped to float32."""
    if _is_indexed_slices(gradient):
        gradient = gradient.values
    elif BACKEND == "torch" and gradient.is_sparse:
        gradient = gradient.coalesce().values()
    if gradient.dtype == _FLOAT32:
        return gradient
    if keras.backend.standardize_dtype(gradient.dtype) == "float64":
        limit = 3.4028234663852886e38  # the largest float32: a larger float64 is no overflow
        within = keras.ops.clip(gradient, -limit, limit)
        gradient = keras.ops.where(keras.ops.isfinite(gradient), within, gradient)
    return keras.ops.cast(gradient, "float32")


def _largest_magnitude_bits(values: list[Any]) -> Any:
    if BACKEND == "torch":
        return _largest_magnitude_bits_torch(values)
    return _largest([_magnitude_bits(group) for group in _join_small(values)])


def _largest(groups: list[Any]) -> Any:
    maxima = [keras.ops.max(group) for group in groups]
    return maxima[0] if len(maxima) == 1 else keras.ops.max(keras.ops.stack(maxima))


def _largest_magnitude_bits_torch(values: list[Any]) -> Any:
    import torch

    # PyTorch's maxima carry NaN on, and so does its infinity norm.
    with torch.no_grad():
        small = [value.reshape(-1) for value in values if value.numel() <= _SMALL_ELEMENTS]
        large = [value for value in values if value.numel() > _SMALL_ELEMENTS]
        maxima = [*torch._foreach_norm(large, float("inf"))] if large else []  # noqa: SLF001 - one call for all
        joined = torch.cat(small) if small else None
        if joined is not None and joined.numel():
            maxima.append(joined.abs_().amax())
        if not maxima:  # every gradient is empty
            return torch.tensor(0, dtype=torch.int32)
        return torch.stack(maxima).amax().view(torch.int32) & _MAGNITUDE


def _magnitude_bits(values: Any) -> Any:
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.bitwise.bitwise_and(tf.bitcast(values, tf.int32), _MAGNITUDE)
    from jax import lax, numpy as jnp

    return lax.bitcast_convert_type(values, jnp.int32) & _MAGNITUDE


def _as_float32(bits: Any) -> Any:
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.bitcast(bits, tf.float32)
    if BACKEND == "torch":
        import torch

        return bits.view(torch.float32)
    from jax import lax, numpy as jnp

    return lax.bitcast_convert_type(bits, jnp.float32)


def _join_small(values: list[Any]) -> list[Any]:
    """Return the large tensors as they are, and one vector of all the small ones, with a leading zero."""
    ops = keras.ops
    small = [value for value in values if _is_small(value)]
    large = [value for value in values if not _is_small(value)]
    # The zero keeps the maximum defined where every gradient is empty.
    joined = ops.concatenate([ops.zeros((1,), "float32"), *(ops.reshape(value, (-1,)) for value in small)])
    return [joined, *large]


def _is_small(value: Any) -> bool:
    elements = 1
    for size in value.shape:
        if size is None:  # the values of a sparse gradient, whose number is known only when it runs
            return True
        elements *= size
    return elements <= _SMALL_ELEMENTS


def _underflow_fraction(values: list[Any], scale: Any) -> Any:
    """Return the share of the non-zero values that are below float16's normal numbers once scaled."""
    ops = keras.ops
    magnitudes = [ops.abs(value) for value in values]
    small = [
        ops.sum(ops.cast(ops.logical_and(m > 0, m * scale < _FLOAT16_MIN_NORMAL), "float32"))
        for m in magnitudes
    ]
    non_zero = [ops.sum(ops.cast(m > 0, "float32")) for m in magnitudes]
    return sum(small[1:], small[0]) / ops.maximum(sum(non_zero[1:], non_zero[0]), 1.0)

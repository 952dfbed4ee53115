"""Unscaling gradients in float32 and seeing what is in them. Sparse gradients stay sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mixte._errors import LossScaleError
from mixte.scaling import Observation
from mixte.tensorflow._framework import tf

if TYPE_CHECKING:
    from collections.abc import Sequence

_FLOAT16_MIN_NORMAL: Final = 2.0**-14


def scaled(loss: Any, scale: Any) -> Any:
    """Return ``loss * scale``, in float32 at least: a float16 loss of 2 would overflow at scale 2**15."""
    loss = tf.convert_to_tensor(loss)
    dtype = _at_least_float32(loss.dtype)
    return tf.cast(loss, dtype) * tf.cast(scale, dtype)


def unscaled(gradient: Any, scale: Any) -> Any:
    """Return ``gradient / scale`` in float32 at least; None stays None, and IndexedSlices stay sparse.

    Divided, not multiplied by a reciprocal: 1 / 2**127 is a subnormal number, which many kernels take as 0.
    """
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = unscaled(gradient.values, scale)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    dtype = _at_least_float32(gradient.dtype)
    return tf.cast(gradient, dtype) / tf.cast(scale, dtype)


def observe(gradients: Sequence[Any], *, loss_finite: Any, scale: Any, needs: frozenset[str]) -> Observation:
    """Look at unscaled gradients, once each.

    The step is good if they are finite. A loss that is not (a float16 sum that overflowed, say) may well have
    true, finite gradients; where they are not, it tells the cause.

    Args:
        gradients: Tensors and IndexedSlices, of which the values only are read; None is passed over.
        loss_finite: Scalar bool tensor.
        scale: The scale that multiplied the loss. Read for ``underflow_fraction`` only.
        needs: The costly observations that the law asks for.

    Raises:
        LossScaleError: If all gradients are None.
    """
    values = [_values(gradient) for gradient in gradients if gradient is not None]
    if not values:
        raise LossScaleError(
            f"all {len(gradients)} gradients are None: the loss does not depend on any of the variables. Check "
            "that it is computed from them, inside the gradient tape if there is one."
        )
    magnitudes = [tf.abs(value) for value in values]
    # A maximum may or may not carry a NaN on, depending on the device: NaN is looked for by itself. The largest
    # of no values is -inf: the other maximum turns that into 0.
    largest = tf.reduce_max([tf.cast(tf.maximum(tf.reduce_max(m), 0), tf.float32) for m in magnitudes])
    has_nan = tf.reduce_any([tf.reduce_any(tf.math.is_nan(m)) for m in magnitudes])
    return Observation(
        finite=tf.logical_and(tf.math.is_finite(largest), tf.logical_not(has_nan)),
        has_nan=has_nan,
        loss_finite=loss_finite,
        largest_gradient=largest,
        underflow_fraction=(
            _underflow_fraction(magnitudes, scale) if "underflow_fraction" in needs else tf.constant(0.0)
        ),
    )


def all_finite(value: Any) -> Any:
    """Return whether every element of a floating tensor is finite, as a scalar bool tensor."""
    return tf.reduce_all(tf.math.is_finite(value))


def _underflow_fraction(magnitudes: list[Any], scale: Any) -> Any:
    """Return the share of non-zero values below float16's smallest normal number at the scale; 0 of none."""
    small = [
        tf.reduce_sum(tf.cast((m > 0) & (tf.cast(m, tf.float32) * scale < _FLOAT16_MIN_NORMAL), tf.float32))
        for m in magnitudes
    ]
    non_zero = [tf.reduce_sum(tf.cast(m > 0, tf.float32)) for m in magnitudes]
    return tf.math.divide_no_nan(tf.add_n(small), tf.add_n(non_zero))


def _values(gradient: Any) -> Any:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _at_least_float32(dtype: Any) -> Any:
    return tf.float32 if dtype in {tf.float16, tf.bfloat16} else dtype

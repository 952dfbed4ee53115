"""The operations of a loss-scaling law on TensorFlow tensors: eager, in a graph, and in a tf.function."""

from __future__ import annotations

from math import log
from typing import Any

from mixte.tensorflow._framework import tf


class TensorFlowOps:
    """``ArrayOps`` for scalar tensors of dtype float32, int32 and bool.

    Each gives the same float32 as numpy's twin. TensorFlow has no log2 and no exp2; both are computed in
    float64 and rounded once, which makes them exact at powers of two. On one scalar per step it costs nothing.
    """

    __slots__ = ()

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Return ``x`` where the condition holds, else ``y``."""
        return tf.where(condition, x, y)

    def minimum(self, x: Any, y: Any) -> Any:
        """Return the smaller value."""
        return tf.minimum(x, y)

    def maximum(self, x: Any, y: Any) -> Any:
        """Return the larger value."""
        return tf.maximum(x, y)

    def isfinite(self, x: Any) -> Any:
        """Tell whether the value is neither infinite nor NaN."""
        return tf.math.is_finite(x)

    def logical_and(self, x: Any, y: Any) -> Any:
        """Return whether both hold."""
        return tf.logical_and(x, y)

    def logical_or(self, x: Any, y: Any) -> Any:
        """Return whether one holds at least."""
        return tf.logical_or(x, y)

    def logical_not(self, x: Any) -> Any:
        """Return whether the condition does not hold."""
        return tf.logical_not(x)

    def log2(self, x: Any) -> Any:
        """Return the base-2 logarithm: -inf at zero, NaN below."""
        return tf.cast(tf.math.log(tf.cast(x, tf.float64)) / log(2.0), tf.float32)

    def exp2(self, x: Any) -> Any:
        """Return 2**x, inf past the range of float32."""
        return tf.cast(tf.pow(tf.constant(2.0, tf.float64), tf.cast(x, tf.float64)), tf.float32)

    def sqrt(self, x: Any) -> Any:
        """Return the square root, NaN below zero."""
        return tf.sqrt(x)

    def float32(self, x: Any) -> Any:
        """Return the value as float32."""
        return tf.cast(x, tf.float32)

    def int32(self, x: Any) -> Any:
        """Return the value, or 0 or 1 for a truth value, as int32."""
        return tf.cast(x, tf.int32)


TENSORFLOW = TensorFlowOps()
"""The operations to pass to ``LossScaleLaw.next`` and ``count`` for states of TensorFlow tensors."""

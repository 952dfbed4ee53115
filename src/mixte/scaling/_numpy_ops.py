"""The operations of a loss-scaling law on numpy scalars: float32, int32 and bool, and nothing wider."""

from __future__ import annotations

from typing import Any

import numpy as np

from mixte.scaling._bounds import FLOAT32_MAX


class NumpyOps:
    """``ArrayOps`` for numpy scalars.

    An overflow to inf, or the logarithm of zero, gives its IEEE 754 value without a warning: a law meets both
    in its normal work, and chooses another value by ``where``. Written with Python's operators, not numpy's
    functions, because those take ten times as long on scalars.
    """

    __slots__ = ()

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        """Return ``x`` where the condition holds, else ``y``."""
        return x if condition else y

    def minimum(self, x: Any, y: Any) -> Any:
        """Return the smaller value; NaN if either is NaN."""
        return x if x <= y or np.isnan(x) else y

    def maximum(self, x: Any, y: Any) -> Any:
        """Return the larger value; NaN if either is NaN."""
        return x if x >= y or np.isnan(x) else y

    def isfinite(self, x: Any) -> Any:
        """Tell whether the value is neither infinite nor NaN."""
        return np.isfinite(x)

    def logical_and(self, x: Any, y: Any) -> Any:
        """Return whether both hold."""
        return np.bool_(x and y)

    def logical_or(self, x: Any, y: Any) -> Any:
        """Return whether one holds at least."""
        return np.bool_(x or y)

    def logical_not(self, x: Any) -> Any:
        """Return whether the condition does not hold."""
        return np.bool_(not x)

    def log2(self, x: Any) -> Any:
        """Return the base-2 logarithm: -inf at zero, NaN below."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log2(x)

    def exp2(self, x: Any) -> Any:
        """Return 2**x, inf past the range of float32."""
        with np.errstate(over="ignore"):
            return np.exp2(x)

    def sqrt(self, x: Any) -> Any:
        """Return the square root, NaN below zero."""
        with np.errstate(invalid="ignore"):
            return np.sqrt(x)

    def float32(self, x: Any) -> Any:
        """Return the value as float32, inf past its range."""
        if abs(x) <= FLOAT32_MAX:  # the usual case, without the cost of errstate
            return np.float32(x)
        with np.errstate(over="ignore"):
            return np.float32(x)

    def int32(self, x: Any) -> Any:
        """Return the value, or 0 or 1 for a truth value, as int32."""
        return np.int32(x)


NUMPY = NumpyOps()
"""The operations that every law uses unless told otherwise."""

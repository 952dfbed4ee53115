"""Which variable's gradient was the first that was not finite, in the last step that was skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from mixte.keras._framework import BACKEND, keras, to_host

if TYPE_CHECKING:
    from collections.abc import Sequence

_NONE = -1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LastSkip:
    """The last step that an optimizer skipped.

    Attributes:
        step: Its number, counted from 1.
        variable: The path of the first variable whose gradient was not finite, in the optimizer's order. None if
            all were: the step was skipped for the sake of another optimizer.
    """

    step: int
    variable: str | None


def initial_note() -> Any:
    """Return what is noted before the first skip: the number of the step, and the index of the variable."""
    return np.asarray([0, _NONE], "int64")


def note(gradients: Sequence[Any], places: Sequence[int], step: Any, dtype: str) -> Any:
    """Return what to note of a step that is skipped: an integer vector of two.

    Args:
        gradients: Unscaled; None is passed over.
        places: For each gradient, the index of its variable.
        step: The number of the step.
        dtype: The integer dtype to note in.
    """
    ops = keras.ops
    present = [(place, each) for place, each in zip(places, gradients, strict=True) if each is not None]
    finite = ops.stack([ops.all(ops.isfinite(_stored(gradient))) for _, gradient in present])
    indices = ops.convert_to_tensor([place for place, _ in present], dtype=dtype)
    first = ops.take(indices, ops.argmin(ops.cast(finite, "int32")))
    first = ops.where(ops.all(finite), ops.cast(_NONE, dtype), first)
    return ops.stack([ops.cast(step, dtype), first])


def read_note(noted: Any, variables: Sequence[Any]) -> LastSkip | None:
    """Return what was noted; None if no step was skipped. Waits for the device."""
    step, index = (int(value) for value in to_host(noted))
    if step == 0:
        return None
    return LastSkip(step=step, variable=None if index == _NONE else _path(variables[index]))


def _path(variable: Any) -> str:
    return getattr(variable, "path", None) or variable.name  # a tf.Variable has no path


def _stored(gradient: Any) -> Any:
    """Return the values of a sparse gradient, or the gradient itself."""
    if BACKEND == "tensorflow" and type(gradient).__name__ == "IndexedSlices":
        return gradient.values
    if BACKEND == "torch" and gradient.is_sparse:
        return gradient.coalesce().values()
    return gradient

"""Which variable's gradient was the first that was not finite, in the last step that was skipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from mixte.keras._framework import keras, to_host
from mixte.keras._unscaling import stored_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.keras._unscaling import Unscaled

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


def note(unscaled: Unscaled, places: Sequence[int], step: Any, dtype: str) -> Any:
    """Return what to note of a step that is skipped: an integer vector of two.

    Args:
        unscaled: The gradients; None is passed over.
        places: For each gradient, the index of its variable.
        step: The number of the step.
        dtype: The integer dtype to note in.
    """
    ops = keras.ops
    present = [
        (place, each) for place, each in zip(places, unscaled.in_memory, strict=True) if each is not None
    ]
    finite = ops.stack([ops.all(ops.isfinite(unscaled.divide(stored_values(each)))) for _, each in present])
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

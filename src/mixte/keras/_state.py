"""A scaler's state as two vectors, and one step of it: the same function on numpy and on every backend."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from mixte.keras._history import LENGTH, in_order, record_change
from mixte.scaling import COUNTER_NAMES, count

if TYPE_CHECKING:
    from mixte.scaling import ArrayOps, LossScaleLaw, Observation


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerState:
    """What a scaler's state was when it was read from the device.

    Attributes:
        scale: The factor for the loss of the next step.
        counters: Steps, applied, skipped, and skips by cause; see ``mixte.scaling.initial_counters``.
        history: The last changes of the scale, oldest first: (number of the step after which it changed,
            counted from 1; the scale from then on). At most 64.
    """

    scale: float
    counters: dict[str, int]
    history: tuple[tuple[int, float], ...]


@final
class StateVectors:
    """How a law's state, the counters and the history lie in a float32 and an integer vector.

    Two vectors, so that a step costs two assignments, whatever the law.

    Args:
        law: The law.
    """

    def __init__(self, law: LossScaleLaw) -> None:
        self.law = law
        initial = law.initial_state()
        self._float_names = [key for key, value in initial.items() if value.dtype == np.float32]
        self._integer_names = [key for key in initial if key not in self._float_names] + list(COUNTER_NAMES)
        self.scale_index = self._float_names.index("scale")
        self.steps_index = self._integer_names.index("steps")

    def initial(self) -> tuple[Any, Any]:
        """Return the two vectors before the first step: float32 and int64."""
        state = self.law.initial_state()
        floats = [float(state[name]) for name in self._float_names] + [0.0] * LENGTH
        integers = [int(state.get(name, 0)) for name in self._integer_names] + [0] * (LENGTH + 1)
        return np.asarray(floats, "float32"), np.asarray(integers, "int64")

    def next(
        self,
        floats: Any,
        integers: Any,
        observation: Observation,
        counted: Observation,
        *,
        ops: ArrayOps,
        arrays: Any,
    ) -> tuple[Any, Any]:
        """Return the two vectors after one more step.

        Args:
            floats: The float32 vector.
            integers: The integer vector.
            observation: What the law sees.
            counted: What the counters see.
            ops: The operations for the law.
            arrays: The same backend's operations on vectors: ``keras.ops``, or ``HOST``.
        """
        state = {name: floats[index] for index, name in enumerate(self._float_names)}
        counts = {name: ops.int32(integers[index]) for index, name in enumerate(self._integer_names)}
        old = state | {name: value for name, value in counts.items() if name not in COUNTER_NAMES}
        new = self.law.next(old, observation, ops)
        new |= count({name: counts[name] for name in COUNTER_NAMES}, counted, ops)
        kept = len(self._integer_names)
        steps, scales, changes = record_change(
            steps=integers[kept : kept + LENGTH],
            scales=floats[len(self._float_names) :],
            count=integers[kept + LENGTH],
            step=arrays.cast(new["steps"], integers.dtype),
            before=old["scale"],
            after=new["scale"],
            ops=arrays,
        )
        new_integers = arrays.stack([arrays.cast(new[name], integers.dtype) for name in self._integer_names])
        new_floats = arrays.stack([new[name] for name in self._float_names])
        return (
            arrays.concatenate([new_floats, scales]),
            arrays.concatenate([new_integers, steps, arrays.reshape(changes, (1,))]),
        )

    def decode(self, floats: Any, integers: Any) -> ScalerState:
        """Make a ``ScalerState`` of the two vectors on the host."""
        floats, integers = np.asarray(floats), np.asarray(integers)
        named = dict(zip(self._integer_names, integers.tolist(), strict=False))
        kept = len(self._integer_names)
        changes = in_order(
            integers[kept : kept + LENGTH], floats[len(self._float_names) :], int(integers[kept + LENGTH])
        )
        return ScalerState(
            scale=float(floats[self.scale_index]),
            counters={name: int(named[name]) for name in COUNTER_NAMES},
            history=tuple(changes),
        )


@lru_cache(maxsize=64)
def vectors_of(law: LossScaleLaw) -> StateVectors:
    """Return the layout of a law's state, which depends on nothing else."""
    return StateVectors(law)


class HostArrays:
    """The few operations on vectors that a step needs, in numpy, under the names of ``keras.ops``."""

    stack = staticmethod(np.stack)
    concatenate = staticmethod(np.concatenate)
    reshape = staticmethod(np.reshape)
    equal = staticmethod(np.equal)
    not_equal = staticmethod(np.not_equal)
    logical_and = staticmethod(np.logical_and)
    where = staticmethod(np.where)
    arange = staticmethod(np.arange)

    @staticmethod
    def cast(x: Any, dtype: Any) -> Any:
        """Return the value in another dtype."""
        return np.asarray(x).astype(dtype)


HOST = HostArrays()
"""Operations on numpy vectors."""

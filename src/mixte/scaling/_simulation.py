"""Running a law without a network: on given steps, or on recorded gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mixte.scaling._counters import Counters, count, initial_counters
from mixte.scaling._law import LossScaleLaw, Observation, ScaleState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    BoolArray = NDArray[np.bool_]
    Float32Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a law did over a number of steps.

    Attributes:
        scales: float32, shape (steps,). The scale that multiplied the loss of each step.
        skipped: bool, shape (steps,). Whether the update of each step was skipped.
        final_state: The law's state after the last step.
        counters: The counters after the last step; see ``initial_counters``.
    """

    scales: Float32Array
    skipped: BoolArray
    final_state: ScaleState
    counters: Counters

    @property
    def final_scale(self) -> np.float32:
        """The scale for the step after the last."""
        return self.final_state["scale"]


def observe(
    *,
    finite: bool,
    has_nan: bool = False,
    loss_finite: bool = True,
    largest_gradient: float = 1.0,
    underflow_fraction: float = 0.0,
) -> Observation:
    """Build an observation of numpy scalars from Python values. By default, a bad step had an inf."""
    return Observation(
        finite=np.bool_(finite),
        has_nan=np.bool_(has_nan),
        loss_finite=np.bool_(loss_finite),
        largest_gradient=np.float32(largest_gradient),
        underflow_fraction=np.float32(underflow_fraction),
    )


def simulate(law: LossScaleLaw, steps: Iterable[bool | np.bool_ | Observation]) -> Trace:
    """Run a law over steps that are known beforehand.

    Args:
        law: The law.
        steps: One entry per step: whether it was BAD (non-finite), or a full observation. Truth values are
            enough for laws that look at nothing else; for ``LogMaxScale`` and ``UnderflowScale`` a clean step
            then has the largest gradient 1 and no underflow.

    Example:
        >>> simulate(DynamicScale(1024), [True, True, False]).scales.tolist()
        [1024.0, 512.0, 256.0]
    """
    run = _Run(law)
    for step in steps:
        run.take(step if isinstance(step, Observation) else observe(finite=not step))
    return run.trace()


def simulate_gradients(
    law: LossScaleLaw, largest_gradients: Iterable[float] | Float32Array, *, largest_finite: float = 65504.0
) -> Trace:
    """Run a law over recorded largest gradients: a step is bad if its gradient, times the scale, overflows.

    Args:
        law: The law. Underflow is not simulated: a law that needs it sees none.
        largest_gradients: max |g| of each step, unscaled. A non-finite value is a bad step at any scale, and
            NaN is counted as such.
        largest_finite: Largest finite value of the gradients' format; float16's by default.

    Example:
        A gradient of 8 overflows float16 at scale 2**13 and not at 2**12:

        >>> simulate_gradients(DynamicScale(2.0**13), [8.0, 8.0]).skipped.tolist()
        [True, False]
    """
    run = _Run(law)
    for gradient in largest_gradients:
        finite = float(gradient) * float(run.scale) <= largest_finite
        run.take(observe(finite=finite, has_nan=bool(np.isnan(gradient)), largest_gradient=float(gradient)))
    return run.trace()


class _Run:
    """A law in progress: the one mutable thing here, never handed out."""

    def __init__(self, law: LossScaleLaw) -> None:
        self._law = law
        self._state = law.initial_state()
        self._counters = initial_counters()
        self._scales: list[Any] = []
        self._skipped: list[bool] = []

    @property
    def scale(self) -> np.float32:
        return self._state["scale"]

    def take(self, observation: Observation) -> None:
        self._scales.append(self.scale)
        self._skipped.append(not observation.finite)
        self._counters = count(self._counters, observation)
        self._state = self._law.next(self._state, observation)

    def trace(self) -> Trace:
        return Trace(
            scales=np.array(self._scales, dtype=np.float32),
            skipped=np.array(self._skipped, dtype=np.bool_),
            final_state=self._state,
            counters=self._counters,
        )

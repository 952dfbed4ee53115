"""Loss scale and skipped updates of each optimizer, from counters where there are some, else step by step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mixte.records._summary import Change, OptimizerSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.records._lines import OptimizerState, OptimizerStep, State, Step
    from mixte.records._schema import Optimizer


@dataclass(slots=True, kw_only=True)
class _Tally:
    """What is known of one optimizer's updates so far; None as soon as something is not known."""

    applied: int | None = 0
    in_calibration: int | None = 0
    later: int | None = 0
    by_cause: Counter[str] = field(default_factory=Counter[str])

    def add(self, step: OptimizerStep) -> None:
        match step.skipped:
            case None:
                self.applied = self.in_calibration = self.later = None
            case False:
                self.applied = _plus(self.applied, 1)
            case True:
                self.by_cause[step.cause or "unknown"] += 1
                if self.applied == 0:
                    self.in_calibration = _plus(self.in_calibration, 1)
                else:
                    self.later = _plus(self.later, 1)


def summarise_optimizers(
    optimizers: Sequence[Optimizer], steps: Sequence[Step], states: Sequence[State]
) -> dict[str, OptimizerSummary]:
    """Summarise every optimizer that appears in a record.

    The counters in the last state that has them hold for all steps up to that state's. Steps logged after it,
    as a killed run leaves them, are added one by one.

    Args:
        optimizers: Those that the run names.
        steps: The logged steps.
        states: The logged states.

    Returns:
        A summary for each optimizer by name, in the order of appearance.
    """
    laws = {optimizer.name: optimizer.loss_scale for optimizer in optimizers}
    logged = {name: None for line in (*steps, *states) for name in line.optimizers}
    return {name: _summarise(name, laws.get(name), steps, states) for name in {**laws, **logged}}


def _summarise(name: str, law: str | None, steps: Sequence[Step], states: Sequence[State]) -> OptimizerSummary:
    if not any(name in line.optimizers for line in (*steps, *states)):
        return OptimizerSummary(law=law)
    tally = _Tally()
    counted_to = 0
    for state in states:
        counters = state.optimizers.get(name)
        if counters is not None and counters.skipped is not None:
            tally, counted_to = _from_counters(counters), state.step
    for step in steps:
        if step.step > counted_to and name in step.optimizers:
            tally.add(step.optimizers[name])
    scales = _loss_scales(name, steps, states)
    return OptimizerSummary(
        law=law,
        loss_scale=Change(first=scales[0], last=scales[-1]) if scales else None,
        loss_scale_min=min(scales, default=None),
        loss_scale_max=max(scales, default=None),
        applied=tally.applied,
        skipped_in_calibration=tally.in_calibration,
        skipped_later=tally.later,
        skipped_by_cause=dict(tally.by_cause),
        skip_rate_since_calibration=_rate(tally),
    )


def _from_counters(counters: OptimizerState) -> _Tally:
    calibration = counters.skipped_in_calibration
    later = None if calibration is None or counters.skipped is None else counters.skipped - calibration
    return _Tally(
        applied=counters.applied,
        in_calibration=calibration,
        later=later,
        by_cause=Counter(counters.skipped_by_cause),
    )


def _loss_scales(name: str, steps: Sequence[Step], states: Sequence[State]) -> list[float]:
    """Every logged loss scale in the order of the steps; within one, its own before the state after it."""
    logged = [
        *((step.step, 0, step.optimizers[name].loss_scale) for step in steps if name in step.optimizers),
        *((state.step, 1, state.optimizers[name].loss_scale) for state in states if name in state.optimizers),
    ]
    return [scale for _, _, scale in sorted(logged, key=lambda entry: entry[:2]) if scale is not None]


def _rate(tally: _Tally) -> float | None:
    if not tally.applied or tally.later is None:
        return None
    return tally.later / (tally.applied + tally.later)


def _plus(count: int | None, more: int) -> int | None:
    return None if count is None else count + more

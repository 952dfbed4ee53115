"""Steps that have been started and are not written yet, with what they left on the device."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

from mixte.keras._sampling import Sample, sample
from mixte.records import StepEnd

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixte.records import StepClock


@dataclass(slots=True, kw_only=True)
class PendingStep:
    """A step that has been started and is not written yet; or several, where the framework runs them as one."""

    steps: int = 1
    epoch: int | None = None
    first: bool = False
    profiled: bool = False
    begin_s: float | None = None  # since the start of the run; None if it followed the step before at once
    end_s: float | None = None  # None until it has ended
    losses: list[Any] = field(default_factory=list[Any])
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    samples: list[tuple[Any, Sample]] = field(default_factory=list[Any])


@final
class PendingSteps:
    """The steps between their start and their line in the record; from several threads.

    Attributes:
        started: Number of the last step that was started.
        ended: Number of the last step that has ended.
    """

    def __init__(self) -> None:
        self.started = 0
        self.ended = 0
        self._lock = threading.RLock()
        self._steps: dict[int, PendingStep] = {}
        self._begin_s: float | None = None  # of the next step, after a pause
        self._first = True  # whether the next step compiles

    def __len__(self) -> int:
        return len(self._steps)

    def training_begins(self, begin_s: float) -> None:
        """Note when the first step of a training begins, which compiles; NaN if that is not known."""
        with self._lock:
            self._begin_s, self._first = begin_s, True

    def resumes(self, begin_s: float) -> None:
        """Note when the next step begins, after something else than a step."""
        self._begin_s = begin_s

    def begin(self, last: int, scalers: Iterable[Any], model: Any, **what: Any) -> None:
        """Note that steps are started, all before them having been started.

        Args:
            last: Number of the last of them.
            scalers: What scales the losses: their states after the step before are copied now.
            model: The model that is trained.
            what: Fields of ``PendingStep``.
        """
        with self._lock:
            self.sample_after(self.started, scalers, model)
            entry = self._steps.setdefault(last, PendingStep())
            for name, value in what.items():
                setattr(entry, name, value)
            self._take_beginning(entry)
            self.started = last

    def end(self, last: int, *, end_s: float, logs: dict[str, Any]) -> bool:
        """Note that steps have ended, with the values that Keras reports. Return whether they were known."""
        with self._lock:
            entry = self._steps.get(last)
            if entry is None:
                return False
            entry.end_s = end_s
            values = dict(logs)
            entry.losses = [values.pop("loss")] if "loss" in values else []
            entry.metrics = values
            self.ended = max(self.ended, last)
            return True

    def add_ended(self, entry: PendingStep) -> int:
        """Add a step that has ended already, and return its number."""
        with self._lock:
            self.started += 1
            self.ended = self.started
            self._take_beginning(entry)
            self._steps[self.started] = entry
            return self.started

    def sample_after(self, step: int, scalers: Iterable[Any], model: Any) -> None:
        """Copy the scalers' states after a step, before the next one is started."""
        with self._lock:
            entry = self._steps.get(step)
            if entry is not None and not entry.samples:
                entry.samples = [(scaler, sample(scaler, model)) for scaler in scalers]

    def give_up_unended(self) -> None:
        """Forget steps that were started and did not end: the data ran out, or an exception came."""
        with self._lock:
            self._steps = {step: entry for step, entry in self._steps.items() if entry.end_s is not None}
            self.started = self.ended

    def take(self, clock: StepClock | None, *, complete: bool) -> list[tuple[int, PendingStep, float | None]]:
        """Take out the steps that have ended, in order, up to the first that has not, each with its duration.

        Args:
            clock: Tells the durations; without it nothing is taken.
            complete: Whether the last step is over, with its samples taken and its time to be counted.
        """
        with self._lock:
            ended: list[tuple[int, PendingStep]] = []
            ends: list[StepEnd] = []
            for step, entry in sorted(self._steps.items()):
                if entry.end_s is None or (not complete and step == self.started):
                    break
                ended.append((step, entry))
                ends.append(
                    StepEnd(end_s=entry.end_s, begin_s=entry.begin_s, steps=entry.steps, alone=entry.first)
                )
            if clock is None:
                return []
            durations_s = clock.durations_s(ends, complete=complete)
            taken = [(*pair, duration_s) for pair, duration_s in zip(ended, durations_s, strict=False)]
            for step, _, _ in taken:
                del self._steps[step]
            return taken

    def last_taken(self) -> int:
        """Return the number of the last step up to which all have been taken out."""
        with self._lock:
            waiting = [step for step in self._steps if step <= self.ended]
            return min(waiting) - 1 if waiting else self.ended

    def _take_beginning(self, entry: PendingStep) -> None:
        entry.begin_s, entry.first = self._begin_s, self._first
        self._begin_s, self._first = None, False

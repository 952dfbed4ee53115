"""Turn the moments at which steps ended into the time that each took."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WINDOW_S: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnd:
    """When a step ended.

    Attributes:
        end_s: The moment, in seconds from any origin.
        begin_s: When it began; None if it followed the step before without a pause, NaN if that is not known.
        steps: How many steps this is, where a framework runs several as one.
        alone: Whether it is not to be taken together with others: it compiles.
    """

    end_s: float
    begin_s: float | None = None
    steps: int = 1
    alone: bool = False


class StepClock:
    """Durations of steps, from the moments of their ends.

    Where the host waits for every step, a step took the time since the end of the one before. Where the host
    runs ahead of the device, ends are noticed in bursts: then steps are taken together until 0.1 s have passed,
    and each gets the mean of its window.

    Args:
        runs_ahead: Whether the host runs ahead of the device.
    """

    def __init__(self, *, runs_ahead: bool) -> None:
        self._runs_ahead = runs_ahead
        self._last_end_s: float | None = None

    def durations_s(self, ends: Sequence[StepEnd], *, complete: bool) -> list[float | None]:
        """Return the durations of the next steps, in seconds.

        Args:
            ends: The ends of the steps that follow those of the last call, in the order of the steps.
            complete: Whether the last window is to be closed though it is short.

        Returns:
            The mean duration of one step for each of ``ends`` whose window is closed; fewer than ``ends`` if one
            is open: give the rest again, with those that follow. None for a step of which it is not known when
            it began.
        """
        durations: list[float | None] = []
        window: list[StepEnd] = []
        taken_s: float | None = 0.0
        last_end_s = self._last_end_s
        for index, end in enumerate(_in_time(ends)):
            begun_s = last_end_s if end.begin_s is None else end.begin_s
            if window and end.alone:
                self._close(window, taken_s, durations)
                window, taken_s = [], 0.0
            window.append(end)
            if taken_s is None or begun_s is None or math.isnan(begun_s):
                taken_s = None
            else:
                taken_s += max(end.end_s - begun_s, 0.0)
            last_end_s = end.end_s
            long_enough = not self._runs_ahead or taken_s is None or taken_s >= WINDOW_S
            if long_enough or end.alone or (complete and index + 1 == len(ends)):
                self._close(window, taken_s, durations)
                window, taken_s = [], 0.0
        return durations

    def _close(self, window: Sequence[StepEnd], taken_s: float | None, durations: list[float | None]) -> None:
        steps = sum(end.steps for end in window)
        durations += [None if taken_s is None else taken_s / steps] * len(window)
        self._last_end_s = window[-1].end_s


def _in_time(ends: Sequence[StepEnd]) -> Iterator[StepEnd]:
    """The ends with their moments sorted, as far as the steps followed each other without a pause.

    Ends are noticed by several threads: two neighbours may be noticed in the wrong order.
    """
    start = 0
    for stop in range(1, len(ends) + 1):
        if stop == len(ends) or ends[stop].begin_s is not None:
            stretch = ends[start:stop]
            moments = sorted(end.end_s for end in stretch)
            for end, moment_s in zip(stretch, moments, strict=True):
                yield StepEnd(end_s=moment_s, begin_s=end.begin_s, steps=end.steps, alone=end.alone)
            start = stop

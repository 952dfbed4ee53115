"""Turn the moments at which steps ended into the time that each took."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WINDOW_S = 0.1


class StepClock:
    """Durations of steps, from the moments of their ends.

    Where the host waits for every step, a step took the time since the end of the one before. Where the host
    runs ahead of the device, ends are noticed in bursts: then steps are taken together until 0.1 s have passed,
    and each gets the mean of its window. A first step, which compiles, stands alone.

    Args:
        runs_ahead: Whether the host runs ahead of the device.
    """

    def __init__(self, *, runs_ahead: bool) -> None:
        self._runs_ahead = runs_ahead
        self._last_end_s: float | None = None
        self._first = True

    def start(self, time_s: float, *, first: bool = False) -> None:
        """Say that the next step starts now, not at the end of the one before.

        Args:
            time_s: The moment.
            first: Whether that step compiles.
        """
        self._last_end_s = time_s
        self._first = self._first or first

    def durations_s(self, ends_s: Sequence[float], *, complete: bool) -> list[float]:
        """Return the durations of the next steps, in seconds.

        Args:
            ends_s: The moments of their ends, in the order of the steps.
            complete: Whether the last window is to be closed though it is short.

        Returns:
            A duration for each of the steps whose window is closed; fewer than ``ends_s`` if one is open.
        """
        # Ends are noticed by several threads: two neighbours may be noticed in the wrong order.
        moments = sorted(ends_s)
        durations: list[float] = []
        window = 0
        for index, moment in enumerate(moments):
            begun = moment if self._last_end_s is None else self._last_end_s
            window += 1
            last = index + 1 == len(moments)
            if self._first or not self._runs_ahead or moment - begun >= WINDOW_S or (last and complete):
                durations += [(moment - begun) / window] * window
                self._last_end_s = moment
                self._first = False
                window = 0
        return durations

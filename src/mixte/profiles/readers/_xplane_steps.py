"""The steps of an XPlane file: a line on the GPU's plane, or events with a step number on the host.

``jax.profiler.StepTraceAnnotation`` and ``tf.profiler.experimental.Trace`` write the latter; the former is derived
from it when a profile is processed for TensorBoard. Times are in picoseconds since the epoch of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from mixte.profiles.readers._steps import Steps
from mixte.profiles.readers._wire import WireError
from mixte.profiles.readers._xspace import integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.profiles.readers._xspace import Event, Line, Plane

_PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSteps:
    """Steps marked on the host, and when each kernel was launched there.

    Attributes:
        steps: The steps.
        launches: When the launch with a correlation id was made.
        damaged: Lines that could not be read to their end.
    """

    steps: Steps = field(default_factory=Steps)
    launches: dict[int, int] = field(default_factory=dict[int, int])
    damaged: int = 0

    @classmethod
    def of(cls, planes: Sequence[Plane]) -> Self:
        """Look through the host's planes, if they mark steps at all: they are large."""
        extents: list[tuple[float, float, int]] = []
        launches: dict[int, int] = {}
        damaged = 0
        for plane in planes:
            if "step_num" not in plane.stat_names:
                continue
            for place in plane.lines:
                try:
                    line = plane.line(place)
                    for event_place in plane.events_of(line):
                        event = plane.event(event_place)
                        if event.rest:
                            _take(plane, line, event, extents, launches)
                except WireError:
                    damaged += 1
        return cls(steps=Steps.of(extents), launches=launches, damaged=damaged)

    def at_launch(self, correlation: int | None) -> int | None:
        """Give the step in which the launch with a correlation id was made."""
        moment = None if correlation is None else self.launches.get(correlation)
        return None if moment is None else self.steps.at(moment)


def device_steps(plane: Plane, line: Line) -> Steps:
    """Read the line ``Steps`` of a GPU's plane: its events are named after the steps' numbers.

    Raises:
        WireError: The line is damaged.
    """
    extents: list[tuple[float, float, int]] = []
    for place in plane.events_of(line):
        event = plane.event(place)
        name, _ = plane.metadata_of(event.metadata)
        number = integer(name)
        if number is not None:
            begin = line.timestamp_ns * _PS_PER_NS + event.offset_ps
            extents.append((begin, begin + event.duration_ps, number))
    return Steps.of(extents)


def _take(
    plane: Plane,
    line: Line,
    event: Event,
    extents: list[tuple[float, float, int]],
    launches: dict[int, int],
) -> None:
    stats = plane.decode(plane.rest_of(event)[0])
    begin = line.timestamp_ns * _PS_PER_NS + event.offset_ps
    step = integer(stats.get("step_num"))
    correlation = integer(stats.get("correlation_id"))
    if step is not None:
        extents.append((begin, begin + event.duration_ps, step))
    elif correlation is not None:
        launches[correlation] = begin

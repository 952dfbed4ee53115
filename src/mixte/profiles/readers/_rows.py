"""Adds launches up to rows: one for all launches that agree in everything but count and duration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, final

from mixte.profiles import _limits
from mixte.profiles._model import Kernel, ProfilerStatement

if TYPE_CHECKING:
    from collections.abc import Mapping

# Durations above this are damage, not time: 100 years in nanoseconds, still exact enough in a float to add up.
_MAX_DURATION_NS = 3.2e18


class Launch(NamedTuple):
    """What tells rows apart; the fields are those of `Kernel`."""

    name: str
    device: int | None = None
    stream: int | None = None
    step: int | None = None
    op: str | None = None
    layer: str | None = None
    input_shapes: tuple[tuple[int, ...], ...] | None = None
    input_dtypes: tuple[str | None, ...] | None = None
    threads_per_launch: int | None = None
    counters: tuple[tuple[str, float], ...] | None = None
    uses_tensor_cores: bool | None = None
    eligible: bool | None = None


@dataclass(slots=True)
class _Sum:
    count: int | None = None
    duration_ns: float | None = None


@final
class Rows:
    """The rows of one profile while it is being read.

    Attributes:
        refused: Launches left out because their duration is no time (negative, not finite, beyond 100 years).
        overflow: Launches left out because there were `_limits.MAX_ROWS` different rows already.
    """

    def __init__(self) -> None:
        self._sums: dict[Launch, _Sum] = {}
        self._name_bytes = 0
        self.refused = 0
        self.overflow = 0

    def __len__(self) -> int:
        return len(self._sums)

    def add(self, launch: Launch, *, count: int | None, duration_ns: float | None) -> None:
        """Add one launch or many.

        Args:
            launch: What they are.
            count: How many; None if the file does not count them.
            duration_ns: Their durations added up, in nanoseconds; None if the file holds no time.
        """
        if duration_ns is not None and not 0 <= duration_ns <= _MAX_DURATION_NS:
            self.refused += 1
            return
        sums = self._sums.get(launch)
        if sums is None:
            self._name_bytes += len(launch.name)
            if len(self._sums) >= _limits.MAX_ROWS or self._name_bytes > _limits.MAX_NAME_BYTES:
                self.overflow += 1
                return
            sums = self._sums[launch] = _Sum()
        if count is not None:
            sums.count = count + (sums.count or 0)
        if duration_ns is not None:
            sums.duration_ns = duration_ns + (sums.duration_ns or 0.0)

    def kernels(self) -> tuple[Kernel, ...]:
        """Give the rows, longest first, rows of equal duration in the order of their names."""
        ordered = sorted(
            self._sums.items(),
            key=lambda row: (-(row[1].duration_ns or 0.0), -(row[1].count or 0), row[0].name),
        )
        return tuple(_kernel(launch, sums) for launch, sums in ordered)

    def unnamed(self) -> list[str]:
        """Give a sentence if launches have no name, in a format that names every kernel."""
        count = sum(sums.count or 0 for launch, sums in self._sums.items() if not launch.name)
        return [f"the names of {count} kernel launches are not in the file"] if count else []

    def missing(self) -> list[str]:
        """Give a sentence for each kind of launch that was left out."""
        sentences: list[str] = []
        if self.refused:
            sentences.append(f"{self.refused} kernel launches have a duration that is no time")
        if self.overflow:
            sentences.append(
                f"{self.overflow} launches of further kernels were left out: the file has more than "
                f"{_limits.MAX_ROWS} different rows"
            )
        return sentences


def counter_items(counters: Mapping[str, float]) -> tuple[tuple[str, float], ...] | None:
    """Give counters as the hashable part of a `Launch`; None if there are none."""
    return tuple(sorted((name, value) for name, value in counters.items() if math.isfinite(value))) or None


def _kernel(launch: Launch, sums: _Sum) -> Kernel:
    stated = launch.uses_tensor_cores is not None or launch.eligible is not None
    return Kernel(
        name=launch.name,
        count=sums.count,
        duration_ns=None if sums.duration_ns is None else round(sums.duration_ns),
        device=launch.device,
        stream=launch.stream,
        step=launch.step,
        op=launch.op,
        layer=launch.layer,
        input_shapes=launch.input_shapes,
        input_dtypes=launch.input_dtypes,
        threads_per_launch=launch.threads_per_launch,
        counters=None if launch.counters is None else dict(launch.counters),
        statement=ProfilerStatement(uses_tensor_cores=launch.uses_tensor_cores, eligible=launch.eligible)
        if stated
        else None,
    )

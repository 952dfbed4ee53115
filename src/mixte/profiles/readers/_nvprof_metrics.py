"""``nvprof --metrics``: counters per kernel, without times."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import final

from mixte.profiles._counters import is_evidence
from mixte.profiles.readers._numbers import count, number
from mixte.profiles.readers._rows import Launch, Rows, counter_items

_KERNEL = re.compile(r"\s*Kernel: (?P<name>.*\S)\s*$")
# A utilisation level: "Idle (0)" to "Max (10)".
_LEVEL = re.compile(r".*\((?P<level>\d+)\)\s*$")
_COLUMNS = re.compile(r"\s{2,}")


@dataclass(slots=True)
class _Kernel:
    count: int
    counters: dict[str, float] = field(default_factory=dict[str, float])


@final
class MetricTable:
    """The kernels of a metric report, with their counters."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, int | None], _Kernel] = {}
        self._current = ""

    def take_text(self, line: str, device: int | None) -> None:
        """Take a line of the text report: a kernel's name, or one of its metrics."""
        found = _KERNEL.match(line)
        if found:
            self._current = found["name"]
            return
        columns = _COLUMNS.split(line.strip())
        if self._current and len(columns) >= 5:
            self.take(self._current, device, columns[0], columns[1], columns[-2])

    def take(self, kernel: str, device: int | None, invocations: str, metric: str, highest: str) -> None:
        """Take a metric of a kernel: its invocations, the metric's name, and its value in the Max column."""
        launches = count(invocations)
        if launches is None or not re.fullmatch(r"\w+", metric):
            return
        row = self._kernels.setdefault((kernel, device), _Kernel(launches))
        row.count = max(row.count, launches)
        level = _LEVEL.match(highest)
        value = number(level["level"] if level else highest)
        if value is not None and is_evidence(metric):
            row.counters[metric] = value

    def add_to(self, rows: Rows) -> bool:
        """Add the kernels to the rows; tell whether there were any."""
        for (name, device), kernel in self._kernels.items():
            launch = Launch(name, device=device, counters=counter_items(kernel.counters))
            rows.add(launch, count=kernel.count, duration_ns=None)
        return bool(self._kernels)

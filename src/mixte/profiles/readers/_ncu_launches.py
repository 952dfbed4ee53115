"""What the metrics of Nsight Compute say about a launch, whichever way they are printed.

Metric names: Nsight Compute documentation, "Metrics Guide". The details page uses titles (``Duration``) where the
metrics page uses names (``gpu__time_duration.sum``).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from mixte.profiles import _limits
from mixte.profiles._counters import is_evidence
from mixte.profiles._model import Format, Gpu, Profile, Weight
from mixte.profiles.readers._numbers import Mark, decimal_mark, nanoseconds_per, number
from mixte.profiles.readers._rows import Launch, Rows, counter_items

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_TIMES = ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration", "gpu__time_active.sum")
# Cycles and frequency of the same clock: their ratio is the time.
_CYCLES = (
    ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.avg.per_second"),
    ("sm__cycles_elapsed.max", "sm__cycles_elapsed.avg.per_second"),
    ("gpc__cycles_elapsed.max", "gpc__cycles_elapsed.avg.per_second"),
    ("Elapsed Cycles", "SM Frequency"),
)
_THREADS = ("Threads", "launch__thread_count")
_GRID, _BLOCK = ("Grid Size", "launch__grid_size"), ("Block Size", "launch__block_size")
_GPU_NAME = "device__attribute_display_name"
_WANTED = {_GPU_NAME, *_TIMES, *_THREADS, *_GRID, *_BLOCK, *(name for pair in _CYCLES for name in pair)}
_INTEGER = re.compile(r"\d+")
_SAMPLES = 4096


@dataclass(slots=True, kw_only=True)
class NcuLaunch:
    """A profiled launch.

    Attributes:
        name: The kernel's name.
        count: Launches that it stands for; above 1 only in summaries.
        stream: Its stream.
        device: Its device.
        compute_capability: Of the device, as written.
        grid: As written: ``"(132, 1, 1)"`` or a number; likewise `block`.
        metrics: Unit and value as written, by name.
    """

    name: str
    count: int = 1
    stream: int | None = None
    device: int | None = None
    compute_capability: str = ""
    grid: str = ""
    block: str = ""
    metrics: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


@final
class NcuLaunches:
    """Gathers the launches of one file."""

    def __init__(self) -> None:
        self._launches: list[NcuLaunch] = []
        self._samples: list[str] = []
        self._overflow = 0

    def __len__(self) -> int:
        return len(self._launches)

    def add(self, launch: NcuLaunch) -> None:
        """Add a launch, whose metrics may follow."""
        if len(self._launches) < _limits.MAX_ROWS:
            self._launches.append(launch)
        else:
            self._overflow += 1

    def add_metric(self, launch: NcuLaunch, name: str, unit: str, value: str) -> None:
        """Keep a metric if it says something about time, threads or Tensor Cores."""
        if len(self._samples) < _SAMPLES:
            self._samples.append(value)
        if value and (name in _WANTED or is_evidence(name)):
            launch.metrics[name] = (unit, value)

    def profile(self, format_: Format, source: Source, *, why_empty: str) -> Profile:
        """Build the profile from what was gathered."""
        mark = decimal_mark(self._samples)
        times = [_time_ns(launch, mark) for launch in self._launches]
        weight = Weight.TIME if any(time is not None for time in times) else Weight.LAUNCHES
        rows = Rows()
        rows.overflow += self._overflow
        untimed = 0
        for launch, time in zip(self._launches, times, strict=True):
            if weight is Weight.TIME and time is None:
                untimed += launch.count
            else:
                total = None if time is None else time * launch.count
                rows.add(_row(launch, mark), count=launch.count, duration_ns=total)
        notes: list[str] = []
        if len(rows):
            notes.append("Nsight Compute replays the launches that it profiles: they may be a part of the run")
            if weight is Weight.LAUNCHES:
                notes.append("the file holds no time metric: shares are of launches")
        return Profile(
            format=format_,
            path=source.path,
            kernels=rows.kernels(),
            weight=weight if len(rows) else Weight.TIME,
            gpus=self._gpus(),
            producer="Nsight Compute",
            no_kernels_reason=None if len(rows) else why_empty,
            missing=(
                *source.damage,
                *([f"{untimed} launches have no time metric"] if untimed else []),
                *rows.missing(),
            ),
            notes=tuple(notes),
        )

    def _gpus(self) -> tuple[Gpu, ...]:
        written = {
            launch.device or 0: (
                launch.metrics.get(_GPU_NAME, ("", ""))[1],
                _capability(launch.compute_capability),
            )
            for launch in self._launches
        }
        return tuple(
            Gpu(index=device, name=name.strip() or None, compute_capability=capability, vendor="nvidia")
            for device, (name, capability) in sorted(written.items())
            if name or capability
        )


def _row(launch: NcuLaunch, mark: Mark) -> Launch:
    values = {name: number(value, mark) for name, (_, value) in launch.metrics.items() if is_evidence(name)}
    counters = counter_items({name: value for name, value in values.items() if value is not None})
    return Launch(
        launch.name.strip(),
        device=launch.device,
        stream=launch.stream,
        threads_per_launch=_threads(launch, mark) if counters else None,
        counters=counters,
    )


def _time_ns(launch: NcuLaunch, mark: Mark) -> float | None:
    """Give the duration of one launch: a time metric, or cycles over frequency."""
    for name in _TIMES:
        unit, value = launch.metrics.get(name, ("", ""))
        per, time = nanoseconds_per(unit), number(value, mark)
        if per is not None and time is not None:
            return time * per
    for cycles_name, frequency_name in _CYCLES:
        cycles = number(launch.metrics.get(cycles_name, ("", ""))[1], mark)
        unit, value = launch.metrics.get(frequency_name, ("", ""))
        per_second, hertz = number(value, mark), _hertz(unit)
        if cycles is not None and per_second and hertz is not None:
            return cycles / (per_second * hertz) * 1e9
    return None


def _hertz(unit: str) -> float | None:
    """Give a unit of frequency in hertz: ``cycle/nsecond``, ``Ghz``; None for no such unit."""
    _, per, time = unit.strip().partition("/")
    if per:
        nanoseconds = nanoseconds_per(time)
        return None if nanoseconds is None else 1e9 / nanoseconds
    return {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}.get(unit.strip().lower())


def _threads(launch: NcuLaunch, mark: Mark) -> int | None:
    for name in _THREADS:
        threads = number(launch.metrics.get(name, ("", ""))[1], mark)
        if threads is not None:
            return round(threads)
    grid, block = _size(launch, launch.grid, _GRID, mark), _size(launch, launch.block, _BLOCK, mark)
    return None if grid is None or block is None else grid * block


def _size(launch: NcuLaunch, written: str, metrics: tuple[str, ...], mark: Mark) -> int | None:
    """Give the number of blocks or threads: ``(132, 1, 1)`` in the launch's own line, or a metric."""
    sizes = _INTEGER.findall(written)
    if len(sizes) == 3:
        return math.prod(int(size) for size in sizes)
    for name in metrics:
        value = number(launch.metrics.get(name, ("", ""))[1], mark)
        if value is not None:
            return round(value)
    return None


def _capability(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})", text.strip())
    return (int(found[1]), int(found[2])) if found else None

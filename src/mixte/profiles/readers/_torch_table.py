"""PyTorch's ``key_averages().table()``.

Kernels and the operators that launched them stand in one table: the operators repeat the time of their kernels.
A kernel is a row without CPU time that is no operator, no annotation, no copy and no runtime call.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixte.profiles._model import Profile
from mixte.profiles.readers._columns import Columns
from mixte.profiles.readers._numbers import count, duration_ns
from mixte.profiles.readers._rows import Launch, Rows

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_TOTAL = re.compile(r"(?:Self )?(?:CUDA|XPU|HIP) time total: (?P<time>\S+)")
# Operators (`aten::mm`, `autograd::engine::evaluate_function: MmBackward0`) and what marks ranges on the GPU's track.
_NO_KERNEL = re.compile(
    r"[a-z_]\w*(?:::\w[\w.]*)+(?:: .*)?$|\w+Backward\d*$|ProfilerStep|Optimizer\.|nccl:|## |Torch-Compiled Region"
    r"|Mem(?:cpy|set) |cuda[A-Z]\w*$|cu[A-Z]\w*$|hip[A-Z]\w*$|\[memory\]|Activity Buffer Request|Command Buffer Full"
)
# The table prints times with three decimals and percentages with two: rows add up to the total within this.
_ROUNDING = 0.005


def read(source: Source) -> Profile:
    """Read a table, or several one after the other."""
    rows = Rows()
    missing: list[str] = []
    previous = ""
    table: _Table | None = None
    on_gpu = found_any = False
    for line in source.lines():
        columns = Columns.of_dashes(line)
        if columns is not None and "Self CPU" in previous:
            table = _Table(columns, [name.strip() for name in columns.split(previous)])
            found_any = True
            on_gpu |= table.on_gpu
        elif columns is None and table is not None:
            total = _TOTAL.match(line)
            if total:
                missing += table.cut_off(duration_ns(total["time"]))
                table.add_to(rows)
                table = None
            elif not line.startswith("Self CPU time total"):
                table.take(columns=line)
        previous = line
    if table is not None:
        table.add_to(rows)
        if on_gpu:
            missing.append("the table is cut off: its total is missing")
    return Profile(
        format="torch_table",
        path=source.path,
        kernels=rows.kernels(),
        producer="PyTorch profiler",
        no_kernels_reason=None if len(rows) else _why_no_kernels(on_gpu=on_gpu, found_any=found_any),
        missing=(*source.damage, *missing, *rows.missing()),
    )


def _why_no_kernels(*, on_gpu: bool, found_any: bool) -> str:
    if on_gpu:
        return "the table lists no kernels, only operators"
    return "the table has no GPU columns: only the CPU was profiled" if found_any else "the file holds no table"


class _Table:
    """One table while it is being read."""

    def __init__(self, columns: Columns, names: list[str]) -> None:
        self._columns = columns
        self._at = {name: index for index, name in enumerate(names)}
        self._device = next((name for name in ("Self CUDA", "Self XPU", "Self HIP") if name in self._at), None)
        self._kernels: list[tuple[str, int, float]] = []
        self._on_cpu: set[str] = set()
        self._listed_ns = 0.0

    @property
    def on_gpu(self) -> bool:
        """Whether the table has columns of a GPU; before 1.8 they were of operators only."""
        return self._device is not None or "CUDA total" in self._at

    def take(self, columns: str) -> None:
        """Take a row."""
        values = self._columns.split(columns)
        if self._device is None or len(values) != len(self._at):
            return
        name = values[self._at["Name"]]
        on_cpu = duration_ns(values[self._at.get("Self CPU", 0)])
        on_gpu = duration_ns(values[self._at[self._device]])
        calls_at = self._at.get("# of Calls", self._at.get("Number of Calls"))
        calls = None if calls_at is None else count(values[calls_at])
        if on_cpu is None or on_gpu is None or calls is None:
            return
        if on_cpu > 0:
            self._on_cpu.add(name)
            return
        if name.startswith(("Memcpy ", "Memset ")):
            self._listed_ns += on_gpu
        elif on_gpu > 0 and not _NO_KERNEL.match(name):
            self._listed_ns += on_gpu
            self._kernels.append((name, calls, on_gpu))

    def cut_off(self, total_ns: float | None) -> list[str]:
        """Say so if the rows do not add up to the table's total: ``row_limit`` cut it."""
        if self._device is None or total_ns is None or self._listed_ns >= total_ns * (1 - _ROUNDING):
            return []
        share = self._listed_ns / total_ns
        return [f"the rows of the table add up to {share:.0%} of its GPU time: print it with row_limit=-1"]

    def add_to(self, rows: Rows) -> None:
        """Add the kernels; a range marked by the user has a row on the CPU, too, and is none."""
        for name, calls, time_ns in self._kernels:
            if name not in self._on_cpu:
                rows.add(Launch(name), count=calls, duration_ns=time_ns)

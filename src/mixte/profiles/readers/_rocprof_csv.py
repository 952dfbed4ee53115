"""A row per kernel dispatch, with counters: ``pmc_perf.csv``, and rocprofv3's ``kernel_trace.csv``.

A counter table has thousands of columns; the same column may come several times with a suffix, once per pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles._counters import is_evidence
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._csv_line import fields, named
from mixte.profiles.readers._numbers import count, number
from mixte.profiles.readers._rows import Launch, Rows, counter_items

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

# Spellings of rocprofiler-compute, of its predecessor Omniperf, and of rocprofv3.
_NAME = ("Kernel_Name", "KernelName", "kernel_name")
_BEGIN = ("Start_Timestamp", "BeginNs")
_END = ("End_Timestamp", "EndNs")
_DEVICE = ("GPU_ID", "gpu-id", "Agent_Id")
_GRID = ("Grid_Size", "grd")


def read(source: Source) -> Profile:
    """Read a table of dispatches."""
    rows = Rows()
    columns: list[str] = []
    evidence: list[str] = []
    devices: set[int] = set()
    unread = 0
    for line in source.lines():
        values = fields(line)
        if not columns:
            if any(name in values for name in _NAME) and any(begin in values for begin in _BEGIN):
                columns = values
                evidence = [column for column in columns if is_evidence(column)]
            continue
        row = named(columns, values)
        begin, end = (count(_first(row, names)) for names in (_BEGIN, _END))
        if begin is None or end is None:
            unread += bool(line.strip())
            continue
        device = count(_first(row, _DEVICE).removeprefix("Agent "))
        if device is not None:
            devices.add(device)
        counters = {column: value for column in evidence if (value := number(row.get(column, ""))) is not None}
        launch = Launch(
            _first(row, _NAME).strip(),
            device=device,
            stream=count(row.get("Queue_Id", row.get("Queue_ID", ""))),
            threads_per_launch=count(_first(row, _GRID)) if counters else None,
            counters=counter_items(counters),
        )
        rows.add(launch, count=1, duration_ns=end - begin)
    return Profile(
        format="rocprof",
        path=source.path,
        kernels=rows.kernels(),
        gpus=tuple(Gpu(index=device, vendor="amd") for device in sorted(devices)),
        producer="ROCprofiler",
        no_kernels_reason=None if len(rows) else "the table lists no dispatches",
        missing=(
            *source.damage,
            *([f"{unread} rows of the table could not be read"] if unread else []),
            *rows.missing(),
        ),
    )


def _first(row: dict[str, str], names: tuple[str, ...]) -> str:
    return next((row[name] for name in names if name in row), "")

"""AMD's tables of dispatches and of sums per kernel.

Read are ``pmc_perf.csv`` and rocprofv3's ``kernel_trace.csv``, ``counter_collection.csv`` and ``kernel_stats.csv``. A
counter table has a column per counter, thousands of them, the same one several times with a suffix for each pass;
or, in ``counter_collection.csv``, a row per dispatch and counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles import _limits
from mixte.profiles._counters import is_evidence
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._csv_line import fields, named
from mixte.profiles.readers._numbers import count, number
from mixte.profiles.readers._rows import Launch, Rows, counter_items

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

# Spellings of rocprofiler-compute, of its predecessor Omniperf, and of rocprofv3.
_NAME = ("Kernel_Name", "KernelName")
_BEGIN = ("Start_Timestamp", "BeginNs")
_END = ("End_Timestamp", "EndNs")
_DEVICE = ("GPU_ID", "gpu-id", "Agent_Id")
_GRID = ("Grid_Size", "grd")
# What tells dispatches apart in a table with a row per counter.
_DISPATCH = ("Process_Id", "Agent_Id", "Dispatch_Id")
_SUMS = {"Name", "Calls", "TotalDurationNs"}


def read(source: Source) -> Profile:
    """Read a table."""
    rows = Rows()
    columns: list[str] = []
    gpus: dict[int, Gpu] = {}
    dispatches: dict[tuple[str, ...], dict[str, str]] = {}
    unread = 0
    for line in source.lines():
        values = fields(line)
        if not columns:
            columns = values if _is_header(values) else []
            continue
        row = named(columns, values)
        if not line.strip():
            continue
        if row.keys() >= _SUMS:
            unread += not _take_sum(rows, row)
        elif "Counter_Name" in row and len(dispatches) < _limits.MAX_ROWS:
            key = tuple(row.get(column, "") for column in _DISPATCH)
            dispatches.setdefault(key, row)[row["Counter_Name"]] = row.get("Counter_Value", "")
        else:
            unread += not _take_dispatch(rows, row, gpus)
    unread += sum(not _take_dispatch(rows, row, gpus) for row in dispatches.values())
    return Profile(
        format="rocprof",
        path=source.path,
        kernels=rows.kernels(),
        gpus=tuple(gpus[index] for index in sorted(gpus)),
        producer="ROCprofiler",
        no_kernels_reason=None if len(rows) else "the table lists no kernels",
        missing=(
            *source.damage,
            *([f"{unread} rows of the table could not be read"] if unread else []),
            *rows.missing(),
        ),
    )


def _is_header(values: list[str]) -> bool:
    columns = set(values)
    return columns >= _SUMS or not (columns.isdisjoint(_NAME) or columns.isdisjoint(_BEGIN))


def _take_dispatch(rows: Rows, row: dict[str, str], gpus: dict[int, Gpu]) -> bool:
    """Take one launch; False if the row cannot be read."""
    begin, end = count(_first(row, _BEGIN)), count(_first(row, _END))
    if begin is None or end is None:
        return False
    device = count(_first(row, _DEVICE).removeprefix("Agent "))
    if device is not None:
        gpus.setdefault(device, Gpu(index=device, vendor="amd"))
    values = {column: number(text) for column, text in row.items() if is_evidence(column)}
    counters = counter_items({column: value for column, value in values.items() if value is not None})
    launch = Launch(
        _first(row, _NAME).strip(),
        device=device,
        stream=count(row.get("Queue_Id", row.get("Queue_ID", ""))),
        threads_per_launch=count(_first(row, _GRID)) if counters else None,
        counters=counters,
    )
    rows.add(launch, count=1, duration_ns=end - begin)
    return True


def _take_sum(rows: Rows, row: dict[str, str]) -> bool:
    """Take all launches of a kernel; False if the row cannot be read."""
    calls, time_ns = count(row["Calls"]), number(row["TotalDurationNs"])
    if calls is None or time_ns is None:
        return False
    rows.add(Launch(row["Name"].strip()), count=calls, duration_ns=time_ns)
    return True


def _first(row: dict[str, str], names: tuple[str, ...]) -> str:
    return next((row[name] for name in names if name in row), "")

"""``nvprof --csv``: the summary, ``--print-gpu-trace`` and ``--metrics``.

The line below the header holds the units, which differ from column to column and from file to file. Before CUDA 9
fields were not quoted, names had bare commas, and each value carried its unit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles._model import Profile, Weight
from mixte.profiles.readers._csv_line import fields
from mixte.profiles.readers._numbers import count, duration_ns, nanoseconds_per, number
from mixte.profiles.readers._nvprof_log import NvprofLog, is_kernel
from mixte.profiles.readers._nvprof_metrics import MetricTable
from mixte.profiles.readers._nvprof_text import nvprof_profile
from mixte.profiles.readers._rows import Launch

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read nvprof's CSV output."""
    log = NvprofLog()
    metrics = MetricTable()
    columns: list[str] = []
    units: dict[str, str] = {}
    for raw in source.lines():
        line = log.take(raw)
        if not line or log.section in {"NVTX result", "API calls"}:
            continue
        values = fields(line)
        if _is_header(values):
            columns, units = values, {}
        elif columns and not units and _is_unit_row(columns, values):
            units = dict(zip(columns, values, strict=True))
        elif columns:
            row = _row(columns, values)
            if "Kernel" in row:
                device = log.device(row.get("Device", ""))
                metrics.take(row["Kernel"], device, row["Invocations"], row["Metric Name"], row["Max"])
            elif "Calls" in row or "Duration" in row:
                _take_row(log, row, units)
    weight = Weight.TIME
    if not len(log.rows) and metrics.add_to(log.rows):
        weight = Weight.LAUNCHES
    return nvprof_profile("nvprof_csv", source, log, weight)


def _is_header(values: list[str]) -> bool:
    names = set(values)
    return (
        {"Time", "Calls", "Name"} <= names
        or {"Start", "Duration", "Name"} <= names
        or {"Kernel", "Invocations", "Metric Name", "Max"} <= names
    )


def _is_unit_row(columns: list[str], values: list[str]) -> bool:
    if len(values) != len(columns):
        return False
    unit = dict(zip(columns, values, strict=True))
    return nanoseconds_per(unit.get("Time", unit.get("Duration", ""))) is not None and not unit["Name"]


def _row(columns: list[str], values: list[str]) -> dict[str, str]:
    """Pair values with columns; a name with bare commas fills as many fields as are too many."""
    excess = len(values) - len(columns)
    at = next((index for index, column in enumerate(columns) if column in {"Name", "Kernel"}), None)
    if excess < 0 or at is None:
        return {}
    if excess:
        values = [*values[:at], ",".join(values[at : at + excess + 1]), *values[at + excess + 1 :]]
    return dict(zip(columns, values, strict=True))


def _take_row(log: NvprofLog, row: dict[str, str], units: dict[str, str]) -> None:
    name = row.get("Name", "").strip()
    if row.get("Type", "GPU activities") != "GPU activities" or not is_kernel(name):
        return
    column = "Time" if "Calls" in row else "Duration"
    time = _time_ns(row[column], units.get(column, ""))
    if time is None:
        return
    if "Calls" in row:
        calls = count(row["Calls"])
        if calls is not None:
            log.rows.add(Launch(name), count=calls, duration_ns=time)
    elif row.get("Grid X", "").strip():  # copies and memory sets have no grid
        device = log.device(row["Device"]) if row.get("Device") else None
        stream = count(row.get("Stream", ""))
        log.rows.add(Launch(name, device=device, stream=stream), count=1, duration_ns=time)


def _time_ns(text: str, unit: str) -> float | None:
    per = nanoseconds_per(unit)
    value = number(text.replace(",", "."))
    return duration_ns(text) if per is None else None if value is None else value * per

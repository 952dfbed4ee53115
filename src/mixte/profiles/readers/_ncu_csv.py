"""``ncu --csv``: a row per launch and metric (details and metrics pages), or a row per launch (raw page)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles.readers._csv_line import fields, named
from mixte.profiles.readers._ncu_launches import NcuLaunch, NcuLaunches
from mixte.profiles.readers._numbers import count

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read Nsight Compute's CSV output."""
    launches = NcuLaunches()
    by_id: dict[tuple[str, ...], NcuLaunch] = {}
    columns: list[str] = []
    units: dict[str, str] | None = None
    for line in source.lines():
        if not line.startswith('"'):
            continue  # program output and ncu's own messages
        values = fields(line)
        if "Kernel Name" in values and ("ID" in values or "Invocations" in values):
            columns, units = values, None
        elif not columns or len(values) < 5:
            continue
        elif "Metric Name" in columns:
            _take_metric(launches, by_id, named(columns, values))
        elif units is None and not any(named(columns, values).get(key) for key in ("ID", "Kernel Name")):
            units = named(columns, values)
        else:
            _take_launch(launches, named(columns, values), units or {})
    return launches.profile("ncu_csv", source, why_empty="the file lists no profiled kernels")


def _take_metric(launches: NcuLaunches, by_id: dict[tuple[str, ...], NcuLaunch], row: dict[str, str]) -> None:
    """Take a metric of a launch; a row of a rule has no metric, a row without a rule ends early."""
    key = tuple(
        row.get(column, "")
        for column in ("ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device")
    )
    launch = by_id.get(key)
    if launch is None:
        launch = by_id[key] = _launch(row)
        launches.add(launch)
    value = row.get("Metric Value", row.get("Average", ""))
    launches.add_metric(launch, row.get("Metric Name", ""), row.get("Metric Unit", ""), value)


def _take_launch(launches: NcuLaunches, row: dict[str, str], units: dict[str, str]) -> None:
    launch = _launch(row)
    launches.add(launch)
    for column, value in row.items():
        if "__" in column or column == "Duration":
            launches.add_metric(launch, column, units.get(column, ""), value)


def _launch(row: dict[str, str]) -> NcuLaunch:
    return NcuLaunch(
        name=row.get("Kernel Name", ""),
        count=count(row.get("Invocations", "1")) or 1,
        stream=count(row.get("Stream", "")),
        device=count(row.get("Device", "")),
        compute_capability=row.get("CC", ""),
        grid=row.get("Grid Size", ""),
        block=row.get("Block Size", ""),
    )

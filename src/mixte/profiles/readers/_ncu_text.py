"""``ncu`` as text: a line per launch, then sections with tables of metric, unit and value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixte.profiles.readers._ncu_launches import NcuLaunch, NcuLaunches

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source

# `name (grid)x(block), Context 1, Stream 7, Device 0, CC 8.0`; before 2023 a date stood in place of the sizes.
_LAUNCH = re.compile(
    r"\s{1,4}(?P<name>\S.*?)(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, \d{4}-\w{3}-\d{2} \d{2}:\d{2}:\d{2})?(?:, Context \d+, Stream (?P<stream>\d+))?"
    r"(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>\d+\.\d+))?(?:, Invocations (?P<count>\d+))?\s*$"
)
_GAP = re.compile(r"\s{2,}")
# A metric's name may fill its column, so that one space is left before the unit.
_NAME_AND_UNIT = re.compile(r"(?P<name>\w+__\S+) (?P<unit>\S+)")


def read(source: Source) -> Profile:
    """Read Nsight Compute's text output."""
    launches = NcuLaunches()
    launch: NcuLaunch | None = None
    in_table = False
    for line in source.lines():
        if line.startswith("=="):
            continue
        stripped = line.strip()
        if stripped.startswith("---") and not stripped.strip("- "):
            in_table = launch is not None
        elif ", Context " in line or ", Invocations " in line:
            found = _LAUNCH.match(line)
            if found and (found["stream"] or found["count"]):
                launch = _launch(found)
                launches.add(launch)
                in_table = False
        elif stripped.startswith("Section:"):
            in_table = False
        elif in_table and launch is not None:
            _take_metric(launches, launch, stripped)
    return launches.profile("ncu_text", source, why_empty="Nsight Compute profiled no kernels")


def _launch(found: re.Match[str]) -> NcuLaunch:
    return NcuLaunch(
        name=found["name"],
        count=int(found["count"] or 1),
        stream=int(found["stream"]) if found["stream"] else None,
        device=int(found["device"]) if found["device"] else None,
        compute_capability=found["cc"] or "",
        grid=found["grid"] or "",
        block=found["block"] or "",
    )


def _take_metric(launches: NcuLaunches, launch: NcuLaunch, row: str) -> None:
    columns = _GAP.split(row)
    unit = ""
    if len(columns) == 2:
        name, value = columns
        overlong = _NAME_AND_UNIT.fullmatch(name)
        if overlong:
            name, unit = overlong["name"], overlong["unit"]
    elif len(columns) == 3:
        name, unit, value = columns
    elif len(columns) == 5:  # a summary: minimum, maximum, average
        name, unit, _, _, value = columns
    else:
        return  # the text of a rule
    launches.add_metric(launch, name, unit, value)

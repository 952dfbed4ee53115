"""nvprof's output as text: the summary, ``--print-gpu-trace`` and ``--metrics``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixte.profiles._model import Profile, Weight
from mixte.profiles.readers._numbers import duration_ns
from mixte.profiles.readers._nvprof_log import NvprofLog, is_kernel
from mixte.profiles.readers._nvprof_metrics import MetricTable
from mixte.profiles.readers._rows import Launch

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_SUMMARY = re.compile(r"\s*(?P<type>Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name\s*$")
_TRACE = re.compile(r"\s*Start\s+Duration\s+Grid Size\s+Block Size\s")
_METRICS = re.compile(r"\s*Invocations\s+Metric Name\s+Metric Description\s")
_TIME = r"[\d.,]+(?:e[+-]?\d+)?[mun]?s"
# Six values, each with its unit, and the name; a row of a new section begins with the section's label.
_SUMMARY_ROW = re.compile(
    rf"\s*(?:(?P<label>[A-Z][\w ()]*):)?\s*[\d.,]+%\s+(?P<time>{_TIME})\s+(?P<calls>\d+)"
    rf"\s+{_TIME}\s+{_TIME}\s+{_TIME}\s+(?P<name>\S.*)"
)
# Copies have no grid. After registers and shared memory come the columns that only copies fill.
_TRACE_ROW = re.compile(
    rf"\s*{_TIME}\s+(?P<time>{_TIME})\s+\(\d+ \d+ \d+\)\s+\(\d+ \d+ \d+\)\s+\d+\s+[\d.,]+\w*B\s+[\d.,]+\w*B\s+(?:-\s+)*"
    r"(?P<device>\S.*?)\s\s+\d+\s+(?P<stream>\d+)\s+(?P<name>\S.*)"
)
_CORRELATION = re.compile(r" \[\d+\]$")
_DEVICE = re.compile(r'\s*Device "(?P<name>.*)"\s*$')


def read(source: Source) -> Profile:
    """Read nvprof's text output."""
    log = NvprofLog()
    metrics = MetricTable()
    table = ""
    on_gpu = True
    device: int | None = None
    for raw in source.lines():
        line = log.take(raw)
        if line is None:
            continue
        opened = _opens(line)
        if opened:
            table = opened
            on_gpu = "API" not in log.section
        elif log.section and 'Device "' in line and (found := _DEVICE.match(line)):
            device = log.device(found["name"])
        elif table == "summary" and log.section != "NVTX result":
            on_gpu = _take_summary_row(log, line, device, on_gpu=on_gpu)
        elif table == "trace":
            _take_trace_row(log, line)
        elif table == "metrics":
            metrics.take_text(line, device)
    weight = Weight.TIME
    if not len(log.rows) and metrics.add_to(log.rows):
        weight = Weight.LAUNCHES
    return nvprof_profile("nvprof_text", source, log, weight)


def nvprof_profile(format_: str, source: Source, log: NvprofLog, weight: Weight) -> Profile:
    """Build the profile from what was gathered."""
    return Profile(
        format="nvprof_csv" if format_ == "nvprof_csv" else "nvprof_text",
        path=source.path,
        kernels=log.rows.kernels(),
        weight=weight,
        gpus=tuple(log.gpus),
        producer="nvprof",
        no_kernels_reason=None if len(log.rows) else log.why_empty(),
        missing=(*source.damage, *log.missing, *log.rows.missing()),
        notes=("nvprof metrics hold no times: shares are of launches",) if weight is Weight.LAUNCHES else (),
    )


def _opens(line: str) -> str:
    """Name the table that a header opens; the empty string for any other line."""
    if "Name" not in line:  # nearly every line of a long file
        return ""
    if _SUMMARY.match(line):
        return "summary"
    if _TRACE.match(line):
        return "trace"
    return "metrics" if _METRICS.match(line) else ""


def _take_summary_row(log: NvprofLog, line: str, device: int | None, *, on_gpu: bool) -> bool:
    """Take a row of the summary; tell whether the next row without a label is one of the GPU's."""
    found = _SUMMARY_ROW.match(line)
    if found is None:
        return on_gpu
    if found["label"]:
        on_gpu = found["label"] == "GPU activities"
    if on_gpu and is_kernel(found["name"]):
        time = duration_ns(found["time"])
        if time is not None:
            log.rows.add(
                Launch(found["name"].rstrip(), device=device), count=int(found["calls"]), duration_ns=time
            )
    return on_gpu


def _take_trace_row(log: NvprofLog, line: str) -> None:
    found = _TRACE_ROW.match(line)
    if found is None or not is_kernel(found["name"]):
        return
    time = duration_ns(found["time"])
    if time is not None:
        name = _CORRELATION.sub("", found["name"].rstrip())
        launch = Launch(name, device=log.device(found["device"]), stream=int(found["stream"]))
        log.rows.add(launch, count=1, duration_ns=time)

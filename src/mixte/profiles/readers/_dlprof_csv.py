"""DLProf's CSV reports: kernel, iteration, Tensor Core, group and summary (NVIDIA, ended with version 1.8).

The first line of a report is its title, the second its header. Only DLProf says itself which kernels use Tensor
Cores, how it knows is not documented. Stack traces in quotes may hold line ends.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

from mixte.profiles._dtype import spell
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._csv_line import named
from mixte.profiles.readers._numbers import count, number
from mixte.profiles.readers._rows import Launch, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixte.profiles.readers._source import Source

_KERNEL_TIME = ("Total GPU Time (ns)", "GPU Duration (ns)")
_GPUS = "GPU Name(s)"
# The columns of the summary's table "All Kernels" are: title, GPU time, CPU time, number.
_SUMMARY_TC, _SUMMARY_ALL, _SUMMARY_MEMORY = "Kernels using TC", "All kernels", "Memory"
_SHAPE = re.compile(r"\[([\d, x]*)\]")


def read(source: Source) -> Profile:
    """Read a report, or several in one file."""
    rows = Rows()
    gpus: list[Gpu] = []
    notes: list[str] = []
    columns: list[str] = []
    summary: dict[str, float] = {}
    for values in _records(source):
        if _is_header(values):
            columns = [value.strip() for value in values]
        elif values[0].strip() == _GPUS:
            gpus = [
                Gpu(index=index, name=name.strip(), vendor="nvidia")
                for index, name in enumerate(values[1:])
                if name.strip()
            ]
        elif values[0].strip() in {_SUMMARY_TC, _SUMMARY_ALL, _SUMMARY_MEMORY}:
            time = number(values[1]) if len(values) > 1 else None
            if time is not None:
                summary[values[0].strip()] = time
        elif columns and len(values) == len(columns):
            _take_row(rows, named(columns, values))
    if not len(rows) and _SUMMARY_ALL in summary:
        _add_summary(rows, summary)
        notes.append(
            "the summary report names no kernels: DLProf's own count of those using Tensor Cores is given"
        )
    elif "TC GPU Time (ns)" in columns and "Kernel Name" not in columns:
        notes.append("the report lists operators eligible for Tensor Cores only: shares are of their time")
    return Profile(
        format="dlprof",
        path=source.path,
        kernels=rows.kernels(),
        gpus=tuple(gpus),
        producer="DLProf",
        no_kernels_reason=None if len(rows) else "the report lists no kernels",
        missing=(*source.damage, *rows.missing()),
        notes=tuple(notes),
    )


def _records(source: Source) -> Iterator[list[str]]:
    try:
        for record in csv.reader(f"{line}\n" for line in source.lines()):
            if any(record):
                yield record
    except csv.Error:
        source.damage.append("a line of the report is no CSV: what follows it was not read")


def _is_header(values: list[str]) -> bool:
    columns = {value.strip() for value in values}
    return bool(columns & {*_KERNEL_TIME, "TC GPU Time (ns)"}) and not columns.isdisjoint(
        {"Kernel Name", "Op ID", "Op Name"}
    )


def _take_row(rows: Rows, row: dict[str, str]) -> None:
    kernel = row.get("Long Kernel Name") or row.get("Kernel Name")
    eligible = _yes(row.get("TC Eligible"))
    op = row.get("Op Name") or row.get("Op ID") or None
    layer, op_type = _place(op, row.get("Op Type"))
    if kernel is not None:
        time = next((number(row[column]) for column in _KERNEL_TIME if column in row), None)
        if time is None:
            return
        launch = Launch(
            kernel.strip(),
            op=op_type,
            layer=layer,
            device=count(row.get("Device", row.get("GPU ID", ""))),
            input_shapes=_shapes(row.get("Input Shapes", "")),
            input_dtypes=_dtypes(row.get("Data Types", row.get("Data Type", ""))),
            uses_tensor_cores=_yes(row.get("Uses TC")),
            eligible=eligible,
        )
        # The iteration report has a row per launch; the kernel report sums launches up without counting them.
        rows.add(launch, count=1 if "GPU Start Time (ns)" in row else None, duration_ns=time)
    elif "TC GPU Time (ns)" in row:
        for uses, prefix in ((True, "TC"), (False, "Non-TC")):
            time = number(row.get(f"{prefix} GPU Time (ns)", ""))
            names = row.get(f"{prefix} Kernel Names", "").strip()
            if time:
                launch = Launch(
                    "" if "," in names or ";" in names or "\n" in names else names,
                    op=op_type,
                    layer=layer,
                    uses_tensor_cores=uses,
                    eligible=True,
                )
                rows.add(launch, count=None, duration_ns=time)


def _add_summary(rows: Rows, summary: dict[str, float]) -> None:
    on_tensor_cores = summary.get(_SUMMARY_TC, 0.0)
    others = summary[_SUMMARY_ALL] - on_tensor_cores - summary.get(_SUMMARY_MEMORY, 0.0)
    if on_tensor_cores:
        rows.add(Launch("", uses_tensor_cores=True), count=None, duration_ns=on_tensor_cores)
    if others > 0:
        rows.add(Launch("", uses_tensor_cores=False), count=None, duration_ns=others)


def _place(op: str | None, op_type: str | None) -> tuple[str | None, str | None]:
    """Split DLProf's op name, ``/net/conv2d::forward/conv2d``, into layer and operator."""
    path, _, last = (op or "").strip().rpartition("/")
    return path.strip("/") or None, (op_type or "").strip() or last or None


def _yes(text: str | None) -> bool | None:
    return {"yes": True, "no": False, "true": True, "false": False, "1": True, "0": False}.get(
        (text or "").strip().lower()
    )


def _shapes(text: str) -> tuple[tuple[int, ...], ...] | None:
    shapes = tuple(
        tuple(int(size) for size in re.findall(r"\d{1,18}", found)) for found in _SHAPE.findall(text)
    )
    return shapes or None


def _dtypes(text: str) -> tuple[str | None, ...] | None:
    dtypes = tuple(spell(name) for name in re.split(r"[,;\[\]]+", text) if name.strip())
    return dtypes if any(dtypes) else None

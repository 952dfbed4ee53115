"""What the tables of ``nsys stats`` mean, however they are printed.

Kernels stand in ``cuda_gpu_kern_sum`` (``gpukernsum`` until 2022, ``CUDA Kernel Statistics`` before), in its
variant with grids, ``cuda_gpu_kern_gb_sum``, in ``cuda_gpu_sum`` beside the copies, and one by one in
``cuda_gpu_trace``. Other reports have the same form: they are told apart by their columns.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, final

from mixte.profiles._model import Format, Gpu, Profile
from mixte.profiles.readers._numbers import Mark, count, decimal_mark, nanoseconds_per, number
from mixte.profiles.readers._rows import Launch, Rows

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_UNIT = re.compile(r".*\((?P<unit>\w+)\)\s*$")
_TOTAL = re.compile(r"Total Time(?: \(\w+\))?")
_DURATION = re.compile(r"Duration \(\w+\)")
_DEVICE = re.compile(r"(?P<name>.*?)\s*\((?P<index>\d+)\)")
_PROCESSING = re.compile(r".*Processing \[(?P<file>[^\]]*)\] with ")
_SKIPPED = re.compile(r".*SKIPPED: .* does not contain .*(?:CUDA kernel|GPU trace|CUDA trace)")


@final
class NsysTables:
    """Gathers kernels from the tables of one file.

    One table per sqlite file counts: with several reports of the same run, the kernels stand in each of them.
    """

    def __init__(self) -> None:
        self.rows = Rows()
        self.gpus: dict[int, Gpu] = {}
        self.notes: list[str] = []
        self._file = ""
        self._taken: set[str] = set()
        self._columns: dict[str, int] = {}
        self._mark: Mark | None = None
        self._kind = ""
        self._unread = 0

    def note_line(self, line: str) -> None:
        """Take a line outside tables, which may tell the file that the next table is about."""
        found = _PROCESSING.match(line)
        if found:
            self._file = found["file"]
        elif _SKIPPED.match(line):
            self.notes.append("nsys stats found no GPU kernels in its input")

    def open(self, columns: list[str]) -> bool:
        """Begin a table; tell whether its rows are wanted."""
        self._kind = _kind(columns)
        self._mark = None
        if not self._kind:
            return False
        if self._file in self._taken:
            self.notes.append(f"a second table of kernels ({self._kind}) was left out: it repeats the first")
            return False
        self._taken.add(self._file)
        self._columns = {column: index for index, column in enumerate(columns)}
        return True

    def take(self, values: list[str]) -> None:
        """Take a row of the table."""
        if len(values) != len(self._columns):
            self._unread += 1
            return
        row = {column: values[index].strip() for column, index in self._columns.items()}
        if self._mark is None:
            # A column that always has decimals settles how this locale writes numbers.
            decimals = [text for column, text in row.items() if "%" in column]
            self._mark = decimal_mark(
                [*decimals, *(text for column, text in row.items() if "Name" not in column)]
            )
        if self._kind == "trace":
            self._take_launch(row)
        else:
            self._take_sum(row, self._mark)

    def _take_sum(self, row: dict[str, str], mark: Mark) -> None:
        column = next(column for column in row if _TOTAL.fullmatch(column))
        if row.get("Category", "CUDA_KERNEL") != "CUDA_KERNEL":
            return
        name = row.get("Name") or row.get("Operation") or ""
        time, launches = number(row[column], mark), count(row["Instances"], mark)
        if time is None or launches is None or not name:
            self._unread += 1
            return
        self.rows.add(Launch(name), count=launches, duration_ns=time * _unit_ns(column))

    def _take_launch(self, row: dict[str, str]) -> None:
        if not row.get("GrdX", "").strip("- "):  # copies and memory sets have no grid
            return
        column = next(column for column in row if _DURATION.fullmatch(column))
        time = number(row[column], self._mark or ".")
        if time is None:
            self._unread += 1
            return
        launch = Launch(
            row["Name"], device=self._device(row.get("Device", "")), stream=count(row.get("Strm", ""))
        )
        self.rows.add(launch, count=1, duration_ns=time * _unit_ns(column))

    def _device(self, text: str) -> int | None:
        found = _DEVICE.fullmatch(text)
        if found is None:
            return None
        index = int(found["index"])
        self.gpus.setdefault(index, Gpu(index=index, name=found["name"] or None, vendor="nvidia"))
        return index

    def profile(self, format_: Format, source: Source) -> Profile:
        """Build the profile from what was gathered."""
        unread = [f"{self._unread} rows of the kernel table could not be read"] if self._unread else []
        return Profile(
            format=format_,
            path=source.path,
            kernels=self.rows.kernels(),
            gpus=tuple(self.gpus.values()),
            producer="Nsight Systems",
            no_kernels_reason=None if len(self.rows) else "the file holds no table of GPU kernels",
            missing=(*source.damage, *unread, *self.rows.missing()),
            notes=tuple(dict.fromkeys(self.notes)),
        )


def _kind(columns: list[str]) -> str:
    """Name what a table with kernels is; the empty string for any other table."""
    if any(_TOTAL.fullmatch(column) for column in columns) and "Instances" in columns:
        if columns[-1] == "Name":
            return "summary"
        if "Category" in columns and columns[-1] == "Operation":
            return "summary of kernels and copies"
    if any(_DURATION.fullmatch(column) for column in columns) and {"CorrId", "GrdX", "Name"} <= set(columns):
        return "trace"
    return ""


def _unit_ns(column: str) -> float:
    found = _UNIT.match(column)
    unit = nanoseconds_per(found["unit"]) if found else None
    return 1.0 if unit is None else unit  # until 2020 the unit, nanoseconds, stood in the title only

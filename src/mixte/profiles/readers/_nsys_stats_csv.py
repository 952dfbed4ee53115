"""``nsys stats --format csv`` and ``tsv``: a header per report, printed or written to a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles.readers._csv_line import fields
from mixte.profiles.readers._nsys_tables import NsysTables

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read the kernel report among those in the file."""
    tables = NsysTables()
    delimiter = ","
    inside = wanted = False
    for line in source.lines():
        if not line.strip():
            inside = False
            continue
        opened = _delimiter(line)
        if opened is not None:
            delimiter = opened
            inside = True
            wanted = tables.open([column.strip() for column in fields(line, delimiter)])
        elif inside and wanted:
            tables.take(fields(line, delimiter))
        elif not inside:
            tables.note_line(line)
    return tables.profile("nsys_stats_csv", source)


def _delimiter(line: str) -> str | None:
    """Give the delimiter of a header; None for a line that is none. Every report has one of these columns."""
    for delimiter in (",", "\t", ";"):
        columns = [column.strip() for column in fields(line, delimiter)]
        if len(columns) > 3 and any(
            column.startswith(("Time (%)", "Time(%)", "Total (", "Start (", "Duration ("))
            for column in columns[:2]
        ):
            return delimiter
    return None

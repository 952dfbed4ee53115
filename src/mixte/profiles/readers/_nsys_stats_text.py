"""``nsys stats`` and ``nsys profile --stats=true`` as text: tables whose dashes line gives the column edges."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixte.profiles.readers._columns import Columns
from mixte.profiles.readers._nsys_tables import NsysTables

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source

_GAP = re.compile(r"\s{2,}")


def read(source: Source) -> Profile:
    """Read the kernel report among those in the file."""
    tables = NsysTables()
    columns: Columns | None = None
    previous = ""
    for line in source.lines():
        edges = Columns.of_dashes(line)
        if edges is not None:
            names = [name.strip() for name in edges.split(previous)]
            if not all(names):  # the header was shifted against the dashes
                names = _GAP.split(previous.strip())
            columns = edges if len(names) == len(edges) and tables.open(names) else None
        elif not line.strip():
            columns = None if previous.strip() else columns
        elif columns is not None:
            tables.take(columns.split(line))
        else:
            tables.note_line(line)
        previous = line
    return tables.profile("nsys_stats_text", source)

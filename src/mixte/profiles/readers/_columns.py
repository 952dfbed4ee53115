"""Tables printed with a line of dashes that shows how wide each column is."""

from __future__ import annotations

import re
from typing import Self, final

_DASHES = re.compile(r"\s*-{3,}(?:\s+-{3,})+\s*")
_RUN = re.compile(r"-+")
_GAP = re.compile(r"\s{2,}")


@final
class Columns:
    """The column edges of one table."""

    def __init__(self, edges: list[tuple[int, int]]) -> None:
        self._edges = edges

    @classmethod
    def of_dashes(cls, line: str) -> Self | None:
        """Read the edges from a line of dashes; None for any other line."""
        if "---" not in line or not _DASHES.fullmatch(line):
            return None
        return cls([(run.start(), run.end()) for run in _RUN.finditer(line)])

    def __len__(self) -> int:
        return len(self._edges)

    def split(self, line: str) -> list[str]:
        """Split a row at the edges; the last column takes the rest of the line.

        A row that does not keep to the edges, because it was pasted or holds a wide value, is split at its gaps
        of two spaces or more.
        """
        between = [(end, begin) for (_, end), (begin, _) in zip(self._edges, self._edges[1:], strict=False)]
        if not all(line[end:begin].isspace() for end, begin in between if line[end:begin]):
            return [value.strip() for value in _GAP.split(line.strip(), maxsplit=len(self._edges) - 1)]
        last = len(self._edges) - 1
        return [
            line[begin:].strip() if index == last else line[begin:end].strip()
            for index, (begin, end) in enumerate(self._edges)
        ]

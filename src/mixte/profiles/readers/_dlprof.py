"""DLProf: its CSV reports, and the database ``dlprof_dldb.sqlite``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles.readers import _dlprof_csv, _dlprof_sqlite

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read whichever of the two it is."""
    if source.head().startswith(b"SQLite format 3\x00"):
        return _dlprof_sqlite.read(source)
    return _dlprof_csv.read(source)

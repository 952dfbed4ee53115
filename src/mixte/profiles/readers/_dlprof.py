"""DLProf: its CSV reports, and the database ``dlprof_dldb.sqlite``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles._recognise import SQLITE_MAGIC
from mixte.profiles.readers import _dlprof_csv, _dlprof_sqlite

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read whichever of the two it is."""
    if source.head().startswith(SQLITE_MAGIC):
        return _dlprof_sqlite.read(source)
    return _dlprof_csv.read(source)

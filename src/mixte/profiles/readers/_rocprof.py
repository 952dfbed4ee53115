"""AMD's profilers: rocprofv3's JSON, and tables of dispatches in CSV (rocprofiler-compute's ``pmc_perf.csv``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles.readers import _rocprof_csv, _rocprofv3

if TYPE_CHECKING:
    from mixte.profiles._model import Profile
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read whichever of the two it is."""
    if source.text_head().lstrip()[:1] in {"{", "["}:
        return _rocprofv3.read(source)
    return _rocprof_csv.read(source)

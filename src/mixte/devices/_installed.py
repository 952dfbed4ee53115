"""Installed Python distributions, read from their metadata without importing anything."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Protocol


class Distribution(Protocol):
    """One installed distribution."""

    @property
    def version(self) -> str:
        """Its version, with a local part such as ``+cpu`` where it has one."""
        ...

    def read(self, path: str) -> str | None:
        """Return the text of a file that it installed beside other packages, or None.

        Args:
            path: Relative to the directory of packages, for example ``"torch/version.py"``.
        """
        ...


class FindDistribution(Protocol):
    """Something that finds distributions: ``find_distribution``, or a dictionary's ``get`` in a test."""

    def __call__(self, name: str, /) -> Distribution | None:
        """Return the distribution with a name, or None if it is not installed."""
        ...


class _InstalledDistribution:
    def __init__(self, distribution: metadata.Distribution) -> None:
        self._distribution = distribution

    @property
    def version(self) -> str:
        return self._distribution.version

    def read(self, path: str) -> str | None:
        try:
            return Path(str(self._distribution.locate_file(path))).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None


def find_distribution(name: str, /) -> Distribution | None:
    """Return the installed distribution with a name, or None."""
    try:
        return _InstalledDistribution(metadata.distribution(name))
    except metadata.PackageNotFoundError:
        return None

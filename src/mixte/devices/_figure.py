"""A figure that somebody published: its value, who says so, and whether that was checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a figure comes from.

    Attributes:
        key: Its name in ``gpus.toml``.
        document: What was read.
        url: Where it is; None for a computation.
        date: When the document was published, as far as it says.
        read_in: The copy through which it was read, where that was not the document itself.
    """

    key: str
    document: str
    url: str | None = None
    date: str | None = None
    read_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number about a device.

    Attributes:
        value: In the unit that the name of the field that holds the figure ends with.
        source: Who says so.
        verified: True if a vendor's document gives the value, a source that names that document does, or two
            independent sources agree. A figure that is not verified is never used silently.
    """

    value: float
    source: Source
    verified: bool

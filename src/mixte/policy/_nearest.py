"""The nearest known name to one that is not known."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest in spelling, compared without regard to case, or None if none is close.

    Args:
        name: The name as it was given.
        known: The names that exist.
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    # 0.6 is difflib's own cutoff: it accepts one slip in four characters ("flot" for "float") and no more.
    close = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest known name, or an empty string if none is close."""
    nearest = nearest_name(name, known)
    return f" Did you mean '{nearest}'?" if nearest is not None else ""

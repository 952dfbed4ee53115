"""Which of many nested ranges on one thread a moment lies in: operators around launches, steps around kernels."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# A parent is looked for so many levels up; deeper only in a file made to be slow.
_MAX_DEPTH = 256


def outermost_first(starts: Sequence[float], ends: Sequence[float]) -> list[int]:
    """Order ranges by their beginning; of those that begin together the longest is the outermost, hence first."""
    # Two sorts that keep equal elements in order are twice as fast as one by pairs.
    order = sorted(range(len(starts)), key=ends.__getitem__, reverse=True)
    order.sort(key=starts.__getitem__)
    return order


def innermost(starts: Sequence[float], ends: Sequence[float], moments: Sequence[float]) -> list[int | None]:
    """Find the innermost range around each moment; both ends of a range belong to it.

    Args:
        starts: When each range begins, in any unit and order.
        ends: When each ends, aligned with `starts`.
        moments: In the same unit, in any order.

    Returns:
        For each moment the index of the range that began last among those around it; None outside all of them.
    """
    found: list[int | None] = [None] * len(moments)
    order = outermost_first(starts, ends)
    open_ranges: list[int] = []
    upcoming = 0
    for moment in sorted(range(len(moments)), key=moments.__getitem__):
        now = moments[moment]
        while upcoming < len(order) and starts[order[upcoming]] <= now:
            begin = starts[order[upcoming]]
            # Keeps the stack short. A range that ends before the one on top of it stays below it until then.
            while open_ranges and ends[open_ranges[-1]] < begin:
                open_ranges.pop()
            open_ranges.append(order[upcoming])
            upcoming += 1
        while open_ranges and ends[open_ranges[-1]] < now:
            open_ranges.pop()
        if open_ranges:
            found[moment] = open_ranges[-1]
    return found


def parents(starts: Sequence[float], ends: Sequence[float]) -> list[int | None]:
    """Find for each range the innermost range that it lies in.

    Args:
        starts: When each range begins.
        ends: When each ends, aligned with `starts`.

    Returns:
        For each range the index of its parent; None for an outermost one.
    """
    found: list[int | None] = [None] * len(starts)
    open_ranges: list[int] = []
    for index in outermost_first(starts, ends):
        while open_ranges and ends[open_ranges[-1]] < starts[index]:
            open_ranges.pop()
        # A range that outlasts the one below it is no child of it: the two overlap.
        nearest = islice(reversed(open_ranges), _MAX_DEPTH)
        found[index] = next((other for other in nearest if ends[other] >= ends[index]), None)
        open_ranges.append(index)
    return found


def own_durations(starts: Sequence[float], ends: Sequence[float]) -> list[float]:
    """Give for each range its duration without that of the ranges directly inside it.

    Args:
        starts: When each range begins.
        ends: When each ends, aligned with `starts`.
    """
    own = [end - start for start, end in zip(starts, ends, strict=True)]
    for index, parent in enumerate(parents(starts, ends)):
        if parent is not None:
            own[parent] -= ends[index] - starts[index]
    return own

"""The training or profiler steps marked in a file, as extents in time."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Marked steps.

    Attributes:
        extents: Beginning, end and number of each, in order of their beginning, in the file's unit of time.
    """

    extents: tuple[tuple[float, float, int], ...] = ()

    @classmethod
    def of(cls, extents: Iterable[tuple[float, float, int]]) -> Self:
        """Build from extents in any order."""
        return cls(extents=tuple(sorted(extents)))

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all steps."""
        return frozenset(number for _, _, number in self.extents)

    def at(self, moment: float) -> int | None:
        """Give the number of the step around a moment; None between steps.

        Steps follow one another: on whatever thread the moment was, it belongs to the step that had begun.
        """
        index = bisect_right(self.extents, (moment, math.inf, 0)) - 1
        if index < 0:
            return None
        _, end, number = self.extents[index]
        return number if moment <= end else None

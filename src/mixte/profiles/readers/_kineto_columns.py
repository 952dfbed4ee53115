"""The tables into which a Kineto trace is sorted, as columns: a trace holds hundreds of thousands of events."""

from __future__ import annotations

from array import array
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixte.profiles.readers._kineto_events import Arguments

NO_IDENTIFIER = -1
"""Stands for an absent correlation or External id inside a column; Kineto counts both from 0 or 1."""

Label = TypeVar("Label")


@final
class Labels(Generic[Label]):
    """Gives equal values equal numbers, counted from 0, so that columns hold numbers."""

    def __init__(self, *values: Label) -> None:
        self._numbers: dict[Label, int] = {value: number for number, value in enumerate(values)}

    def of(self, values: Iterable[Label]) -> list[int]:
        """Give the numbers of some values."""
        numbers = self._numbers
        return [numbers.setdefault(value, len(numbers)) for value in values]

    def __len__(self) -> int:
        return len(self._numbers)

    def last(self, count: int) -> Iterable[Label]:
        """Give the values that were numbered last."""
        return islice(reversed(self._numbers), count)

    def values(self) -> list[Label]:
        """Give the values in the order of their numbers."""
        return list(self._numbers)


@final
class Ranges:
    """Ranges on CPU threads, in the order of the file.

    Attributes:
        names: Of each range.
        start_us: When it began.
        end_us: When it ended.
        threads: The number that `Collection.threads` gives its thread.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.start_us = array("d")
        self.end_us = array("d")
        self.threads = array("q")

    def __len__(self) -> int:
        return len(self.names)


@final
class Operators:
    """CPU operators: their ranges, and columns aligned with them.

    Attributes:
        arguments: The events' arguments; most traces need none of the identifiers in them.
        inputs: Numbers of `Collection.inputs`; 0 where shapes are not recorded.
    """

    def __init__(self) -> None:
        self.ranges = Ranges()
        self.arguments: list[Arguments] = []
        self.inputs = array("q")


@final
class Kernels:
    """Kernels on the GPU, as columns (`places` are numbers of `Collection.places`)."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.places = array("q")
        self.start_us = array("d")
        self.duration_us = array("d")
        self.correlation = array("q")
        self.external = array("q")

    def __len__(self) -> int:
        return len(self.names)


@final
class Launches:
    """Calls to the runtime and the driver that launch work, as columns; `of_correlation` finds the row."""

    def __init__(self) -> None:
        self.of_correlation: dict[int, int] = {}
        self.names: list[str] = []
        self.start_us = array("d")
        self.external = array("q")
        self.threads = array("q")

    def __len__(self) -> int:
        return len(self.names)

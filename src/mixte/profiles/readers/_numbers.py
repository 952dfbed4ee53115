"""Numbers and durations as profilers print them, in any locale and unit."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

Mark = Literal[".", ","]

# Space, no-break space, narrow no-break space and apostrophe group digits in one locale or another.
_GROUPING = str.maketrans("", "", " \u00a0\u202f\u2009'\u2019")
_NANOSECONDS = {
    "ns": 1.0,
    "nsecond": 1.0,
    "nanosecond": 1.0,
    "us": 1e3,
    "\u00b5s": 1e3,
    "\u03bcs": 1e3,
    "usecond": 1e3,
    "microsecond": 1e3,
    "ms": 1e6,
    "msecond": 1e6,
    "millisecond": 1e6,
    "s": 1e9,
    "second": 1e9,
    "sec": 1e9,
    "minute": 60e9,
    "m": 60e9,
}
_DURATION = re.compile(r"(?P<number>[\d.,]+(?:[eE][+-]?\d+)?)\s*(?P<unit>[a-z\u00b5\u03bc]+)")


def nanoseconds_per(unit: str) -> float | None:
    """Give the length of a unit of time in nanoseconds; None for what is no unit of time."""
    return _NANOSECONDS.get(unit.strip())


def decimal_mark(samples: Iterable[str]) -> Mark:
    """Tell from some numbers of one file whether it writes ``1,234.5`` or ``1.234,5``.

    Args:
        samples: Numbers as written. The first that can be read one way only decides.

    Returns:
        The decimal mark; ``"."`` if no sample decides.
    """
    for sample in samples:
        digits = sample.translate(_GROUPING)
        last_comma, last_point = digits.rfind(","), digits.rfind(".")
        if last_comma >= 0 and last_point >= 0:
            return "," if last_comma > last_point else "."
        mark, other = (",", ".") if last_comma >= 0 else (".", ",")
        at = max(last_comma, last_point)
        if at < 0:
            continue
        if digits.count(mark) > 1:  # a mark that repeats groups digits
            return other
        # Grouping marks stand before exactly three digits and after one to three, and never after a lone zero.
        if len(digits) - at - 1 != 3 or at > 3 or at == 0 or digits[:at].lstrip("-") == "0":
            return mark
    return "."


def number(text: str, mark: Mark = ".") -> float | None:
    """Read a number.

    Args:
        text: For example ``"1,570,803,442"``, ``"285 118 634"`` or ``"803 151,1"``.
        mark: The file's decimal mark, as `decimal_mark` tells; the other mark groups digits.

    Returns:
        The value; None for what is no finite number.
    """
    digits = text.strip().translate(_GROUPING)
    digits = digits.replace(",", "") if mark == "." else digits.replace(".", "").replace(",", ".")
    try:
        value = float(digits)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def count(text: str, mark: Mark = ".") -> int | None:
    """Read a count: a whole number of at least zero; None for anything else."""
    value = number(text, mark)
    return int(value) if value is not None and value >= 0 and value == int(value) else None


def duration_ns(text: str) -> float | None:
    """Read a duration that carries its unit, such as nvprof's ``"463.99us"``; both marks are decimal marks there.

    Returns:
        Nanoseconds; None for what is no duration.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    unit = nanoseconds_per(found["unit"])
    value = number(found["number"].replace(",", "."))
    return None if unit is None or value is None else value * unit

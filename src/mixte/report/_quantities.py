"""Quantities as a person reads them. Unknown prints as ``unknown``."""

from __future__ import annotations

import math

UNKNOWN = "unknown"


def duration(duration_ns: float | None) -> str:
    """Format a duration in nanoseconds, with three digits or to the second: ``8.12 ms``, ``2 min 05 s``."""
    if duration_ns is None:
        return UNKNOWN
    for unit, size_ns in (("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)):
        # Below 999.5 the three digits do not round to 1000, which belongs to the next unit.
        limit = 119.5 if unit == "s" else 999.5
        if duration_ns / size_ns < limit:
            return f"{_three_digits(duration_ns / size_ns)} {unit}"
    minutes, seconds = divmod(round(duration_ns / 1e9), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def seconds(duration_s: float | None) -> str:
    """Format a duration in seconds; see ``duration``."""
    return duration(None if duration_s is None else duration_s * 1e9)


def size(size_bytes: int | None) -> str:
    """Format a size in bytes with a binary unit: ``812 MiB``, ``1.31 GiB``."""
    if size_bytes is None:
        return UNKNOWN
    value, unit = float(size_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1023.5:  # rounds to at most 1023
            break
        value, unit = value / 1024, larger
    return f"{size_bytes} B" if unit == "B" else f"{_three_digits(value)} {unit}"


def count(number: int | None) -> str:
    """Format a number of things: ``34,826``."""
    return UNKNOWN if number is None else f"{number:,}"


def number(value: float | None) -> str:
    """Format a loss or a metric with four significant digits: ``0.9710``, ``1.000``, ``1.234e-07``."""
    # "#" keeps trailing zeros, so that values in a column can be compared, but leaves "1000." its point.
    return UNKNOWN if value is None else f"{value:#.4g}".rstrip(".")


def signed(value: float | None) -> str:
    """Format a difference with its sign; exactly zero and NaN have none."""
    if value is None:
        return UNKNOWN
    return "0" if value == 0 else "nan" if math.isnan(value) else f"{value:+.3g}"


def ratio(value: float) -> str:
    """Format a ratio near 1, or far from it, with three significant digits: ``0.98``, ``11.9``, ``1.00``."""
    return _three_digits(value) if 0.0995 <= value < 9995 else f"{value:.3g}"


def scale(value: float | None) -> str:
    """Format a loss scale: in full while that is short, since powers of two are recognised by their digits."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e10 else f"{value:.6g}"


def percent(share: float | None) -> str:
    """Format a share in [0, 1] as a percentage."""
    return UNKNOWN if share is None else f"{share * 100:.2g}%"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"

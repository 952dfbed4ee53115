"""The stretches of the number line that a format tells apart: zero, subnormal, normal, too large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixte.formats._float import FloatFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class MagnitudeRanges:
    """Where a magnitude ends up when it is rounded to nearest even.

    Attributes:
        zero_until: The largest magnitude that becomes 0; None in a format without zero. For float16 this is
            2**-25, half the smallest subnormal number - not 2**-14, the smallest normal one.
        subnormal_from: The smallest subnormal number; None in a format without them. From here to
            ``normal_from`` numbers lose precision, one bit for each halving.
        normal_from: The smallest normal number.
        normal_until: The largest finite number.
        overflow_from: The magnitude from which on (or, in a format whose largest number has an even code,
            beyond which) numbers are too large.
    """

    zero_until: float | None
    subnormal_from: float | None
    normal_from: float
    normal_until: float
    overflow_from: float


def magnitude_ranges(fmt: FloatFormat) -> MagnitudeRanges:
    """Return the ranges of a format."""
    return MagnitudeRanges(
        zero_until=fmt.zero_boundary,
        subnormal_from=fmt.min_subnormal,
        normal_from=fmt.min_normal,
        normal_until=fmt.max,
        overflow_from=fmt.overflow_boundary,
    )

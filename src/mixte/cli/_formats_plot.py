"""The picture of ``mixte formats --plot``: one bar for each format on a logarithmic axis."""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

from mixte._errors import InputError, MissingFrameworkError
from mixte.formats import magnitude_ranges

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.formats import FloatFormat, MagnitudeRanges

_MARGIN = 8  # octaves drawn beyond the widest format
_COLOURS = {"zero": "#bdbdbd", "subnormal": "#f0b44c", "normal": "#3b76af", "too large": "#c44e52"}


def draw(formats: Sequence[FloatFormat], path: str) -> None:
    """Draw the ranges of the formats and write the file.

    Args:
        formats: The formats, from the top down.
        path: The file; its ending decides the kind.

    Raises:
        MissingFrameworkError: matplotlib is not installed.
        InputError: No number format, an ending that matplotlib does not know, or a file that cannot be written.
    """
    if not formats:
        raise InputError("--plot draws number formats; --format names block formats only.")
    figure = _figure(height_inches=1.6 + 0.34 * len(formats))
    kinds: list[str] = sorted(figure.canvas.get_supported_filetypes())
    ending = path.rsplit(".", 1)[-1].lower() if "." in path else ""
    if ending not in kinds:
        raise InputError(
            f"cannot draw '{path}': the name must end in one of {', '.join(f'.{kind}' for kind in kinds)}."
        )
    _fill(figure, formats)
    try:
        figure.savefig(path)
    except OSError as error:
        raise InputError(f"cannot write '{path}': {error.strerror or error}.") from None


def _figure(*, height_inches: float) -> Any:
    """An empty figure with a canvas of its own: no pyplot, so no window and no state that outlives the call."""
    try:
        agg = importlib.import_module("matplotlib.backends.backend_agg")
        figures = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise MissingFrameworkError.for_extra("matplotlib", "plot") from None
    figure = figures.Figure(figsize=(10, height_inches), layout="constrained")
    agg.FigureCanvasAgg(figure)
    return figure


def bars(ranges: MagnitudeRanges, low: float, high: float) -> list[tuple[str, float, float]]:
    """Return the bars of one format between two exponents: (kind, from, to), in powers of two.

    Zero ends at half the smallest subnormal number, where rounding to nearest even stops giving 0; the stretch
    from there to the smallest subnormal number rounds up to it, and belongs to the subnormal bar. A format
    without zero has neither: nothing is drawn below its smallest number.
    """
    normal, too_large = math.log2(ranges.normal_from), math.log2(ranges.overflow_from)
    below: list[tuple[str, float, float]] = []
    if ranges.zero_until is not None:
        zero = math.log2(ranges.zero_until)
        below = [("zero", low, zero), ("subnormal", zero, normal)]
    return [*below, ("normal", normal, too_large), ("too large", too_large, high)]


def _fill(figure: Any, formats: Sequence[FloatFormat]) -> None:
    axes = figure.add_subplot()
    all_ranges = [magnitude_ranges(fmt) for fmt in formats]
    low = min(math.log2(r.normal_from if r.zero_until is None else r.zero_until) for r in all_ranges) - _MARGIN
    high = max(math.log2(r.overflow_from) for r in all_ranges) + _MARGIN
    for row, ranges in enumerate(all_ranges):
        for kind, start, stop in bars(ranges, low, high):
            axes.barh(row, stop - start, left=start, height=0.7, color=_COLOURS[kind], linewidth=0)
    axes.set_yticks(range(len(formats)), [fmt.name for fmt in formats])
    axes.invert_yaxis()
    axes.set_xlim(low, high)
    step = 2 ** math.ceil(math.log2((high - low) / 12))
    ticks = range(math.ceil(low / step) * step, int(high) + 1, step)
    axes.set_xticks(ticks, [f"$2^{{{tick}}}$" for tick in ticks])
    axes.set_xlabel("magnitude of the number that is rounded, to nearest even")
    handles = [axes.barh(0, 0, color=colour) for colour in _COLOURS.values()]
    labels = ["becomes zero", "subnormal: loses precision", "normal: full precision", "too large"]
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)

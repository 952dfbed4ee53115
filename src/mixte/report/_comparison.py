"""A comparison as text for a terminal: a table, the paired differences, warnings, and a verdict."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from mixte.compare import final_score, score_names
from mixte.report import _quantities as quantities
from mixte.report._text import clip, columns, display_width, hanging, printable, wrap
from mixte.report._verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixte.compare import Comparison, Difference, Pair, Ratio, RunEntry
    from mixte.records import OptimizerSummary, RunSummary

_LONGEST_NAME = 24
_LONGEST_ROW_NAME = 30
_SHORTEST_ROW_NAME = 10
_GAP = 2


def render_comparison(
    comparison: Comparison, width: int = 80, *, encoding: str = "utf-8", place: str | None = None
) -> str:
    """Render a comparison.

    Args:
        comparison: The comparison; it may be unfinished.
        width: Largest number of columns of a line; at least 60 are used.
        encoding: Encoding of the stream that it goes to. What it cannot express is escaped.
        place: Where the comparison is on disk, to be named at the end.

    Returns:
        Lines, each with a line end.
    """
    width = max(width, 60)
    lines = wrap(printable(_headline(comparison), encoding), width)
    for block in _table(comparison, width, encoding):
        lines += ["", *block]
    for pair in comparison.pairs:
        lines += ["", *_pair(pair, width, encoding)]
    lines.append("")
    for warning in comparison.warnings:
        lines += hanging("warning: ", printable(warning, encoding), width)
    for pair in comparison.pairs:
        lines += hanging("verdict: ", printable(verdict(pair), encoding), width)
    if place is not None:
        lines += hanging("records: ", printable(place, encoding), width)
    return "".join(f"{line}\n" for line in lines)


def _headline(comparison: Comparison) -> str:
    policies, seeds, done = len(comparison.policies), len(comparison.seeds), len(comparison.runs)
    total = f"{policies} policies x {seeds} seed{'s' if seeds > 1 else ''}"
    backends = {run.summary.backend for run in comparison.runs if run.summary and run.summary.backend}
    where = f" on {', '.join(sorted(backends))}" if backends else ""
    unfinished = "" if done == comparison.planned else f"; unfinished: {done} of {comparison.planned} runs done"
    return f"mixte: {comparison.script}, {total}{where}{unfinished}"


def _table(comparison: Comparison, width: int, encoding: str) -> Iterator[list[str]]:
    """The policies' rows, broken into as many blocks of columns as the width asks for."""
    policies = [clip(printable(policy, encoding), _LONGEST_NAME) for policy in comparison.policies]
    first = ("", "policy", *policies)
    block: list[tuple[str, ...]] = [first]
    for column in _columns(comparison, encoding):
        if len(block) > 1 and _table_width([*block, column]) > width:
            yield _lines(block)
            block = [first]
        block.append(column)
    yield _lines(block)


def _table_width(block: Sequence[Sequence[str]]) -> int:
    return sum(max(map(display_width, column)) for column in block) + _GAP * (len(block) - 1)


def _lines(block: Sequence[Sequence[str]]) -> list[str]:
    return columns([*zip(*block, strict=True)])


def _columns(comparison: Comparison, encoding: str) -> Iterator[tuple[str, ...]]:
    """Columns of two header cells and a cell for each policy."""
    groups = [[run for run in comparison.runs if run.policy == policy] for policy in comparison.policies]
    counted = [[run.summary for run in group if run.problem is None and run.summary] for group in groups]
    yield "", "runs", *(_done(group) for group in groups)
    for split, metric in score_names(summary for group in counted for summary in group):
        cells = [_mean([final_score(summary, split, metric) for summary in group]) for group in counted]
        header = (split, metric or "loss")
        yield *(clip(printable(text, encoding), _LONGEST_NAME) for text in header), *cells
    yield "step time", "median", *(_mean_duration([s.step_time_median_ns for s in group]) for group in counted)
    hosts = [_largest([summary.host_memory_peak_bytes for summary in group]) for group in counted]
    devices = [_largest([summary.device_memory_peak_bytes for summary in group]) for group in counted]
    yield "peak memory", "host", *map(quantities.size, hosts)
    if any(device is not None for device in devices):
        yield "peak memory", "device", *map(quantities.size, devices)
    yield "skipped in", "calibration", *(_calibration(group) for group in counted)
    yield "skipped", "later", *(_later(group) for group in counted)


def _done(group: Sequence[RunEntry]) -> str:
    good = sum(run.problem is None for run in group)
    return str(good) if good == len(group) else f"{good} of {len(group)}"


def _mean(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return quantities.number(fmean(known)) if known else "-"


def _mean_duration(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return quantities.duration(fmean(known)) if known else quantities.UNKNOWN


def _largest(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _calibration(group: Sequence[RunSummary]) -> str:
    return _sum([x.skipped_in_calibration for x in _optimizers(group)])


def _later(group: Sequence[RunSummary]) -> str:
    optimizers = _optimizers(group)
    tried = [
        None if x.applied is None or x.skipped_later is None else x.applied + x.skipped_later
        for x in optimizers
    ]
    skipped, total = _sum([x.skipped_later for x in optimizers]), _sum(tried)
    return skipped if skipped in {"0", "-", quantities.UNKNOWN} else f"{skipped} of {total}"


def _optimizers(group: Sequence[RunSummary]) -> list[OptimizerSummary]:
    """The optimizers that can skip an update: not those whose loss is not scaled."""
    all_ = (optimizer for summary in group for optimizer in summary.optimizers.values())
    return [optimizer for optimizer in all_ if optimizer.law != "none"]


def _sum(counts: Sequence[int | None]) -> str:
    if not counts:
        return "-"
    known = [count for count in counts if count is not None]
    return quantities.count(sum(known)) if len(known) == len(counts) else quantities.UNKNOWN


def _pair(pair: Pair, width: int, encoding: str) -> list[str]:
    count = len(pair.seeds)
    kind = f"mean of {count} pairs [95% interval]" if count > 1 else "one pair, no interval"
    if count == 0:
        kind = "no seed of which both runs finished"
    head = wrap(printable(f"{pair.policy} against {pair.baseline}: {kind}", encoding), width)
    rows = [
        *(_difference_row(difference, pair, encoding) for difference in pair.differences),
        *(_ratio_row(ratio) for ratio in pair.ratios),
    ]
    return [*head, *_indented(rows, width)] if rows else head


def _indented(rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[str]:
    """The rows in columns, the names shortened as far as the figures need the room."""
    figures = sum(max(display_width(row[column]) for row in rows) + _GAP for column in (1, 2))
    longest = min(max(width - _GAP - figures, _SHORTEST_ROW_NAME), _LONGEST_ROW_NAME)
    for line in columns([(clip(name, longest), *rest) for name, *rest in rows], numeric_from=3):
        yield clip(f"{' ' * _GAP}{line}", width)


def _difference_row(difference: Difference, pair: Pair, encoding: str) -> tuple[str, str, str]:
    name = printable(f"{difference.split} {difference.metric or 'loss'}", encoding)
    note = ""
    if difference.low is not None and difference.high is not None:
        note = f"[{quantities.signed(difference.low)}, {quantities.signed(difference.high)}]"
    elif len(pair.seeds) > 1:
        note = _no_interval(difference, pair)
    return name, quantities.signed(difference.mean), note


def _no_interval(difference: Difference, pair: Pair) -> str:
    if not math.isfinite(difference.mean):
        return "not finite"
    if not pair.independent:
        return "repetitions of one training"
    return "the same in every pair" if len(difference.differences) > 1 else "known in one pair"


def _ratio_row(ratio: Ratio) -> tuple[str, str, str]:
    note = ""
    if ratio.low is not None and ratio.high is not None:
        note = f"[{quantities.ratio(ratio.low)}, {quantities.ratio(ratio.high)}]"
    if ratio.basis == "steps":
        note += " within these two runs"
    return ratio.quantity, f"x {quantities.ratio(ratio.mean)}", note

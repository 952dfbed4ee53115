"""The summary of one run as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.report import _quantities as quantities
from mixte.report._text import clip, hanging, pad, printable, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mixte.records import Change, OptimizerSummary, RunSummary

_LABEL_COLUMNS = 12
_LONGEST_LABEL = 24


def render_summary(
    summary: RunSummary, width: int = 80, *, encoding: str = "utf-8", record: Path | None = None
) -> str:
    """Render the summary of a run.

    Args:
        summary: The summary.
        width: Largest number of columns of a line; at least 40 are used.
        encoding: Encoding of the stream that it goes to. What it cannot express is escaped.
        record: Where the record is, to be named at the end.

    Returns:
        Lines, each with a line end.
    """
    rows = [*_rows(summary)]
    if record is not None:
        rows.append(("record", str(record)))
    width = max(width, 40)
    lines = wrap(printable(_headline(summary), encoding), width)
    for label, value in rows:
        lines.extend(_row(printable(label, encoding), printable(value, encoding), width))
    for warning in summary.warnings:
        lines.extend(hanging("warning: ", printable(warning, encoding), width))
    return "".join(f"{line}\n" for line in lines)


def _headline(summary: RunSummary) -> str:
    ended = f"mixte: {summary.script} {_ENDED[summary.status]} {quantities.seconds(summary.duration_s)}"
    if summary.exception is not None:
        return f"{ended}: {summary.exception}"
    return f"{ended} with exit code {summary.exit_code}" if summary.exit_code else ended


_ENDED = {
    "running": "is running since",
    "finished": "finished after",
    "failed": "failed after",
    "interrupted": "was interrupted after",
    "killed": "was killed after",
}


def _rows(summary: RunSummary) -> Iterator[tuple[str, str]]:
    yield "policy", _policy(summary)
    yield "devices", ", ".join(summary.devices) or quantities.UNKNOWN
    yield "layers", _counts(summary.layers_by_compute_dtype)
    yield "parameters", _parameters(summary)
    yield "steps", quantities.count(summary.steps)
    yield "step time", _step_time(summary)
    yield from _scores(summary)
    yield from _optimizers(summary)
    host, device = summary.host_memory_peak_bytes, summary.device_memory_peak_bytes
    yield "peak memory", f"host {quantities.size(host)}, device {quantities.size(device)}"


def _policy(summary: RunSummary) -> str:
    seed = "unknown" if summary.seed is None else summary.seed
    return f"{summary.policy} on {summary.backend or quantities.UNKNOWN}, seed {seed}"


def _counts(counts: dict[str, int]) -> str:
    parts = [f"{quantities.count(number)} in {dtype}" for dtype, number in counts.items()]
    return ", ".join(parts) or quantities.UNKNOWN


def _parameters(summary: RunSummary) -> str:
    total, stored = summary.parameters, summary.parameters_by_variable_dtype
    if [*stored.values()] == [total]:
        return _counts(stored)
    return f"{quantities.count(total)} ({_counts(stored)})" if stored else quantities.count(total)


def _step_time(summary: RunSummary) -> str:
    if summary.first_step_ns is None:
        return quantities.UNKNOWN
    first = f"first {quantities.duration(summary.first_step_ns)} (with compilation)"
    if summary.step_time_median_ns is None:
        return first
    median, p95 = map(quantities.duration, (summary.step_time_median_ns, summary.step_time_p95_ns))
    return f"median {median}, p95 {p95} over {quantities.count(summary.steady_steps)} steps; {first}"


def _scores(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """One row for the loss and for each metric, with its values on every set of data."""
    if not summary.scores:
        yield "loss", quantities.UNKNOWN
        return
    losses = {split: score.loss for split, score in summary.scores.items() if score.loss is not None}
    if losses:
        yield "loss", _changes(losses)
    for name in {name: None for score in summary.scores.values() for name in score.metrics}:
        splits = summary.scores.items()
        yield name, _changes({split: s.metrics[name] for split, s in splits if name in s.metrics})


def _changes(changes: dict[str, Change]) -> str:
    return ", ".join(f"{split} {_arrow(change)}" for split, change in changes.items())


def _arrow(change: Change) -> str:
    return f"{quantities.number(change.first)} -> {quantities.number(change.last)}"


def _optimizers(summary: RunSummary) -> Iterator[tuple[str, str]]:
    law = summary.loss_scale_law or quantities.UNKNOWN
    if not summary.optimizers:
        yield "loss scale", law
        yield "skipped", quantities.UNKNOWN
    for name, optimizer in summary.optimizers.items():
        # With a single optimizer its name says nothing.
        prefix = f"{name}: " if len(summary.optimizers) > 1 else ""
        yield "loss scale", f"{prefix}{_loss_scale(optimizer, law)}"
        yield "skipped", f"{prefix}{_skips(optimizer)}"


def _loss_scale(optimizer: OptimizerSummary, law: str) -> str:
    if optimizer.loss_scale is None:
        return law
    first, last = optimizer.loss_scale.first, optimizer.loss_scale.last
    low, high = optimizer.loss_scale_min, optimizer.loss_scale_max
    range_ = f"{quantities.scale(low)} to {quantities.scale(high)}"
    return f"{quantities.scale(first)} -> {quantities.scale(last)} (range {range_}), {law}"


def _skips(optimizer: OptimizerSummary) -> str:
    calibration, later = optimizer.skipped_in_calibration, optimizer.skipped_later
    if calibration is None and later is None:
        return quantities.UNKNOWN
    if calibration == 0 and later == 0:
        return f"none of {quantities.count(optimizer.applied)} updates"
    parts = [f"{quantities.count(calibration)} in calibration{' (normal)' if later == 0 else ''}"]
    since = None if optimizer.applied is None or later is None else optimizer.applied + later
    rate = optimizer.skip_rate_since_calibration
    share = "" if rate is None else f" ({quantities.percent(rate)})"
    parts.append(f"{quantities.count(later)} of {quantities.count(since)} later{share}")
    causes = ", ".join(f"{cause} {quantities.count(n)}" for cause, n in optimizer.skipped_by_cause.items())
    return f"{', '.join(parts)}; cause: {causes or quantities.UNKNOWN}"


def _row(label: str, value: str, width: int) -> list[str]:
    return hanging(f"  {pad(clip(label, _LONGEST_LABEL), _LABEL_COLUMNS)} ", value, width)

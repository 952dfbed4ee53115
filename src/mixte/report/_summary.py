"""The summary of one run as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.report import _quantities as quantities
from mixte.report._profile import profile_rows
from mixte.report._text import clip, hanging, pad, printable, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mixte.records import Change, OptimizerSummary, RunSummary

_LABEL_COLUMNS = 12
_LONGEST_LABEL = 24
_LONGEST_EXCEPTION = 160
_UNSCALED = "none"
_CHECKED_ONLY = "fixed:1"


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
    duration = "" if summary.duration_s is None else f" {_ENDED_FOR[summary.status]} {_duration(summary)}"
    ended = f"mixte: {summary.script} {_ENDED[summary.status]}{duration}"
    if summary.exception is not None:
        return f"{ended}: {clip(' '.join(summary.exception.split()), _LONGEST_EXCEPTION)}"
    return f"{ended} with exit code {summary.exit_code}" if summary.exit_code else ended


def _duration(summary: RunSummary) -> str:
    return quantities.seconds(summary.duration_s)


_ENDED = {
    "running": "is running",
    "finished": "finished",
    "failed": "failed",
    "interrupted": "was interrupted",
    "killed": "was killed",
}
_ENDED_FOR = {
    "running": "since",
    "finished": "in",
    "failed": "after",
    "interrupted": "after",
    "killed": "after",
}


def _rows(summary: RunSummary) -> Iterator[tuple[str, str]]:
    """The rows. Before the first step, only what is known: the rest would say that nothing was trained, at length."""
    for label, value in _all_rows(summary):
        if summary.steps is not None or value != quantities.UNKNOWN:
            yield label, value


def _all_rows(summary: RunSummary) -> Iterator[tuple[str, str]]:
    yield "policy", _policy(summary)
    yield "devices", _devices(summary)
    yield "layers", _counts(summary.layers_by_compute_dtype)
    yield "parameters", _parameters(summary)
    yield "steps", quantities.count(summary.steps)
    yield "step time", _step_time(summary)
    yield from _scores(summary)
    yield from _optimizers(summary)
    yield "peak memory", _memory(summary)
    if summary.profile is not None:
        yield from profile_rows(summary.profile)


def _policy(summary: RunSummary) -> str:
    backend = "" if summary.backend is None else f" on {summary.backend}"
    return f"{summary.policy}{backend}, {'no seed given' if summary.seed is None else f'seed {summary.seed}'}"


def _devices(summary: RunSummary) -> str:
    counts = {name: summary.devices.count(name) for name in dict.fromkeys(summary.devices)}
    parts = [name if count == 1 else f"{count} x {name}" for name, count in counts.items()]
    return ", ".join(parts) or quantities.UNKNOWN


def _memory(summary: RunSummary) -> str:
    host, device = summary.host_memory_peak_bytes, summary.device_memory_peak_bytes
    if host is None and device is None:
        return quantities.UNKNOWN
    # A run on the CPU has no device memory: there is nothing to be unknown.
    return f"host {quantities.size(host)}{'' if device is None else f', device {quantities.size(device)}'}"


def _counts(counts: dict[str, int]) -> str:
    parts = [f"{quantities.count(number)} in {dtype}" for dtype, number in counts.items()]
    return ", ".join(parts) or quantities.UNKNOWN


def _parameters(summary: RunSummary) -> str:
    total, stored = summary.parameters, summary.parameters_by_variable_dtype
    if [*stored.values()] == [total]:
        return _counts(stored)
    return f"{quantities.count(total)} ({_counts(stored)})" if stored else quantities.count(total)


def _step_time(summary: RunSummary) -> str:
    parts: list[str] = []
    if summary.step_time_median_ns is not None:
        median, p95 = map(quantities.duration, (summary.step_time_median_ns, summary.step_time_p95_ns))
        parts.append(f"median {median}, p95 {p95} over {quantities.count(summary.steady_steps)} steps")
    if summary.first_step_ns is not None:
        parts.append(f"first {quantities.duration(summary.first_step_ns)} (with compilation)")
    return "; ".join(parts) or quantities.UNKNOWN


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
    if not summary.optimizers:
        yield "loss scale", summary.loss_scale_law or quantities.UNKNOWN
    for name, optimizer in summary.optimizers.items():
        # With a single optimizer its name says nothing.
        prefix = f"{name}: " if len(summary.optimizers) > 1 else ""
        yield "loss scale", f"{prefix}{_loss_scale(optimizer, optimizer.law or summary.loss_scale_law)}"
        if optimizer.law != _UNSCALED:
            yield "skipped", f"{prefix}{_skips(optimizer)}"


def _loss_scale(optimizer: OptimizerSummary, law: str | None) -> str:
    if optimizer.law == _UNSCALED:
        return "the loss is not scaled"
    if optimizer.law == _CHECKED_ONLY:
        return "the loss is not scaled; every step is checked"
    change = optimizer.loss_scale
    if change is None:
        return law or quantities.UNKNOWN
    by = "" if law is None else f", {law}"
    if optimizer.loss_scale_min == optimizer.loss_scale_max:
        return f"{quantities.scale(change.last)} throughout{by}"
    low, high = quantities.scale(optimizer.loss_scale_min), quantities.scale(optimizer.loss_scale_max)
    first, last = quantities.scale(change.first), quantities.scale(change.last)
    return f"{first} -> {last} (range {low} to {high}){by}"


def _skips(optimizer: OptimizerSummary) -> str:
    calibration, later = optimizer.skipped_in_calibration, optimizer.skipped_later
    if calibration is None and later is None:
        return quantities.UNKNOWN
    if calibration == 0 and later == 0:
        return f"none of {quantities.count(optimizer.applied)} updates"
    if optimizer.applied == 0 and calibration is not None:
        return f"all {quantities.count(calibration)} updates; cause: {_causes(optimizer)}"
    parts = [f"{quantities.count(calibration)} in calibration{' (normal)' if later == 0 else ''}"]
    since = None if optimizer.applied is None or later is None else optimizer.applied + later
    rate = optimizer.skip_rate_since_calibration
    share = "" if rate is None else f" ({quantities.percent(rate)})"
    parts.append(f"{quantities.count(later)} of {quantities.count(since)} later{share}")
    return f"{', '.join(parts)}; cause: {_causes(optimizer)}"


def _causes(optimizer: OptimizerSummary) -> str:
    parts = [f"{cause} {quantities.count(number)}" for cause, number in optimizer.skipped_by_cause.items()]
    return ", ".join(parts) or quantities.UNKNOWN


def _row(label: str, value: str, width: int) -> list[str]:
    return hanging(f"  {pad(clip(label, _LONGEST_LABEL), _LABEL_COLUMNS)} ", value, width)

"""Compute the summary of a run from its record alone."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mixte.records._directory import STEPS_FILE
from mixte.records._skips import summarise_optimizers
from mixte.records._summary import Change, RunSummary, Scores

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mixte.records._lines import Evaluation, Step
    from mixte.records._profile import CapturedProfile
    from mixte.records._reader import Record
    from mixte.records._summary import OptimizerSummary


def summarise(record: Record) -> RunSummary:
    """Summarise a run. Pure: the same record gives the same summary, here or on another machine.

    Steps are numbered by the writer, so their number is the largest one logged. The first step of each training
    is kept apart, because it contains tracing and compilation, and profiled steps are left out; median and 95th
    percentile (linear interpolation between the two nearest values) are over all others.

    For the training data, the last value is that of the last complete epoch, or of the last logged step where
    no epoch was logged; the first is that of the first epoch if there are at least two, else of the first
    logged step. For other data, they are the first and last evaluation.

    Args:
        record: The record.

    Returns:
        The summary. What the record does not tell is None.
    """
    run = record.run
    first_ns, steady_ns = _step_times_ns(record.steps)
    ordered_ns = sorted(steady_ns)
    layers = [layer for model in run.models for layer in model.layers]
    scores = _scores(record)
    optimizers = summarise_optimizers(run.optimizers, record.steps, record.states)
    return RunSummary(
        status=record.status,
        script=run.script,
        policy=run.policy.name,
        backend=run.backend,
        devices=tuple(device.name for device in run.devices),
        seed=run.seed,
        loss_scale_law=run.loss_scale,
        layers_by_compute_dtype=dict(Counter(x.compute_dtype for x in layers if x.compute_dtype is not None)),
        parameters=_total([model.parameters for model in run.models]),
        parameters_by_variable_dtype=_count_parameters(record),
        steps=max((line.step for line in (*record.steps, *record.states)), default=None),
        duration_s=_duration_s(record),
        first_step_ns=first_ns,
        steady_steps=len(ordered_ns),
        step_time_median_ns=_quantile(ordered_ns, 0.5),
        step_time_p95_ns=_quantile(ordered_ns, 0.95),
        scores=scores,
        optimizers=optimizers,
        host_memory_peak_bytes=_largest(state.host_memory_peak_bytes for state in record.states),
        device_memory_peak_bytes=_largest(state.device_memory_peak_bytes for state in record.states),
        profile=_without_operations(run.profile),
        exit_code=run.exit_code,
        exception=run.exception,
        warnings=(*run.warnings, *_findings(record, scores, optimizers)),
    )


def _without_operations(profile: CapturedProfile | None) -> CapturedProfile | None:
    """The profile without the list of its operations, which is beside the summary in the same file."""
    if profile is None or profile.cpu is None:
        return profile
    return replace(profile, cpu=replace(profile.cpu, operations=()))


def steady_step_times_ns(record: Record) -> list[int]:
    """The durations of the steps that are neither profiled nor the first of a training, in their order, in nanoseconds.

    Args:
        record: The record. If it marks no step as a first one, the first timed one counts as such.
    """
    return _step_times_ns(record.steps)[1]


def _step_times_ns(steps: Sequence[Step]) -> tuple[int | None, list[int]]:
    """The duration of the first step of all, and those of the steady ones."""
    timed = [
        (step.first, step.step_time_ns) for step in steps if step.step_time_ns is not None and not step.profiled
    ]
    firsts = [time_ns for first, time_ns in timed if first]
    if not any(step.first for step in steps) and timed:
        return timed[0][1], [time_ns for _, time_ns in timed[1:]]
    return firsts[0] if firsts else None, [time_ns for first, time_ns in timed if not first]


def _findings(
    record: Record, scores: dict[str, Scores], optimizers: dict[str, OptimizerSummary]
) -> Iterator[str]:
    """What the record itself shows to be wrong."""
    if record.unreadable_lines:
        yield f"{record.unreadable_lines} lines of {STEPS_FILE} are damaged: the figures are without them"
    if record.status == "finished" and not record.steps and not record.states:
        yield "no training step was logged: the script does not train, or in a way that mixte does not see"
    for split, score in scores.items():
        if score.loss is not None and not math.isfinite(score.loss.last):
            yield f"the {split} loss is {score.loss.last} at the end"
    for name, optimizer in optimizers.items():
        if optimizer.applied == 0 and optimizer.skipped_in_calibration:
            yield f"every update of the optimizer '{name}' was skipped: it has trained nothing"


def _duration_s(record: Record) -> float | None:
    run = record.run
    if run.started_at is not None and run.finished_at is not None:
        return (run.finished_at - run.started_at).total_seconds()
    lines = (*record.steps, *record.evaluations, *record.states)
    return max((line.time_s for line in lines), default=None)


def _count_parameters(record: Record) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for model in record.run.models:
        for layer in model.layers:
            if layer.variable_dtype is not None and layer.parameters:
                counts[layer.variable_dtype] += layer.parameters
    return dict(counts)


def _scores(record: Record) -> dict[str, Scores]:
    splits: dict[str, list[Evaluation]] = {}
    for evaluation in record.evaluations:
        splits.setdefault(evaluation.split, []).append(evaluation)
    epochs = splits.pop("train", [])
    scores: dict[str, Scores] = {}
    if record.steps or epochs:
        scores["train"] = _score(_training_lines(record.steps, epochs))
    scores.update({split: _score(lines) for split, lines in splits.items()})
    return {split: score for split, score in scores.items() if score.loss is not None or score.metrics}


def _training_lines(steps: Sequence[Step], epochs: Sequence[Evaluation]) -> Sequence[Step | Evaluation]:
    """The lines whose first and last value count; see ``summarise``."""
    return epochs if len(epochs) > 1 else (*steps, *epochs)


def _score(lines: Sequence[Step | Evaluation]) -> Scores:
    metrics: dict[str, list[float]] = {}
    for line in lines:
        for name, value in line.metrics.items():
            metrics.setdefault(name, []).append(value)
    return Scores(
        loss=_change([line.loss for line in lines if line.loss is not None]),
        metrics={name: Change(first=values[0], last=values[-1]) for name, values in metrics.items()},
    )


def _change(values: Sequence[float]) -> Change | None:
    return Change(first=values[0], last=values[-1]) if values else None


def _total(values: Sequence[int | None]) -> int | None:
    """The sum; unknown if a part is unknown, or if there is no part."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _quantile(ordered: Sequence[int], fraction: float) -> float | None:
    """The quantile with linear interpolation between the two nearest values, which is numpy's default."""
    if not ordered:
        return None
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])

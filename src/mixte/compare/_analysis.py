"""From the runs of a comparison to paired differences and ratios. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from mixte.compare._schema import Difference, Pair, Ratio
from mixte.compare._statistics import (
    geometric_mean,
    mean_interval,
    ratio_interval,
    within_runs_interval,
)
from mixte.compare._trajectory import same_trajectory
from mixte.records import RunSummary, steady_step_times_ns, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mixte.compare._runner import RunResult
    from mixte.records import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """A run that counts.

    Attributes:
        policy: Its policy.
        seed: Its seed.
        record: Its record.
        summary: The summary of the record.
    """

    policy: str
    seed: int
    record: Record
    summary: RunSummary


def finished_runs(results: Sequence[RunResult]) -> tuple[FinishedRun, ...]:
    """The runs that ended well and left a record."""
    return tuple(
        FinishedRun(
            policy=result.cell.policy,
            seed=result.cell.seed,
            record=result.record,
            summary=summarise(result.record),
        )
        for result in results
        if result.problem is None and result.record is not None
    )


def pair_policies(policies: Sequence[str], runs: Sequence[FinishedRun]) -> tuple[Pair, ...]:
    """Compare every policy with the first, over the seeds of which both have a finished run.

    Args:
        policies: The policies; the first is the baseline.
        runs: The finished runs.
    """
    return tuple(_pair(policies[0], policy, runs) for policy in policies[1:])


def _pair(baseline: str, policy: str, runs: Sequence[FinishedRun]) -> Pair:
    by_cell = {(run.policy, run.seed): run for run in runs}
    seeds = sorted(seed for name, seed in by_cell if name == policy and (baseline, seed) in by_cell)
    base = [by_cell[baseline, seed] for seed in seeds]
    other = [by_cell[policy, seed] for seed in seeds]
    independent = not (repeats_one_training(base) or repeats_one_training(other))
    return Pair(
        baseline=baseline,
        policy=policy,
        seeds=tuple(seeds),
        independent=independent,
        identical=bool(seeds)
        and all(same_trajectory(a.record, b.record) for a, b in zip(base, other, strict=True)),
        differences=_differences(base, other, independent=independent),
        ratios=_ratios(base, other),
    )


def repeats_one_training(runs: Sequence[FinishedRun]) -> bool:
    """Whether two of several runs with different seeds logged the same losses to the last bit."""
    return any(same_trajectory(a.record, b.record) for a, b in combinations(runs, 2))


def _differences(
    base: Sequence[FinishedRun], other: Sequence[FinishedRun], *, independent: bool
) -> tuple[Difference, ...]:
    found: list[Difference] = []
    for split, metric in score_names(run.summary for run in (*base, *other)):
        values = [
            (a, b)
            for x, y in zip(base, other, strict=True)
            if (a := final_score(x.summary, split, metric)) is not None
            and (b := final_score(y.summary, split, metric)) is not None
        ]
        if values:
            found.append(_difference(split, metric, values, independent=independent))
    return tuple(found)


def _difference(
    split: str, metric: str | None, values: Sequence[tuple[float, float]], *, independent: bool
) -> Difference:
    differences = [b - a for a, b in values]
    # The frameworks compute scores in float32, whose relative spacing is 2**-23: differences of two scores that
    # agree to eight times that are equal, as those of an accuracy over the same few examples often are.
    resolution = 2**-20 * max(abs(value) for pair in values for value in pair)
    interval = mean_interval(differences, resolution=resolution) if independent else None
    return Difference(
        split=split,
        metric=metric,
        baseline_mean=fmean(a for a, _ in values),
        differences=tuple(differences),
        mean=fmean(differences),
        median=median(differences),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
    )


def score_names(summaries: Iterable[RunSummary]) -> list[tuple[str, str | None]]:
    """Every (split, metric) that a run has; metric None is the loss.

    Args:
        summaries: The summaries of the runs.

    Returns:
        The names in the order of appearance, those of a split together, its loss first.
    """
    names: dict[str, dict[str | None, None]] = {}
    for summary in summaries:
        for split, scores in summary.scores.items():
            known = names.setdefault(split, {})
            if scores.loss is not None:
                known[None] = None
            known.update(dict.fromkeys(scores.metrics))
    return [
        (split, name) for split, known in names.items() for name in sorted(known, key=lambda x: x is not None)
    ]


def final_score(summary: RunSummary, split: str, metric: str | None) -> float | None:
    """The last loss, or the last value of a metric, on a set of data.

    Args:
        summary: The summary of a run.
        split: The set of data.
        metric: Name of the metric; None for the loss.
    """
    scores = summary.scores.get(split)
    if scores is None:
        return None
    change = scores.loss if metric is None else scores.metrics.get(metric)
    return None if change is None else change.last


_QUANTITIES: dict[
    Literal["step time", "host memory", "device memory"], Callable[[RunSummary], float | None]
] = {
    "step time": lambda summary: summary.step_time_median_ns,
    "host memory": lambda summary: summary.host_memory_peak_bytes,
    "device memory": lambda summary: summary.device_memory_peak_bytes,
}


def _ratios(base: Sequence[FinishedRun], other: Sequence[FinishedRun]) -> tuple[Ratio, ...]:
    found: list[Ratio] = []
    for quantity, value in _QUANTITIES.items():
        ratios = [
            b / a
            for x, y in zip(base, other, strict=True)
            # Unknown, and zero, which no ratio is taken of, are both passed over.
            if (a := value(x.summary)) and (b := value(y.summary))
        ]
        if ratios:
            interval, basis = ratio_interval(ratios), "pairs"
            if quantity == "step time" and len(base) == 1:
                interval = within_runs_interval(
                    steady_step_times_ns(base[0].record), steady_step_times_ns(other[0].record)
                )
                basis = "steps"
            found.append(
                Ratio(
                    quantity=quantity,
                    ratios=tuple(ratios),
                    mean=geometric_mean(ratios),
                    low=None if interval is None else interval.low,
                    high=None if interval is None else interval.high,
                    basis=None if interval is None else basis,
                )
            )
    return tuple(found)

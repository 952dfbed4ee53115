"""What in the runs of a comparison makes it say less than it seems to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.compare._analysis import repeats_one_training
from mixte.compare._trajectory import same_precisions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixte.compare._analysis import FinishedRun
    from mixte.compare._runner import RunResult
    from mixte.compare._schema import Pair


def find_warnings(
    results: Sequence[RunResult], runs: Sequence[FinishedRun], pairs: Sequence[Pair]
) -> tuple[str, ...]:
    """Find what the user should know before believing the table.

    Args:
        results: All runs.
        runs: Those that count.
        pairs: The pairs made of them.
    """
    found = (*_failures(results), *_fixed_seeds(runs), *_without_effect(runs, pairs), *_of_the_runs(runs))
    return tuple(dict.fromkeys(found))


def _failures(results: Sequence[RunResult]) -> Iterator[str]:
    for result in results:
        if result.problem is not None:
            yield f"{result.cell.policy}, seed {result.cell.seed}, does not count: it {result.problem}"


def _fixed_seeds(runs: Sequence[FinishedRun]) -> Iterator[str]:
    policies = [
        policy
        for policy in dict.fromkeys(run.policy for run in runs)
        if repeats_one_training([run for run in runs if run.policy == policy])
    ]
    if policies:
        yield (
            f"different seeds gave identical losses under {', '.join(policies)}: the script sets its own seed, "
            "so further seeds only repeat one training, and differences in quality get no interval"
        )


def _without_effect(runs: Sequence[FinishedRun], pairs: Sequence[Pair]) -> Iterator[str]:
    by_cell = {(run.policy, run.seed): run.record for run in runs}
    for pair in pairs:
        records = [(by_cell[pair.baseline, seed], by_cell[pair.policy, seed]) for seed in pair.seeds]
        if records and all(same_precisions(base, other) for base, other in records):
            yield (
                f"{pair.policy} had no effect: every layer computed in the same dtype as under {pair.baseline}"
            )
        elif pair.identical:
            yield (
                f"{pair.policy} and {pair.baseline} gave identical losses to the last bit: the policy did not "
                "reach what is trained"
            )


def _of_the_runs(runs: Sequence[FinishedRun]) -> Iterator[str]:
    """The warnings of the single runs, each once for all runs that have it."""
    holders: dict[str, list[FinishedRun]] = {}
    for run in runs:
        for warning in run.summary.warnings:
            holders.setdefault(warning, []).append(run)
    for warning, those in holders.items():
        if len(those) == len(runs) > 1:
            yield f"in every run: {warning}"
        else:
            yield f"{'; '.join(f'{run.policy}, seed {run.seed}' for run in those)}: {warning}"

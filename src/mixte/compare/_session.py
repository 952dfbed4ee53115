"""Carry a comparison out: run after run, with a result on disk after each."""

from __future__ import annotations

import datetime as dt
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mixte.compare._analysis import finished_runs, pair_policies
from mixte.compare._file import write_comparison
from mixte.compare._plan import Cell, plan
from mixte.compare._schema import COMPARISON_FILE, Comparison, RunEntry
from mixte.compare._warnings import find_warnings
from mixte.records import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.compare._runner import Runner, RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be compared.

    Attributes:
        script: Path of the training script.
        arguments: The script's own arguments.
        policies: At least two different policies; the first is the baseline.
        seeds: At least one seed.
        options: Options of ``mixte run`` for all runs.
    """

    script: str
    arguments: tuple[str, ...] = ()
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    options: tuple[str, ...] = ()


class Observer(Protocol):
    """Who is told how a comparison proceeds."""

    def waiting(self, number: int, total: int, cell: Cell, elapsed_s: float) -> None:
        """Run ``number`` of ``total`` goes on."""
        ...

    def ended(self, number: int, total: int, result: RunResult) -> None:
        """Run ``number`` of ``total`` has ended."""
        ...


def run_comparison(
    request: Request, runner: Runner, directory: Path, observer: Observer
) -> tuple[Comparison, bool]:
    """Run everything that a comparison needs and compare what finished.

    ``comparison.json`` is written after each run. A failed run does not stop the others. An interruption does,
    and leaves what was done.

    Args:
        request: What is to be compared.
        runner: Where the runs happen.
        directory: The comparison's directory; the runs' records go into it.
        observer: Who is told.

    Returns:
        The comparison, and whether the user interrupted it.

    Raises:
        RecordError: The comparison cannot be written.
    """
    started_at = dt.datetime.now(tz=dt.UTC)
    cells = plan(request.policies, request.seeds)
    results: list[RunResult] = []
    comparison = compare_results(request, results, directory, started_at)
    for number, cell in enumerate(cells, start=1):
        try:
            result = runner.run(
                cell,
                directory / _run_name(number, cell),
                lambda elapsed_s, n=number, c=cell: observer.waiting(n, len(cells), c, elapsed_s),
            )
        except KeyboardInterrupt:
            return comparison, True
        results.append(result)
        observer.ended(number, len(cells), result)
        comparison = compare_results(request, results, directory, started_at)
        write_comparison(comparison, directory / COMPARISON_FILE)
    return comparison, False


def compare_results(
    request: Request, results: Sequence[RunResult], directory: Path, started_at: dt.datetime
) -> Comparison:
    """Compare the runs done so far. Pure.

    Args:
        request: What is to be compared.
        results: The runs done, in their order.
        directory: The comparison's directory.
        started_at: When the comparison started.
    """
    runs = finished_runs(results)
    pairs = pair_policies(request.policies, runs)
    return Comparison(
        script=request.script,
        arguments=request.arguments,
        policies=request.policies,
        seeds=request.seeds,
        options=request.options,
        started_at=started_at,
        planned=len(request.policies) * len(request.seeds),
        runs=tuple(_entry(result, directory) for result in results),
        pairs=pairs,
        warnings=find_warnings(results, runs, pairs),
    )


def _entry(result: RunResult, directory: Path) -> RunEntry:
    return RunEntry(
        policy=result.cell.policy,
        seed=result.cell.seed,
        directory=os.path.relpath(result.directory, directory),
        exit_code=result.exit_code,
        duration_s=result.duration_s,
        problem=result.problem,
        summary=None if result.record is None else summarise(result.record),
    )


def _run_name(number: int, cell: Cell) -> str:
    """The number keeps two policy files of the same name apart, and sorts the runs by time."""
    policy = re.sub(r"[^\w.+-]+", "_", Path(cell.policy).stem, flags=re.ASCII)[:60]
    return f"{number:02}-{policy}-seed{cell.seed}"

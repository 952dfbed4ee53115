"""Runs made up for tests of what is computed from runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mixte.compare import Cell, RunResult
from mixte.records import Evaluation, LayerPrecision, Model, Policy, Record, Run, State, Step

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run_result() -> Callable[..., RunResult]:
    return make_run


def make_run(
    policy: str,
    seed: int,
    *,
    losses: tuple[float, ...] = (),
    accuracy: float | None = None,
    times_ns: tuple[int, ...] = (),
    memory_bytes: int | None = None,
    compute_dtype: str | None = None,
    problem: str | None = None,
    exit_code: int = 0,
    **run: Any,
) -> RunResult:
    """A run that logged a loss for each step, a validation accuracy, and step times after the first."""
    layers = () if compute_dtype is None else (LayerPrecision(path="d", compute_dtype=compute_dtype),)
    meta = Run(
        command=("mixte",),
        script="train.py",
        policy=Policy(name=policy),
        status="finished",
        seed=seed,
        models=(Model(name="m", layers=layers),),
        **run,
    )
    steps = [Step(step=n, time_s=float(n), loss=loss) for n, loss in enumerate(losses, start=1)]
    steps += [
        Step(step=n, time_s=float(n), step_time_ns=time)
        for n, time in enumerate((10**10, *times_ns) if times_ns else (), start=1)
    ]
    metrics = {} if accuracy is None else {"accuracy": accuracy}
    evaluations = (Evaluation(split="validation", time_s=9.0, metrics=metrics),)
    directory = Path("cmp") / f"{policy}-{seed}"
    return RunResult(
        cell=Cell(policy=policy, seed=seed),
        directory=directory,
        exit_code=exit_code,
        duration_s=12.0,
        record=Record(
            directory=directory,
            run=meta,
            status="finished",
            steps=tuple(steps),
            evaluations=evaluations if metrics else (),
            states=(State(time_s=9.0, step=1, host_memory_peak_bytes=memory_bytes),),
        ),
        problem=problem,
    )

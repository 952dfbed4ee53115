"""The summary says what the record holds, and ``None`` where it holds nothing."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mixte.records import (
    Change,
    Device,
    Evaluation,
    LayerPrecision,
    Model,
    Optimizer,
    OptimizerState,
    OptimizerStep,
    OptimizerSummary,
    Policy,
    Record,
    Run,
    State,
    Step,
    steady_step_times_ns,
    summarise,
)

RUN = Run(command=("mixte",), script="train.py", policy=Policy(name="mixed_float16"), status="finished")


def record(*lines: Step | Evaluation | State, run: Run = RUN, **changes: Any) -> Record:
    return Record(
        directory=Path("run"),
        run=run,
        steps=tuple(line for line in lines if isinstance(line, Step)),
        evaluations=tuple(line for line in lines if isinstance(line, Evaluation)),
        states=tuple(line for line in lines if isinstance(line, State)),
        **{"status": run.status, **changes},
    )


def updates(pattern: str, scales: list[float] | None = None) -> list[Step]:
    """Steps of one optimizer from a pattern: ``.`` applied, ``n`` and ``i`` skipped for NaN and infinity."""
    causes = {".": None, "n": "nan", "i": "inf"}
    return [
        Step(
            step=number,
            time_s=float(number),
            optimizers={
                "adam": OptimizerStep(
                    loss_scale=scales[number - 1] if scales else None,
                    skipped=mark != ".",
                    cause=causes[mark],
                )
            },
        )
        for number, mark in enumerate(pattern, start=1)
    ]


def optimizer_of(*lines: Step | State) -> OptimizerSummary:
    return summarise(record(*lines)).optimizers["adam"]


@pytest.mark.parametrize("steps", [2, 3, 10, 101])
def test_median_and_p95_are_numpys_over_the_steps_after_the_first(steps: int) -> None:
    times_ns = np.random.default_rng(steps).integers(1_000_000, 9_000_000, steps).tolist()
    lines = [Step(step=i + 1, time_s=0.0, step_time_ns=time) for i, time in enumerate(times_ns)]
    summary = summarise(record(*lines))
    assert summary.first_step_ns == times_ns[0]
    assert summary.steady_steps == steps - 1
    assert summary.step_time_median_ns == np.median(times_ns[1:])
    # Both interpolate as a + f (b - a) or its mirror image; each of the three operations rounds once, on
    # values below 2**24, so they agree to 3 units in the last place of 9e6.
    assert summary.step_time_p95_ns == pytest.approx(np.percentile(times_ns[1:], 95), abs=3 * math.ulp(9e6))


def test_one_step_has_no_steady_step_time() -> None:
    summary = summarise(record(Step(step=1, time_s=2.0, step_time_ns=5)))
    assert (summary.first_step_ns, summary.step_time_median_ns, summary.step_time_p95_ns) == (5, None, None)


def test_an_empty_record_is_unknown_and_not_zero() -> None:
    summary = summarise(record(status="killed"))
    assert summary.steps is None
    assert summary.duration_s is None
    assert summary.parameters is None
    assert summary.host_memory_peak_bytes is None
    assert summary.scores == {}
    assert summary.optimizers == {}
    assert summary.warnings == ()


def test_skips_before_the_first_applied_update_are_calibration() -> None:
    optimizer = optimizer_of(*updates("iin..i.n...."))
    assert (optimizer.skipped_in_calibration, optimizer.skipped_later, optimizer.applied) == (3, 2, 7)
    assert optimizer.skipped_by_cause == {"inf": 3, "nan": 2}
    assert optimizer.skip_rate_since_calibration == 2 / 9


def test_a_run_without_skips_has_a_skip_rate_of_zero() -> None:
    optimizer = optimizer_of(*updates("..."))
    assert (optimizer.skipped_in_calibration, optimizer.skip_rate_since_calibration) == (0, 0.0)


def test_a_run_that_skipped_everything_has_no_skip_rate_and_a_warning() -> None:
    summary = summarise(record(*updates("nnn")))
    assert summary.optimizers["adam"].skip_rate_since_calibration is None
    assert summary.warnings == ("every update of the optimizer 'adam' was skipped: it has trained nothing",)


def test_the_loss_scale_has_first_last_and_extremes() -> None:
    optimizer = optimizer_of(*updates("i...", [8.0, 4.0, 16.0, 2.0]))
    assert optimizer.loss_scale == Change(first=8.0, last=2.0)
    assert (optimizer.loss_scale_min, optimizer.loss_scale_max) == (2.0, 16.0)


def test_counters_hold_up_to_their_step_and_later_steps_are_added() -> None:
    counters = OptimizerState(
        loss_scale=1024.0, applied=96, skipped=4, skipped_in_calibration=3, skipped_by_cause={"inf": 4}
    )
    flags = updates("n" * 100 + ".i")  # the first 100 contradict the counters, which win
    optimizer = optimizer_of(State(time_s=1.0, step=100, optimizers={"adam": counters}), *flags)
    assert optimizer.applied == 97
    assert (optimizer.skipped_in_calibration, optimizer.skipped_later) == (3, 2)
    assert optimizer.skipped_by_cause == {"inf": 5}
    assert optimizer.loss_scale == Change(first=1024.0, last=1024.0)


def test_steps_that_do_not_say_whether_they_were_skipped_leave_the_count_unknown() -> None:
    silent = Step(step=1, time_s=0.0, optimizers={"adam": OptimizerStep(loss_scale=2.0)})
    optimizer = optimizer_of(silent)
    assert optimizer.loss_scale == Change(first=2.0, last=2.0)
    assert optimizer.applied is optimizer.skipped_in_calibration is optimizer.skipped_later is None


def test_each_optimizer_has_its_own_skips() -> None:
    summary = summarise(
        record(
            Step(
                step=1,
                time_s=0,
                optimizers={"d": OptimizerStep(skipped=True), "g": OptimizerStep(skipped=False)},
            ),
            Step(step=2, time_s=0, optimizers={"d": OptimizerStep(skipped=False)}),
        )
    )
    assert summary.optimizers["d"].skipped_in_calibration == 1
    assert summary.optimizers["g"].skipped_in_calibration == 0
    assert summary.optimizers["d"].skipped_by_cause == {"unknown": 1}


def test_training_scores_go_from_the_first_to_the_last_epoch() -> None:
    summary = summarise(
        record(
            Step(step=1, time_s=0, loss=9.0),
            Evaluation(split="train", time_s=1, loss=3.0, metrics={"accuracy": 0.5}),
            Step(step=2, time_s=2, loss=8.0),
            Evaluation(split="train", time_s=3, loss=1.0, metrics={"accuracy": 0.9}),
            Evaluation(split="validation", time_s=3, loss=2.0),
        )
    )
    assert summary.scores["train"].loss == Change(first=3.0, last=1.0)
    assert summary.scores["train"].metrics == {"accuracy": Change(first=0.5, last=0.9)}
    assert summary.scores["validation"].loss == Change(first=2.0, last=2.0)


def test_training_scores_of_one_epoch_begin_at_the_first_step() -> None:
    epoch = Evaluation(split="train", time_s=1, loss=3.0)
    summary = summarise(record(Step(step=1, time_s=0, loss=9.0), Step(step=2, time_s=0, loss=5.0), epoch))
    assert summary.scores["train"].loss == Change(first=9.0, last=3.0)


def test_training_scores_without_epochs_are_those_of_the_steps() -> None:
    summary = summarise(record(Step(step=1, time_s=0, loss=9.0), Step(step=2, time_s=0, metrics={"mae": 1.0})))
    assert summary.scores["train"].loss == Change(first=9.0, last=9.0)
    assert summary.scores["train"].metrics == {"mae": Change(first=1.0, last=1.0)}


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_loss_that_is_not_finite_at_the_end_is_a_warning(value: str) -> None:
    summary = summarise(record(Step(step=1, time_s=0, loss=1.0), Step(step=2, time_s=0, loss=float(value))))
    assert summary.warnings == (f"the train loss is {value} at the end",)


def test_a_finished_run_without_steps_is_a_warning() -> None:
    assert "no training step was logged" in summarise(record()).warnings[0]


def test_damaged_lines_are_a_warning() -> None:
    summary = summarise(record(Step(step=1, time_s=0), unreadable_lines=3))
    assert summary.warnings == ("3 lines of steps.jsonl are damaged: the figures are without them",)


def test_models_layers_devices_and_memory_are_totalled() -> None:
    layers = (
        LayerPrecision(path="a", compute_dtype="float16", variable_dtype="float32", parameters=10),
        LayerPrecision(path="b", compute_dtype="float16", variable_dtype="float32", parameters=0),
        LayerPrecision(path="c", compute_dtype="float32", variable_dtype="float32", parameters=5),
        LayerPrecision(path="d"),
    )
    run = msgspec.structs.replace(
        RUN,
        models=(Model(name="g", parameters=15, layers=layers), Model(name="d", parameters=7)),
        devices=(Device(name="Tesla T4"), Device(name="Tesla T4")),
        started_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        finished_at=dt.datetime(2026, 1, 1, 0, 1, tzinfo=dt.UTC),
    )
    memory = [
        State(time_s=0, step=1, host_memory_peak_bytes=10, device_memory_peak_bytes=4),
        State(time_s=1, step=2, host_memory_peak_bytes=30),
    ]
    summary = summarise(record(Step(step=1, time_s=0), *memory, run=run))
    assert summary.layers_by_compute_dtype == {"float16": 2, "float32": 1}
    assert summary.parameters_by_variable_dtype == {"float32": 15}
    assert summary.parameters == 22
    assert summary.devices == ("Tesla T4", "Tesla T4")
    assert summary.duration_s == 60.0
    assert summary.steps == 2
    assert (summary.host_memory_peak_bytes, summary.device_memory_peak_bytes) == (30, 4)


def test_parameters_are_unknown_if_those_of_one_model_are() -> None:
    run = msgspec.structs.replace(RUN, models=(Model(name="g", parameters=15), Model(name="d")))
    assert summarise(record(run=run)).parameters is None


def test_a_killed_run_lasted_until_its_last_line() -> None:
    summary = summarise(record(Step(step=1, time_s=2.5), State(time_s=4.0, step=1), status="killed"))
    assert (summary.status, summary.duration_s) == ("killed", 4.0)


def test_the_first_step_of_each_training_is_kept_out_of_the_step_times() -> None:
    marks = [(900, True), (10, False), (12, False), (500, True), (11, False)]
    lines = [
        Step(step=n, time_s=0.0, step_time_ns=time, first=first)
        for n, (time, first) in enumerate(marks, start=1)
    ]
    summary = summarise(record(*lines))
    assert (summary.first_step_ns, summary.steady_steps, summary.step_time_median_ns) == (900, 3, 11)
    assert steady_step_times_ns(record(*lines)) == [10, 12, 11]


def test_a_first_step_of_unknown_duration_leaves_all_others_steady() -> None:
    lines = [Step(step=1, time_s=0.0, first=True), Step(step=2, time_s=0.0, step_time_ns=4)]
    summary = summarise(record(*lines))
    assert (summary.first_step_ns, summary.steady_steps, summary.step_time_median_ns) == (None, 1, 4)


def test_every_optimizer_that_the_run_names_is_summarised_with_its_law() -> None:
    run = msgspec.structs.replace(
        RUN,
        optimizers=(
            Optimizer(name="adam", loss_scale="dynamic"),
            Optimizer(name="sgd", optimizer_class="SGD", loss_scale="none"),
        ),
    )
    optimizers = summarise(record(*updates(".."), run=run)).optimizers
    assert (optimizers["adam"].law, optimizers["adam"].applied) == ("dynamic", 2)
    assert optimizers["sgd"] == OptimizerSummary(law="none")

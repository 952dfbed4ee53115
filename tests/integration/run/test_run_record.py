"""What the record says of every way to train is what happened, the same on TensorFlow, JAX and PyTorch.

One script (``tour.py``) trains in all these ways; it is run once for each backend.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .conftest import MIXTE, Ended, execute

if TYPE_CHECKING:
    from mixte.records import OptimizerState, Step

BACKENDS = ["tensorflow", "jax", "torch"]
TOUR = Path(__file__).with_name("tour.py")
POLICY = """
schema = 1
extends = "mixed_float16"

[[rules]]
path = "encoder/**"
precision = "float32"
reason = "there is no such layer here"
"""
GROWTH_INTERVAL = 4
LAW = f"dynamic:growth_interval={GROWTH_INTERVAL}"

# The forced overflow. One number goes through two layers with weights of 1, so the gradient of the squared error
# at the layer in float16 is twice the distance, times the scale.
DISTANCES = [0.25, 3.0, 3.0, 3.0, float("nan"), 0.25, 0.25, 0.25, 0.25, 0.25]
LARGEST_FLOAT16 = 65504.0


def expected_overflow() -> list[tuple[float, str | None]]:
    """The scale of each step, and the cause for which it is skipped: halved at once, doubled after four clean steps.

    The weights move by less than 2**-16 each, so that no distance comes near the limit on account of them.
    """
    scale, clean, steps = 2.0**15, 0, list[tuple[float, str | None]]()
    for distance in DISTANCES:
        overflows = 2 * distance * scale > LARGEST_FLOAT16
        cause = "loss" if math.isnan(distance) else "inf" if overflows else None
        steps.append((scale, cause))
        clean = 0 if cause else clean + 1
        if cause:
            scale /= 2
        elif clean == GROWTH_INTERVAL:
            scale, clean = scale * 2, 0
    return steps


@pytest.fixture(scope="session")
def tours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    return {}


@pytest.fixture(params=BACKENDS)
def tour(
    request: pytest.FixtureRequest, tours: dict[str, Ended], tmp_path_factory: pytest.TempPathFactory
) -> Ended:
    """The tour on a backend, run when the first test asks for it."""
    backend: str = request.param
    if backend not in tours:
        folder = tmp_path_factory.mktemp(backend)
        (folder / "tour.py").write_text(TOUR.read_text())
        (folder / "policy.toml").write_text(POLICY)
        options = ("--policy", "policy.toml", "--loss-scale", LAW)
        arguments = (backend, json.dumps(DISTANCES))
        tours[backend] = execute(folder, (*MIXTE, *options, "tour.py", *arguments))
    ended = tours[backend]
    assert ended.returncode == 0, ended.stderr
    return ended


def seen_by(tour: Ended) -> dict[str, list[object]]:
    return json.loads(tour.stdout.splitlines()[-1])


def steps_of(tour: Ended, optimizer: str) -> list[Step]:
    return [step for step in tour.record.steps if optimizer in step.optimizers]


def last_state(tour: Ended, optimizer: str) -> OptimizerState:
    return [state.optimizers[optimizer] for state in tour.record.states if optimizer in state.optimizers][-1]


def backend_of(tour: Ended) -> str | None:
    return tour.record.run.backend


def test_overflowing_steps_are_skipped_at_the_same_scales_on_every_backend(tour: Ended) -> None:
    steps = [step.optimizers["overflow"] for step in steps_of(tour, "overflow")]
    assert [(step.loss_scale, step.cause) for step in steps] == expected_overflow()
    assert [step.skipped for step in steps] == [cause is not None for _, cause in expected_overflow()]


def test_a_skipped_step_leaves_every_weight_untouched_and_an_applied_one_does_not(tour: Ended) -> None:
    unchanged = [before == after for before, after in pairwise(seen_by(tour)["digests"])]
    assert unchanged == [cause is not None for _, cause in expected_overflow()]


def test_the_counters_agree_with_the_single_steps(tour: Ended) -> None:
    state = last_state(tour, "overflow")
    causes = [cause for _, cause in expected_overflow() if cause]
    assert (state.steps, state.skipped) == (len(DISTANCES), len(causes))
    assert state.skipped_by_cause == {cause: causes.count(cause) for cause in set(causes)}
    for name in ("fits", "generator", "eager"):
        steps = [step.optimizers[name] for step in steps_of(tour, name)]
        assert last_state(tour, name).steps == len(steps)
        assert last_state(tour, name).skipped == sum(step.skipped is True for step in steps)


def test_the_loss_is_recorded_without_the_scale(tour: Ended) -> None:
    losses = [step.loss for step in steps_of(tour, "overflow")]
    # The squared distance. Each of the two weights moves by less than 2**-16 in all (the gradients add up to less
    # than 16, the learning rate is 2**-20), so the distance by less than 2**-15, of 0.25 at least, and its square
    # relatively by twice that.
    expected = [distance**2 for distance in DISTANCES]
    assert losses == pytest.approx(expected, rel=2**-12, nan_ok=True)


def test_every_step_of_fit_is_recorded_however_the_callbacks_are_given(tour: Ended) -> None:
    assert seen_by(tour)["batches"] == [10, 5, 5]  # the script's own callbacks saw what they see without us
    assert seen_by(tour)["callbacks_left"] == 1  # in the list that the script made itself, and kept
    steps = steps_of(tour, "fits")
    assert [step.epoch for step in steps] == [0] * 5 + [1] * 5 + [0] * 5 + [0] * 5
    assert [step.step for step in steps] == list(range(len(DISTANCES) + 1, len(DISTANCES) + 21))


def test_the_first_step_of_each_training_stands_apart(tour: Ended) -> None:
    firsts = {name: [step.first for step in steps_of(tour, name)] for name in ("overflow", "fits", "generator")}
    assert firsts["overflow"] == [True] + [False] * (len(DISTANCES) - 1)
    assert [index for index, first in enumerate(firsts["fits"]) if first] == [0, 10, 15]
    assert firsts["generator"] == [True, False, False]


def test_epochs_validations_and_evaluations_are_recorded(tour: Ended) -> None:
    first_step, last_step = len(DISTANCES) + 1, len(DISTANCES) + 20
    of_fits = [e for e in tour.record.evaluations if first_step <= (e.step or 0) <= last_step]
    assert [e.split for e in of_fits] == ["train", "validation"] * 2 + ["train", "train", "test"]
    assert of_fits[-1].metrics["mae"] == pytest.approx(
        seen_by(tour)["evaluated"], rel=1e-7
    )  # a float32 as text
    assert all(e.loss is not None and "mae" in e.metrics for e in of_fits)


def test_steps_run_as_one_are_one_line_that_counts_them_all(tour: Ended) -> None:
    if backend_of(tour) == "torch":
        assert steps_of(tour, "several") == []  # Keras refuses steps_per_execution there
        return
    steps = steps_of(tour, "several")
    start = len(DISTANCES) + 20
    assert [step.step - start for step in steps] == [4, 8, 10, 14, 18, 20]
    assert last_state(tour, "several").steps == 20
    assert [step.optimizers["several"].skipped for step in steps] == [None] * 6
    assert steps[0].optimizers["several"].loss_scale == 2.0**15


def test_data_that_runs_out_ends_with_the_last_step_that_was_done(tour: Ended) -> None:
    steps = steps_of(tour, "generator")
    assert len(steps) == last_state(tour, "generator").steps == 3
    (eager,) = [step for step in steps_of(tour, "eager") if step.first]
    assert eager.step == steps[-1].step + 1  # no number is lost


def test_a_loop_of_the_scripts_own_is_recorded_update_by_update(tour: Ended) -> None:
    steps = steps_of(tour, "eager")
    assert [step.optimizers["eager"].cause for step in steps] == [None, "loss", None]
    assert [step.optimizers["eager"].loss_scale for step in steps] == [2.0**15, 2.0**15, 2.0**14]
    assert steps[0].step_time_ns is None  # nobody knows when it began
    assert all(step.step_time_ns for step in steps[1:])
    if backend_of(tour) != "jax":  # there the loss is a tracer while it is scaled
        assert [step.loss for step in steps] == [pytest.approx(1.6253, abs=1e-3), float("inf"), steps[2].loss]


def test_a_compiled_loop_is_counted_where_its_state_is_to_be_had(tour: Ended) -> None:
    warnings = [text for text in tour.record.run.warnings if "compiles its own training loop" in text]
    assert steps_of(tour, "compiled") == []
    match backend_of(tour):
        case "tensorflow":
            assert last_state(tour, "compiled").steps == 5
            assert max(state.step for state in tour.record.states) == max(s.step for s in tour.record.steps) + 5
            assert len(warnings) == 1
        case "jax":  # the script kept the state in its own hands: unknown, and how to change that
            assert not any("compiled" in state.optimizers for state in tour.record.states)
            assert "variable.assign(value)" in warnings[0]
        case _:
            assert warnings == []


def test_every_optimizer_has_an_entry_with_its_law(tour: Ended) -> None:
    names = {optimizer.name: optimizer for optimizer in tour.record.run.optimizers}
    assert {"overflow", "fits", "generator", "eager"} <= names.keys()
    assert {optimizer.loss_scale for optimizer in names.values()} == {LAW}
    assert {optimizer.optimizer_class for optimizer in names.values()} == {"SGD"}


def test_every_layer_has_its_precision_and_a_reason(tour: Ended) -> None:
    layers = {layer.path: layer for model in tour.record.run.models for layer in model.layers}
    assert layers["fits_inner"].compute_dtype == "float16"
    assert layers["fits_last"].compute_dtype == "float32"
    assert all(layer.variable_dtype == "float32" and layer.reason for layer in layers.values())


def test_a_rule_that_selects_nothing_is_a_warning_in_the_record(tour: Ended) -> None:
    (warning,) = [text for text in tour.record.run.warnings if "encoder" in text]
    assert "selects no layer" in warning
    assert tour.stderr.count("mixte: warning: The rule 'path encoder/**") == 1


def test_a_script_with_several_optimizers_has_a_row_for_each_in_the_summary(tour: Ended) -> None:
    summary = tour.stderr[tour.stderr.index("mixte: tour.py finished in ") :]
    assert "  loss scale   overflow: 32768 -> " in summary
    assert "  skipped      overflow: 0 in calibration, 3 of 10 later (30%); cause: " in summary
    assert max(map(len, summary.splitlines())) <= 80
    assert "unknown" not in summary.replace("skipped      compiled: unknown", "")


def test_nothing_failed_in_the_recording(tour: Ended) -> None:
    assert not any("recording has stopped" in text for text in tour.record.run.warnings)
    assert "Traceback" not in tour.stderr
    assert tour.record.unreadable_lines == 0

"""A process that goes wrong, or dies, ends the others, with an error that says so."""

import json

import pytest

from .conftest import HERE, execute, must_succeed
from .problem import DIED


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    """What two PyTorch processes saw, without DistributedDataParallel: gradients differ, as inside of no_sync."""
    folder = tmp_path_factory.mktemp("torch")
    must_succeed(execute(folder, [([str(HERE / "torch_faults.py"), str(folder / "result")], {})]))
    return [json.loads((folder / f"result.{rank}").read_text()) for rank in range(2)]


def test_an_overflow_in_one_process_skips_the_step_in_both(processes):
    first, second = (each["gradient"] for each in processes)
    assert first == second
    assert not first["applied"]
    assert first["weight"] == 1.0
    assert first["scale"] == 512.0
    assert first["counters"]["skipped_inf"] == 1


def test_a_loss_that_is_not_finite_in_one_process_is_the_cause_in_both(processes):
    first, second = (each["loss"] for each in processes)
    assert first == second
    assert first["counters"]["skipped_loss"] == 1


def test_a_law_of_the_largest_gradient_gives_one_scale_where_the_gradients_differ(processes):
    first, second = (each["largest"] for each in processes)
    assert first["scale"] == second["scale"]


def test_scales_that_differ_are_refused_in_both_processes_with_both_values(processes):
    for each, own in zip(processes, ("128", "256"), strict=True):
        assert each["scales"]["type"] == "LossScaleError"
        assert "from 128 to 256" in each["scales"]["text"]
        assert f"this one: {own}" in each["scales"]["text"]


def test_a_pytorch_process_that_dies_ends_the_other_with_a_note_of_what_to_do(processes):
    death = processes[0]["death"]
    assert death["type"] == "RuntimeError"
    assert "Connection" in death["text"]  # gloo's own words
    (note,) = death["notes"]
    assert "process 0 of 2" in note
    assert "from the last checkpoint" in note


@pytest.mark.slow
def test_a_tensorflow_worker_that_dies_ends_the_other_with_an_error_that_tells_of_it(trainings):
    survivor, dead = trainings.worker_died()
    assert dead.returncode == DIED
    assert survivor.returncode == 1
    assert "UnavailableError" in survivor.output
    assert "/job:worker/replica:0/task:1" in survivor.output or "Connection reset by peer" in survivor.output

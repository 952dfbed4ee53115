"""``mixte run --emulate``: what a user sees, and what the record says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mixte.records import read_record

pytest.importorskip("keras", reason="Keras is not installed")
pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
pytest.importorskip("sklearn", reason="scikit-learn is not installed")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits_cnn.py"


def run(folder, *options, script=str(EXAMPLE), arguments=()):
    kept = {name: value for name, value in os.environ.items() if name not in {"KERAS_BACKEND", "COLUMNS"}}
    return subprocess.run(
        [sys.executable, "-m", "mixte", "run", "--backend", "tensorflow", *options, script, *arguments],
        cwd=folder,
        env=kept | {"TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "80"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_the_digits_example_reports_what_a_v100_run_would(tmp_path):
    options = (
        "--emulate",
        "volta",
        "--policy",
        "mixed_float16",
        "--loss-scale",
        "dynamic:initial=16777216",
        "--seed",
        "1",
    )
    ended = run(tmp_path, *options, "--record", "run", arguments=("--epochs", "3"))

    assert ended.returncode == 0, ended.stderr
    assert "emulating the Tensor Cores of volta" in ended.stderr
    assert "slow" not in ended.stderr
    ours = [line for line in ended.stderr.splitlines() if line.startswith(("mixte: ", "  "))]
    assert not [line for line in ours if len(line) > 80]
    record = read_record(tmp_path / "run")
    (model,) = record.run.models
    reasons = {layer.path: layer.reason or "" for layer in model.layers}
    assert "emulated: float16 products as on volta" in reasons["conv2d"]
    assert "emulated" not in reasons["dense_1"]  # the output: float32 by a safeguard
    summary = record.run.summary
    assert summary is not None
    (totals,) = summary.optimizers.values()
    assert totals.skipped_in_calibration
    assert totals.loss_scale is not None
    assert totals.loss_scale.first == 2.0**24 > totals.loss_scale.last
    accuracy = summary.scores["validation"].metrics["accuracy"]
    assert accuracy.last > 0.7
    assert "16777216 -> " in ended.stderr
    assert "accuracy" in ended.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--emulate", "volta", "--policy", "mixed_bfloat16"), "They multiply: float16"),
        (("--emulate", "pascal"), "The architectures are: volta, turing"),
        (("--emulate", "ampere", "--policy", "float8"), "ada, hopper, blackwell can"),
        (("--policy", "float8"), "add --emulate"),
        (("--exact", "conv2d"), "add --emulate ARCH"),
        (("--emulate", "volta", "--exact", "a**b"), "'**' stands for whole segments"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(tmp_path, options, said):
    ended = run(tmp_path, *options)

    assert ended.returncode == 2
    assert said in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_exact_layer_that_does_not_exist_ends_the_script_with_what_there_is(tmp_path):
    ended = run(tmp_path, "--emulate", "volta", "--policy", "mixed_float16", "--exact", "conv9")

    assert ended.returncode == 1
    assert "'conv9' selects no layer" in ended.stderr
    assert "conv2d" in ended.stderr

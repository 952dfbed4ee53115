"""``mixte compare`` from end to end: a real script, real runs, the table in 80 columns."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from mixte.compare import read_comparison
from mixte.records import read_record

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
    import keras
    import numpy as np
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 8)).astype("float32")
    y = (x[:, :4].sum(axis=1) > 0).astype("int64")
    layers = [keras.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(x, y, batch_size=4, epochs=2, validation_split=0.25, verbose=2)
    """
STEPS = 2 * 12


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_two_policies_are_run_compared_and_shown_in_80_columns(tmp_path: Path, backend: str) -> None:
    (tmp_path / "train.py").write_text(dedent(SCRIPT).lstrip())
    options = ("--policies", "float32,mixed_bfloat16", "--backend", backend, "--record", "compared")
    ended = subprocess.run(
        (sys.executable, "-m", "mixte", "compare", *options, "train.py"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "80", "TF_CPP_MIN_LOG_LEVEL": "3"},
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert max(map(len, ended.stdout.splitlines())) <= 80
    assert ended.stdout.startswith(f"mixte: train.py, 2 policies x 1 seed on {backend}\n")
    assert "unknown" not in ended.stdout
    assert "verdict: mixed_bfloat16 " in ended.stdout

    comparison = read_comparison(tmp_path / "compared")
    assert [(run.policy, run.problem) for run in comparison.runs] == [
        ("float32", None),
        ("mixed_bfloat16", None),
    ]
    records = [read_record(tmp_path / "compared" / run.directory) for run in comparison.runs]
    assert [len(record.steps) for record in records] == [STEPS, STEPS]
    dtypes = [{layer.compute_dtype for layer in record.run.models[0].layers} for record in records]
    assert dtypes == [{"float32"}, {"bfloat16", "float32"}]
    assert [record.run.optimizers[0].loss_scale for record in records] == ["none", "fixed:1"]
    first = [record.steps[0].loss for record in records]
    # The same seed and data: the losses before any update differ by bfloat16's rounding alone, half a unit in 8 bits
    # for each of a few operations.
    assert first[0] != first[1]
    assert first[0] == pytest.approx(first[1], rel=2**-5)

"""A training that is killed again and again ends with the weights of the one that was not, to the last bit.

Twice here; as often as ``MIXTE_RESUME_KILLS`` says: each kill costs a start of the framework.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TRAINING = Path(__file__).parent / "training.py"
STEPS_PER_EPOCH = 5  # as in training.py, which cannot be imported without a framework
KILLS = int(os.environ.get("MIXTE_RESUME_KILLS", "2"))
LIMIT_S = 240  # a process that hangs fails its test; none needs a tenth of it


def train(backend: str, folder: Path, epochs: int, kill_at: int | None = None) -> int:
    """Start the training, or go on with it; return how its process ended."""
    folder.mkdir(exist_ok=True)
    arguments = [str(folder), str(epochs)] + ([] if kill_at is None else [str(kill_at)])
    variables = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, str(TRAINING), *arguments]
    ended = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    assert "Skipping variable loading" not in ended.stderr
    return ended.returncode


@pytest.mark.timeout(LIMIT_S * (KILLS + 2))
@pytest.mark.parametrize(
    "backend", ["torch", *(pytest.param(each, marks=pytest.mark.slow) for each in ("tensorflow", "jax"))]
)
def test_a_training_that_is_killed_ends_with_the_weights_of_the_one_that_was_not(backend, tmp_path):
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    epochs = KILLS + 1
    # Not before the first backup: nothing would be resumed.
    last = epochs * STEPS_PER_EPOCH - 1
    chosen = random.Random(f"resume {backend}")  # noqa: S311 - to be the same every time, not to be secret
    kills = sorted(chosen.sample(range(STEPS_PER_EPOCH + 1, last + 1), KILLS))

    assert train(backend, tmp_path / "whole", epochs) == 0
    for step in kills:
        assert train(backend, tmp_path / "killed", epochs, step) == -signal.SIGKILL, (
            f"not killed at step {step}"
        )
    assert train(backend, tmp_path / "killed", epochs) == 0

    whole, killed = (json.loads((tmp_path / name / "end.json").read_text()) for name in ("whole", "killed"))
    assert killed == whole
    assert whole["counters"]["skipped"] == epochs, "one step in each epoch"
    with np.load(tmp_path / "whole" / "end.npz") as one, np.load(tmp_path / "killed" / "end.npz") as other:
        assert one.files == other.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name])

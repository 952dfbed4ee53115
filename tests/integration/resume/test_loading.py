"""A script that nobody changed saves a model under ``mixte run``, and loads it again: there, and without mixte."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("jax", reason="JAX is not installed")

SCRIPT = """
import pathlib, warnings
import keras, numpy as np

warnings.simplefilter("error", UserWarning)
x = np.random.default_rng(0).normal(size=(8, 3)).astype("float32") / 64  # no gradient overflows
if not pathlib.Path("model.keras").exists():
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)])
    model.compile("adam", "mse")
else:
    model = keras.saving.load_model("model.keras")
before = int(model.optimizer.iterations)
model.fit(x, x[:, :2], batch_size=2, verbose=0)
model.save("model.keras")
model.save_weights("model.weights.h5")
outer, inner = type(model.optimizer), type(getattr(model.optimizer, "inner_optimizer", None))
print(before, int(model.optimizer.iterations), outer.__module__.split(".")[0], inner.__name__)
"""

WITHOUT = """
import keras, numpy as np, sys

try:
    keras.saving.load_model("model.keras")
except TypeError as error:
    print("mixte>LossScaleOptimizer" in str(error))
model = keras.saving.load_model("model.keras", compile=False)
print(model.predict(np.ones((1, 3)), verbose=0).shape)
plain = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(2)])
plain.compile("adam", "mse")
plain.optimizer.build(plain.trainable_variables)
plain.load_weights("model.weights.h5")
print(int(plain.optimizer.iterations), "mixte" in sys.modules)
import mixte.keras
print(int(keras.saving.load_model("model.keras").optimizer.iterations))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("loading")
    (made / "train.py").write_text(SCRIPT, encoding="utf-8")
    (made / "without.py").write_text(WITHOUT, encoding="utf-8")
    return made


def run(folder: Path, *command: str) -> list[str]:
    """Run a command in the folder; return what it printed, a line each."""
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "KERAS_BACKEND": "jax", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


UNDER_MIXTE = ("-m", "mixte", "run", "--policy", "mixed_float16", "train.py")


def test_a_model_saved_under_mixte_run_is_loaded_there_without_a_warning_and_wrapped_once(folder: Path):
    assert run(folder, *UNDER_MIXTE) == ["0 4 mixte Adam"]
    assert run(folder, *UNDER_MIXTE) == ["4 8 mixte Adam"]


def test_without_mixte_the_model_and_the_moments_are_there_and_the_refusal_names_what_to_import(folder: Path):
    if not (folder / "model.keras").exists():
        run(folder, *UNDER_MIXTE)
    iterations = run(folder, "-c", "import h5py; print(h5py.File('model.weights.h5')['optimizer/vars/0'][()])")

    assert run(folder, "without.py") == ["True", "(1, 2)", f"{iterations[0]} False", iterations[0]]

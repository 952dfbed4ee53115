"""What the command line asks for wins over what the script sets, and is said; what it does not touch stays."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from .conftest import MIXTE, Ended, execute

if TYPE_CHECKING:
    from pathlib import Path

    from mixte.records import Step

# Three models under `--policy float32 --seed 7 --loss-scale fixed:64`, in a script with a will of its own.
SCRIPT = dedent("""
    import os, random, warnings
    warnings.filterwarnings("ignore")  # as many scripts do
    warnings.simplefilter("error", UserWarning)
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy as np

    print(keras.backend.backend())
    keras.mixed_precision.set_global_policy("mixed_float16")
    keras.config.set_dtype_policy("float32")  # what is in force anyway
    keras.utils.set_random_seed(1)
    print(random.random(), np.random.rand())
    x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")

    def model(name, dtype=None):
        layers = [keras.Input((4,)), keras.layers.Dense(2, dtype=dtype), keras.layers.Dense(1)]
        return keras.Sequential(layers, name=name)

    plain = model("plain")
    optimizer = keras.optimizers.SGD(0.1, name="plain")
    plain.compile(optimizer, loss="mse")
    plain.compile(optimizer, loss="mae")  # anew, with the optimizer that it had
    plain.fit(x, y, verbose=0)
    print([layer.compute_dtype for layer in plain.layers], keras.config.dtype_policy().name)
    keras.utils.clear_session()  # which forgets Keras's global policy
    print([layer.compute_dtype for layer in model("after").layers])

    own = model("own", dtype="mixed_float16")
    own.compile(keras.optimizers.SGD(0.1, name="own"), loss="mse")
    own.fit(x, y, verbose=0)
    print([layer.compute_dtype for layer in own.layers])

    kept = model("kept", dtype="mixed_float16")
    scaler = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, name="kept"), initial_scale=2.0**30)
    kept.compile(scaler, loss="mse")
    kept.fit(x, y + 9, batch_size=4, epochs=2, verbose=0)
    print(kept.optimizer is scaler, float(keras.ops.convert_to_numpy(scaler.dynamic_scale)))
""")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    folder = tmp_path_factory.mktemp("overrides")
    (folder / "train.py").write_text(SCRIPT)
    options = ("--policy", "float32", "--seed", "7", "--loss-scale", "fixed:64", "--backend", "jax")
    ended = execute(folder, (*MIXTE, *options, "train.py"))
    assert ended.returncode == 0, ended.stderr
    return ended


def warning_about(ended: Ended, word: str) -> str:
    (text,) = [warning for warning in ended.record.run.warnings if word in warning]
    assert f"mixte: warning: {text}\n" in ended.stderr  # at once, though the script ignores warnings
    return text


def steps_of(ended: Ended, optimizer: str) -> list[Step]:
    return [step for step in ended.record.steps if optimizer in step.optimizers]


def test_the_backend_of_the_command_line_wins_with_a_warning(ended: Ended) -> None:
    assert ended.stdout.splitlines()[0] == ended.record.run.backend == "jax"
    assert "'torch'; the command line's, 'jax'," in warning_about(ended, "the backend")


def test_the_seed_of_the_command_line_wins_with_a_warning(ended: Ended) -> None:
    import random

    import numpy as np

    drawn = (random.Random(7).random(), np.random.RandomState(7).rand())  # noqa: S311 - what the script drew
    assert ended.stdout.splitlines()[1] == f"{drawn[0]} {drawn[1]}"
    assert "the seed 1; the command line's, 7," in warning_about(ended, "the seed")


def test_the_policy_of_the_command_line_wins_with_a_warning(ended: Ended) -> None:
    assert ended.stdout.splitlines()[2] == "['float32', 'float32'] float32"
    text = warning_about(ended, "global dtype policy")
    assert "'mixed_float16'; the command line's policy, 'float32'," in text


def test_the_policy_outlasts_clear_session(ended: Ended) -> None:
    assert ended.stdout.splitlines()[3] == "['float32', 'float32']"


def test_a_dtype_that_the_script_gives_a_layer_is_kept(ended: Ended) -> None:
    assert ended.stdout.splitlines()[4] == "['float16', 'float32']"


def test_a_law_is_used_in_float32_too_with_a_warning(ended: Ended) -> None:
    assert [step.optimizers["plain"].loss_scale for step in steps_of(ended, "plain")] == [64.0]
    assert "no layer computes in float16" in warning_about(ended, "'plain'")


def test_the_scaler_of_the_script_stays_with_a_warning_and_its_scale_is_recorded(ended: Ended) -> None:
    assert ended.stdout.splitlines()[5] == f"True {2.0**26}"
    text = warning_about(ended, "Keras's own LossScaleOptimizer")
    assert "the law that was asked for is not used" in text
    steps = [step.optimizers["kept"] for step in steps_of(ended, "kept")]
    # Each gradient overflows: about 18 times a scale of 2**26 or more.
    assert [(step.loss_scale, step.skipped) for step in steps] == [(2.0**k, True) for k in (30, 29, 28, 27)]
    laws = {optimizer.name: optimizer.loss_scale for optimizer in ended.record.run.optimizers}
    assert laws["kept"] == "keras:initial_scale=1073741824,growth_interval=2000"


def test_nothing_else_is_warned_of(ended: Ended) -> None:
    summary_only = ["every update of the optimizer 'kept' was skipped"]
    assert len(ended.record.run.warnings) == 5
    assert ended.record.run.summary is not None
    assert len(ended.record.run.summary.warnings) == 5 + len(summary_only)


def test_tf_keras_is_keras(tmp_path: Path) -> None:
    script = """
        import tensorflow as tf
        tf.keras.mixed_precision.set_global_policy("mixed_float16")
        tf.keras.utils.set_random_seed(1)
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
        model.compile("sgd", loss="mse")
        model.fit(tf.ones((8, 4)), tf.ones((8, 1)), batch_size=4, verbose=0)
        print([layer.compute_dtype for layer in model.layers])
        """
    (tmp_path / "train.py").write_text(dedent(script))
    ended = execute(tmp_path, (*MIXTE, "--policy", "mixed_bfloat16", "--seed", "7", "train.py"))
    assert (ended.returncode, ended.stdout) == (0, "['bfloat16', 'float32']\n"), ended.stderr
    assert "the script sets the global dtype policy 'mixed_float16'" in ended.stderr
    assert "the script sets the seed 1" in ended.stderr
    (optimizer,) = ended.record.run.optimizers
    assert optimizer.loss_scale == "fixed:1"  # bfloat16 is checked, and not scaled
    assert [step.optimizers[optimizer.name].skipped for step in ended.record.steps] == [False, False]
    assert "  loss scale   the loss is not scaled; every step is checked\n" in ended.stderr

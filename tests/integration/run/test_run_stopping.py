"""A run that gets nowhere is stopped, or told of at its end; what a loop does wrong is said once."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Run

# A loss in float16, scaled gradients clipped by hand, and a layer that overflows: twenty times, in a graph.
COMPILED_LOOP = """
    import keras
    import numpy as np
    import tensorflow as tf

    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(4, kernel_initializer=keras.initializers.Constant(3e4), name="large"),
            keras.layers.Dense(1, name="last"),
        ],
        name="net",
    )
    model.compile(keras.optimizers.SGD(0.01, name="sgd"), "mse")
    optimizer = model.optimizer

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.cast(tf.reduce_mean(model(x)), "float16")
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        optimizer.apply(gradients, model.trainable_variables)

    x = tf.ones((2, 4))
    for _ in range(20):
        step(x)
    print("ended")
    """

CAUGHT = """
    import keras
    import numpy as np
    import mixte

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(1)], name="net")
    model.compile("sgd", "mse")
    x = np.full((80, 4), np.nan, "float32")
    try:
        model.fit(x, x[:, :1], batch_size=4, verbose=0)
    except mixte.LossScaleError as error:
        print(type(error).__name__, error.finding.cause)
    """

ENDLESS = """
    import keras
    import numpy as np

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), keras.layers.Dense(1)], name="net")
    model.compile("sgd", "mse")
    x = np.full((80, 4), np.nan, "float32")
    model.fit(x, x[:, :1], batch_size=4, verbose=0)
    """


def test_a_compiled_loop_that_came_to_nothing_is_told_of_at_its_end(run: Run) -> None:
    ended = run(
        dedent(COMPILED_LOOP).lstrip(), "--policy", "mixed_float16", "--backend", "tensorflow", "--quiet"
    )
    finding = ended.record.run.stopped
    assert finding is not None
    assert (ended.returncode, ended.stdout) == (3, "ended\n")
    assert "mixte: the training of the model 'net' ended in vain: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (finding.consecutive_skips, finding.optimizer, finding.replayed) == (20, "sgd", "none")
    assert finding.gradient_layer in ("large", "last")
    # What the loop does wrong is said at its first step, and once.
    assert ended.stderr.count("the loss is computed in float16") == 1
    assert ended.stderr.count("were clipped by tensorflow.clip_by_global_norm while") == 1
    assert "the gradients given to 'sgd' were clipped" in ended.stderr


def test_a_script_that_catches_the_exception_has_the_last_word(run: Run) -> None:
    ended = run(dedent(CAUGHT).lstrip(), "--policy", "mixed_float16", "--backend", "jax", "--quiet")
    assert (ended.returncode, ended.stdout) == (0, "TrainingStoppedError batch\n")
    assert ended.record.run.stopped is not None
    assert ended.record.run.stopped.cause == "batch"
    assert ended.record.status == "finished"


def test_nothing_is_stopped_if_the_user_says_so(run: Run) -> None:
    ended = run(
        dedent(ENDLESS).lstrip(), "--policy", "mixed_float16", "--backend", "jax", "--stop-after-skips", "0"
    )
    assert ended.returncode == 0
    assert ended.record.run.stopped is None
    assert len(ended.record.steps) == 20


@pytest.mark.parametrize("skips", ["-1", "many"])
def test_a_wrong_number_of_skips_is_refused_before_the_script_runs(run: Run, skips: str) -> None:
    ended = run("print('ran')", f"--stop-after-skips={skips}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--stop-after-skips" in ended.stderr
    assert "Traceback" not in ended.stderr

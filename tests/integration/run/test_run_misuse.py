"""A training that would go wrong in silence ends with one paragraph that names the place in the script."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Ended, Run

MODEL = """
import os
os.environ["KERAS_BACKEND"] = "{backend}"
import keras
import numpy as np
x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
"""

# Each trains without scale_loss. The line that is at fault is marked.
IN_FIT_TENSORFLOW = """
import tensorflow as tf
class Model(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)  # here
        return {"loss": loss}
inputs = keras.Input((4,))
model = Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(3)(inputs)))
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)
"""
IN_TF_FUNCTION = """
import tensorflow as tf
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
model.compile("sgd", "mse")
def update(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply(gradients, model.trainable_variables)  # here
@tf.function
def step(x, y):
    if tf.reduce_sum(x) > 0:
        update(x, y)
step(x, y)
"""
IN_FIT_JAX = """
import jax
class Model(keras.Model):
    def train_step(self, state, data):
        trainable, non_trainable, optimizer, metrics = state
        x, y = data
        def mean_square(trainable):
            y_pred, _ = self.stateless_call(trainable, non_trainable, x, training=True)
            return keras.ops.mean((y_pred - y) ** 2)
        loss, gradients = jax.value_and_grad(mean_square)(trainable)
        trainable, optimizer = self.optimizer.stateless_apply(optimizer, gradients, trainable)  # here
        return {"loss": loss}, (trainable, non_trainable, optimizer, metrics)
inputs = keras.Input((4,))
model = Model(inputs, keras.layers.Dense(1)(keras.layers.Dense(3)(inputs)))
model.compile("sgd", "mse")
model.fit(x, y, verbose=0)
"""
TWO_SCALERS = """
sgd = keras.optimizers.SGD(0.1)
for name in "ab":
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)], name=name)
    model.compile(sgd, "mse")  # here
"""


def paragraph(ended: Ended) -> str:
    """What is said of the error: the message, and the place on a line of its own."""
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("mixte run: error: ") == 1
    return ended.stderr.partition("mixte run: error: ")[2].partition("mixte: train.py failed after ")[0]


@pytest.mark.parametrize(
    ("backend", "script", "function"),
    [
        ("tensorflow", IN_FIT_TENSORFLOW, "train_step"),
        ("tensorflow", IN_TF_FUNCTION, "update"),
        ("jax", IN_FIT_JAX, "train_step"),
    ],
    ids=["fit on TensorFlow", "tf.function", "fit on JAX"],
)
def test_a_loss_that_is_never_scaled_is_an_error_that_names_the_line(
    run: Run, backend: str, script: str, function: str
) -> None:
    text = MODEL.format(backend=backend) + script
    message = paragraph(run(text, "--policy", "mixed_float16"))
    assert message.startswith("this optimizer divides the gradients by the loss scale, but the loss was never ")
    assert "write: loss = optimizer.scale_loss(loss)" in message
    assert "in user code" not in message  # as TensorFlow would put it
    assert_place(message, text, function)


def test_two_scalers_on_one_optimizer_are_an_error_that_names_the_line(run: Run) -> None:
    text = MODEL.format(backend="jax") + TWO_SCALERS
    ended = run(text, "--policy", "mixed_float16")
    assert paragraph(ended).startswith("'sgd' is wrapped by the loss-scaling optimizer ")
    assert_place(paragraph(ended), text, "<module>")
    assert ended.record.status == "failed"
    assert (ended.record.run.exception or "").startswith("LossScaleError: 'sgd' is wrapped")


def assert_place(message: str, text: str, function: str) -> None:
    (line,) = [number for number, code in enumerate(text.splitlines(), start=1) if code.endswith("# here")]
    code = text.splitlines()[line - 1].strip()
    assert message.endswith(f"train.py:{line}, in {function}: {code}\n")


def test_a_script_that_knows_mixte_gets_its_errors_as_exceptions(run: Run) -> None:
    script = """
        import mixte
        try:
            mixte.Policy.named("mixed_flaot16")
        except mixte.PolicyError as error:
            print("caught", type(error).__name__)
        """
    ended = run(dedented(script))
    assert (ended.returncode, ended.stdout) == (0, "caught PolicyError\n")


def dedented(script: str) -> str:
    return dedent(script).lstrip()

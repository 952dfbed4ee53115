"""Recording adds no wait for the device to a step: counted, not timed."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .conftest import Run

STEPS = 300

# Counts, from within, how often each step of `fit` brings something from the device for our sake, in which thread.
SCRIPT = f"""
    import collections, json, threading
    import keras
    import numpy as np
    import mixte.keras._sampling as sampling

    reads, step = collections.Counter(), [0]
    original = sampling.to_host
    def to_host(tensor):
        training = threading.current_thread() is threading.main_thread()
        reads[("training" if training else "beside", step[0])] += 1
        return original(tensor)

    class Steps(keras.callbacks.Callback):
        async_safe = True
        def on_train_batch_begin(self, batch, logs=None):
            step[0] = batch + 1
        def on_epoch_end(self, epoch, logs=None):
            step[0] = "end of epoch"

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones(({STEPS}, 4), "float32")
    step[0] = "beginning"
    sampling.to_host = to_host
    model.fit(x, x[:, :1], batch_size=1, verbose=0, callbacks=[Steps()])
    where = lambda thread: [at for name, at in reads if name == thread]
    print(json.dumps({{"training": where("training"), "beside": where("beside"), "reads": sum(reads.values())}}))
    """


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_hardly_a_step_of_the_training_thread_reads_from_the_device(run: Run, backend: str) -> None:
    script = dedent(SCRIPT).lstrip()
    ended = run(script, "--policy", "mixed_float16", "--backend", backend, "--quiet")
    assert ended.returncode == 0, ended.stderr
    seen = json.loads(ended.stdout)
    assert len(ended.record.steps) == STEPS
    assert seen["reads"] >= 2 * STEPS  # every step's state was read: two small vectors each
    steps_that_read = {at for at in seen["training"] if isinstance(at, int)}
    if (
        backend == "tensorflow"
    ):  # there it is read where Keras itself has just waited, every 50 steps or half second
        assert len(steps_that_read) <= STEPS / 50 + 2 * ended.record.states[-1].time_s
    else:
        assert steps_that_read == set()

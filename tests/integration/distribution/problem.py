"""The training that every script here makes: its data, and what is written of it at the end. Knows nothing of mixte."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

STEPS = 12
BATCH = 8
OVERFLOWS = (2, 3, 9)  # steps, counted from 0
SAMPLE = 6  # in the second half of the batch, which is the second replica's
DIED = 9  # the exit code of a process that the test lets die
LEARNING_RATE = 2.0**-4


def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one global batch. An overflow is a feature beyond float16, and in float32 beyond that."""
    rng = np.random.default_rng(step)
    x = rng.normal(size=(BATCH, 3)).astype("float32")
    y = x[:, 1:2] * 0.5 + 0.25
    if step in OVERFLOWS:
        x[SAMPLE, 0] = np.inf
    return x, y


def share(step: int, replica: int, replicas: int) -> tuple[np.ndarray, np.ndarray]:
    """Return one replica's part of the global batch."""
    size = BATCH // replicas
    x, y = batch(step)
    return x[replica * size : (replica + 1) * size], y[replica * size : (replica + 1) * size]


def model(keras):
    return keras.Sequential(
        [keras.layers.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)]
    )


def optimizer(keras):
    return keras.optimizers.SGD(LEARNING_RATE, momentum=0.5)


def die_at(step: int, replica: int) -> None:
    """End this process at once, as the kernel does when memory runs out, if the test asks for it."""
    if os.environ.get("DIE") == f"{replica}:{step}":
        os._exit(DIED)


def finish(path: str, trained, losses) -> None:
    """Write what came out: the losses, the weights, and the state of what scales the loss."""
    state = trained.optimizer.read_state()
    result = {
        "losses": [float(loss) for loss in losses],
        "weights": [weight.tolist() for weight in trained.get_weights()],
        "counters": state.counters,
        "history": [[step, scale] for step, scale in state.history],
        "scale": state.scale,
    }
    Path(path).write_text(json.dumps(result))

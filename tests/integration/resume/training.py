"""A training that is killed at a step, and goes on when it is started again: as a script of a user would.

    python training.py FOLDER EPOCHS [STEP]

It backs up to FOLDER/backup after each epoch. After STEP steps, counted from the first start, it kills itself as the
system would (SIGKILL). At the end it writes weights, the optimizer's variables and the scaler's state to FOLDER.
"""

import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
from keras import layers

import mixte.keras as mk

BATCH, STEPS_PER_EPOCH = 4, 5
# A scale that is no power of two, and moves at every step: weights are rounded differently if it is lost.
LAW = "log2:initial=1000,increment=0.3"


def data():
    rng = np.random.default_rng(11)
    x = rng.normal(size=(BATCH * STEPS_PER_EPOCH, 6)).astype("float32")
    x[9, 0] = 1e6  # beyond float16: in every epoch one step is skipped
    return x, np.tanh(x[:, :3] * x[:, 3:])


def model():
    keras.utils.set_random_seed(4)
    with mk.use("mixed_float16"):
        built = keras.Sequential(
            [
                layers.Input((6,)),
                layers.Dense(16, activation="tanh"),
                layers.BatchNormalization(),
                layers.Dense(3),
            ]
        )
    adam = keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)
    built.compile(mk.LossScaleOptimizer(adam, LAW), loss="mse")
    return built


class KillAt(keras.callbacks.Callback):
    """Kills the process after a step."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._step = step
        self._epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self._epoch * STEPS_PER_EPOCH + batch + 1 == self._step:
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: Path, epochs: int, kill_at: int | None) -> None:
    x, y = data()
    trained = model()
    # With the backup before the last: the system may kill while one is written.
    callbacks = [keras.callbacks.BackupAndRestore(folder / "backup", double_checkpoint=True)]
    if kill_at is not None:
        callbacks.append(KillAt(kill_at))
    trained.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    variables = [*trained.weights, *trained.optimizer.variables]
    np.savez(folder / "end.npz", *[keras.ops.convert_to_numpy(variable.value) for variable in variables])
    state = asdict(trained.optimizer.read_state())
    (folder / "end.json").write_text(json.dumps(state), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None)

"""However a run is ended from outside, what it has logged can be read."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

import mixte
from mixte.records import Record, read_record, summarise

from .conftest import LIMIT_S, MIXTE, environment

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS_PER_EPOCH = 8
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)

# Trains for ever, and says so in the middle of its third epoch.
SCRIPT = f"""
    import keras
    import numpy as np

    class Told(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            if self.epoch == 2 and batch == 3:
                print("training", flush=True)
        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.ones(({STEPS_PER_EPOCH}, 4), "float32")
    model.fit(x, x[:, :1], batch_size=1, epochs=10**9, verbose=0, callbacks=[Told()])
    """


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[signal.Signals, tuple[int, str, Record]]]:
    """One run for each signal, started together, each ended while it trains."""
    folders: dict[signal.Signals, Path] = {number: tmp_path_factory.mktemp(number.name) for number in SIGNALS}
    processes: dict[signal.Signals, subprocess.Popen[str]] = {}
    for number, folder in folders.items():
        (folder / "train.py").write_text(dedent(SCRIPT).lstrip())
        processes[number] = subprocess.Popen(
            (*MIXTE, "--policy", "mixed_float16", "--record", "run", "train.py"),
            cwd=folder,
            env=environment({"KERAS_BACKEND": "jax"}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    results: dict[signal.Signals, tuple[int, str, Record]] = {}
    try:
        for number, process in processes.items():
            assert process.stdout is not None
            assert process.stdout.readline() == "training\n"
            process.send_signal(number)
            _, errors = process.communicate(timeout=LIMIT_S)
            results[number] = process.returncode, errors, read_record(folders[number] / "run")
        yield results
    finally:
        for process in processes.values():
            process.kill()
            process.communicate()


@pytest.mark.parametrize("number", SIGNALS, ids=[number.name for number in SIGNALS])
def test_the_process_dies_of_the_signal_and_its_steps_can_be_read(
    ended: dict[signal.Signals, tuple[int, str, Record]], number: signal.Signals
) -> None:
    code, _, record = ended[number]
    assert code == -number
    assert record.status == ("interrupted" if number is signal.SIGINT else "killed")
    assert len(record.steps) >= 2 * STEPS_PER_EPOCH  # at the end of an epoch everything is written
    assert [step.step for step in record.steps] == list(range(1, len(record.steps) + 1))
    assert record.unreadable_lines == 0
    (name,) = [optimizer.name for optimizer in record.run.optimizers]
    assert record.states[-1].optimizers[name].steps == record.states[-1].step
    summary = summarise(record)
    assert summary.steps == len(record.steps)
    assert summary.optimizers[name].skipped_later == 0


def test_an_interrupted_run_shows_the_scripts_frames_and_its_summary(
    ended: dict[signal.Signals, tuple[int, str, Record]],
) -> None:
    _, errors, record = ended[signal.SIGINT]
    assert "KeyboardInterrupt\nmixte: train.py was interrupted after " in errors
    assert "Traceback (most recent call last):\n  File " in errors
    shown = errors.partition("Traceback")[2].partition("KeyboardInterrupt")[0]
    assert str(Path(mixte.__file__).parent) not in shown
    assert record.run.exception == "KeyboardInterrupt"
    assert record.run.summary is not None

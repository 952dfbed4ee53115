"""What recording costs: a step of ``fit`` under ``mixte run`` beside the same step under plain ``python``.

The worst case on purpose: a model so small that a step is nearly all overhead. Each pair of runs is alternated in
time. The script times itself, by the clock of its own epochs: whole epochs after the first, which compiles, so
that what recording does in other threads, and at the end of an epoch, counts too.

    python benchmarks/recording.py [--backends jax,torch] [--pairs 3] [--epochs 12]
"""

import argparse
import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = 200
SCRIPT = f"""
import json, sys, time
import keras
import numpy as np

class Epochs(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.begun, self.times = None, []
    def on_epoch_begin(self, epoch, logs=None):
        now = time.perf_counter()
        if epoch > 1:
            self.times.append(now - self.begun)
        self.begun = now

optimizer = keras.optimizers.Adam(1e-3)
if sys.argv[1] == "scaled":
    import mixte.keras
    optimizer = mixte.keras.LossScaleOptimizer(optimizer)
layers = [keras.layers.Dense(32, activation="relu") for _ in range(3)]
model = keras.Sequential([keras.Input((32,)), *layers, keras.layers.Dense(1)])
model.compile(optimizer, loss="mse")
x = np.ones(({STEPS} * 8, 32), "float32")
epochs = Epochs()
model.fit(x, x[:, :1], batch_size=8, epochs=int(sys.argv[2]), verbose=0, callbacks=[epochs])
print(json.dumps([1e6 * seconds / {STEPS} for seconds in epochs.times]))
"""
COMMANDS = {"python": (), "mixte run": ("-m", "mixte", "run", "--quiet")}


def step_times_us(folder, backend, kind, command, epochs):
    """Run the script once; return the mean step time of each epoch, in microseconds."""
    ended = subprocess.run(
        [sys.executable, *COMMANDS[command], "train.py", kind, str(epochs)],
        cwd=folder,
        env=os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    return json.loads(ended.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backends", default="tensorflow,jax,torch")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=12)
    arguments = parser.parse_args()
    versions = [f"{name} {importlib.metadata.version(name)}" for name in ("keras", "jax", "torch")]
    print(f"{os.cpu_count()} cores, {', '.join(versions)}; {arguments.pairs} pairs, {STEPS} steps an epoch")
    print(f"{'backend':<11}{'optimizer':<11}{'python':>10}{'mixte run':>11}{'added':>10}   median us a step")
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "train.py").write_text(SCRIPT)
        for backend in arguments.backends.split(","):
            for kind in ("plain", "scaled"):
                times = {command: [] for command in COMMANDS}
                for pair in range(arguments.pairs):
                    for command in list(COMMANDS)[:: 1 if pair % 2 == 0 else -1]:
                        times[command] += step_times_us(name, backend, kind, command, arguments.epochs)
                plain, ours = (statistics.median(times[command]) for command in COMMANDS)
                print(f"{backend:<11}{kind:<11}{plain:>10.0f}{ours:>11.0f}{ours - plain:>+10.0f}", flush=True)


if __name__ == "__main__":
    main()

"""What emulation costs: step time in float32, emulated float16, bfloat16 and float8, and native float16.

Three models per backend: a convolutional network, a multilayer perceptron and a small transformer. The variants take
turns, step by step, in one process, so that a busy machine slows all of them alike; ratios are medians of the paired
ratios to float32. Native float16 is slow on a processor, and takes fewer steps.

    python benchmarks/emulation.py [--backend tensorflow jax torch] [--rounds 15] [--native-rounds 2]
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

BACKENDS = ("tensorflow", "jax", "torch")
VARIANTS = {
    "float32": None,
    "emulated float16": ("mixed_float16", "volta"),
    "emulated bfloat16": ("mixed_bfloat16", "ampere"),
    "emulated float8": ("float8", "hopper"),
    "native float16": ("mixed_float16", None),
}
LIMITS = {"tensorflow": 1.3, "jax": 1.3, "torch": 1.5}


def cnn(keras):
    layers = keras.layers
    return (32, 32, 3), [
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, padding="same"),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
    ]


def mlp(keras):
    return (512,), [keras.layers.Dense(1024, activation="relu") for _ in range(3)]


def transformer(keras):
    layers = keras.layers

    class Block(layers.Layer):
        def __init__(self):
            super().__init__()
            self.norms = [layers.LayerNormalization(), layers.LayerNormalization()]
            self.attention = layers.MultiHeadAttention(4, 32)
            self.wide, self.narrow = layers.Dense(512, activation="gelu"), layers.Dense(128)

        def call(self, x):
            y = self.norms[0](x)
            x = x + self.attention(y, y)
            return x + self.narrow(self.wide(self.norms[1](x)))

    return (32, 128), [Block(), Block(), layers.GlobalAveragePooling1D()]


MODELS = {"cnn": (cnn, 32), "mlp": (mlp, 128), "transformer": (transformer, 32)}


def prepare(name, variant):
    """Return a function that takes one training step and waits for it."""
    import keras
    import numpy as np

    import mixte.keras

    build, batch = MODELS[name]
    keras.utils.set_random_seed(0)
    shape, hidden = build(keras)
    model = keras.Sequential([keras.Input(shape), *hidden, keras.layers.Dense(10)])
    match VARIANTS[variant]:
        case (policy, None):
            mixte.keras.apply(model, policy)
        case (policy, arch):
            mixte.keras.emulate(model, policy, arch=arch)
    # No loss scaling in any of them: only the arithmetic differs.
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss, auto_scale_loss=False)
    random = np.random.default_rng(0)
    x = random.standard_normal((batch, *shape)).astype("float32")
    y = random.integers(0, 10, batch)

    def step():
        start = time.perf_counter()
        float(model.train_on_batch(x, y))
        return time.perf_counter() - start

    return step


def measure(arguments):
    """Measure one backend in this process and print a line of JSON per model."""
    for name in MODELS:
        steps, failed = {}, {}
        for variant in VARIANTS:
            try:
                steps[variant] = prepare(name, variant)
                for _ in range(1 if variant == "native float16" else 4):  # compiles, and warms caches
                    steps[variant]()
            except Exception as error:  # noqa: BLE001 - a backend may lack native float16 in any way
                steps.pop(variant, None)
                failed[variant] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        times = {variant: [] for variant in steps}
        for turn in range(arguments.rounds):
            for variant, step in steps.items():
                if variant != "native float16" or turn < arguments.native_rounds:
                    times[variant].append(step())
        print(json.dumps({"model": name, "seconds": times, "failed": failed}), flush=True)


def report(backend, line):
    found = json.loads(line)
    base = found["seconds"]["float32"]
    for variant, seconds in found["seconds"].items():
        ratios = [a / b for a, b in zip(seconds, base, strict=False)]
        ratio = statistics.median(ratios)
        verdict = ""
        if variant == "emulated float16":
            verdict = f"  (at most {LIMITS[backend]}: {'yes' if ratio <= LIMITS[backend] else 'NO'})"
        print(
            f"{backend:11} {found['model']:12} {variant:18} {statistics.median(seconds) * 1e3:9.1f} ms "
            f"{ratio:6.2f} x{verdict}",
            flush=True,
        )
    for variant, why in found["failed"].items():
        print(f"{backend:11} {found['model']:12} {variant:18} {why[:70]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--rounds", type=int, default=15, help="timed steps of each variant")
    parser.add_argument("--native-rounds", type=int, default=2, help="timed steps of native float16")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return measure(arguments)
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    for backend in arguments.backend:
        rounds = ["--rounds", str(arguments.rounds), "--native-rounds", str(arguments.native_rounds)]
        command = [sys.executable, __file__, "--measure", *rounds]
        variables = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if line.startswith("{"):
                    report(backend, line)
        if process.returncode:
            return process.returncode
    return None


if __name__ == "__main__":
    sys.exit(main())

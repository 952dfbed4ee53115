"""What loss scaling costs: step time without it, with Keras's optimizer, and with mixte's, all counters on.

Two models per backend: one with 200 small variables, where the cost is in the number of operations, and one with a
few large ones, where it is in memory traffic. All run in float32, so that the arithmetic is the same and only the
scaling differs. The three optimizers take turns, epoch by epoch, in one process; the overheads are medians of
the paired ratios.

    python benchmarks/loss_scaling.py [--backend tensorflow jax torch] [--rounds 9] [--steps 40]
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
VARIANTS = ("none", "keras", "mixte")
BATCH_SIZE = 32


def dense_network(keras, *, features, layers, units, activation):
    """Return a network of dense layers with one output."""
    inputs = x = keras.Input((features,))
    for _ in range(layers):
        x = keras.layers.Dense(units, activation=activation)(x)
    return keras.Model(inputs, keras.layers.Dense(1)(x))


MODELS = {
    "200 small variables": {"features": 16, "layers": 99, "units": 16, "activation": "tanh"},
    "8 large variables": {"features": 1024, "layers": 3, "units": 2048, "activation": "relu"},
}


def prepare(sizes, variant, arguments):
    """Return a compiled model with its data: as many batches as there are steps in a round."""
    import keras
    import numpy as np

    import mixte.keras

    adam = keras.optimizers.Adam(1e-4)
    optimizers = {"keras": keras.optimizers.LossScaleOptimizer, "mixte": mixte.keras.LossScaleOptimizer}
    keras.utils.set_random_seed(0)
    model = dense_network(keras, **sizes)
    model.compile(
        optimizers[variant](adam) if variant in optimizers else adam, "mse", jit_compile=arguments.jit
    )
    examples = BATCH_SIZE * arguments.steps
    random = np.random.default_rng(0)
    x = random.standard_normal((examples, sizes["features"])).astype("float32")
    return model, x, random.standard_normal((examples, 1)).astype("float32")


def measure(arguments):
    """Measure one backend in this process and print a line of JSON per model."""
    for name, sizes in MODELS.items():
        trainings = {variant: prepare(sizes, variant, arguments) for variant in VARIANTS}
        seconds = {variant: [] for variant in VARIANTS}
        for round_number in range(-1, arguments.rounds):  # the first round compiles
            for variant in VARIANTS if round_number % 2 else VARIANTS[::-1]:
                model, x, y = trainings[variant]
                start = time.perf_counter()
                model.fit(x, y, batch_size=BATCH_SIZE, shuffle=False, verbose=0)
                if round_number >= 0:
                    seconds[variant].append((time.perf_counter() - start) / arguments.steps)
        counters = trainings["mixte"][0].optimizer.read_state().counters
        if counters["steps"] != arguments.steps * (arguments.rounds + 1):
            message = f"the counters are wrong: {counters}"
            raise RuntimeError(message)
        print("RESULT" + json.dumps({"model": name, "seconds": seconds}), flush=True)


def overhead(seconds, variant):
    """Return the median over rounds of the paired overhead, in per cent."""
    pairs = zip(seconds[variant], seconds["none"], strict=True)
    return 100 * (statistics.median(ours / none for ours, none in pairs) - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=40, help="steps per round")
    parser.add_argument("--no-jit", dest="jit", action="store_const", const=False, default="auto")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        measure(arguments)
        return
    from importlib.metadata import version

    versions = {name: version(name) for name in ("keras", "tensorflow-cpu", "jax", "torch", "mixte")}
    print(f"Python {platform.python_version()}, {versions}, {os.cpu_count()} CPUs")
    print(f"{arguments.rounds} rounds of {arguments.steps} steps, jit_compile={arguments.jit}")
    print(f"{'backend':<11} {'model':<20} {'none':>9} {'Keras adds':>11} {'mixte adds':>11}")
    for backend in arguments.backend:
        options = [
            f"--rounds={arguments.rounds}",
            f"--steps={arguments.steps}",
            *([] if arguments.jit else ["--no-jit"]),
        ]
        child = subprocess.run(
            [sys.executable, __file__, "--inside", *options],
            env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        for line in child.stdout.splitlines():
            if line.startswith("RESULT"):
                result = json.loads(line.removeprefix("RESULT"))
                seconds = result["seconds"]
                none_ms = 1e3 * statistics.median(seconds["none"])
                row = f"{backend:<11} {result['model']:<20} {none_ms:>6.2f} ms"
                print(
                    row + "".join(f" {overhead(seconds, variant):>9.1f} %" for variant in VARIANTS[1:]),
                    flush=True,
                )


if __name__ == "__main__":
    main()

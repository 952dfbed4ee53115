"""``fit`` on one JAX device, or on two by keras.distribution.DataParallel: python jax_fit.py DEVICES RESULT."""

import os
import sys

devices = int(sys.argv[1])
os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
import keras  # noqa: E402 - after the backend is set up
import problem  # noqa: E402 - after the backend is set up
from precision import policies  # noqa: E402 - after the backend is set up

assert len(keras.distribution.list_devices()) == devices
if devices > 1:
    keras.distribution.set_distribution(keras.distribution.DataParallel())

for policy, path in policies(sys.argv[2]):
    keras.utils.set_random_seed(1)
    with policy:
        model = problem.model(keras)
        model.compile(problem.optimizer(keras), loss="mse")
    losses = []
    for step in range(problem.STEPS):
        x, y = problem.batch(step)
        history = model.fit(x, y, batch_size=problem.BATCH, shuffle=False, verbose=0)
        losses += history.history["loss"]
    problem.finish(path, model, losses)

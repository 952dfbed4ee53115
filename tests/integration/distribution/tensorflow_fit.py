"""``fit`` on one processor, or under MirroredStrategy on two: python tensorflow_fit.py REPLICAS RESULT."""

import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import problem
import tensorflow as tf
from precision import policies

replicas = int(sys.argv[1])
(processor,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * replicas)
strategy = tf.distribute.get_strategy()
if replicas > 1:
    strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])

for policy, path in policies(sys.argv[2]):
    keras.utils.set_random_seed(1)
    with strategy.scope(), policy:
        model = problem.model(keras)
        model.compile(problem.optimizer(keras), loss="mse")
    losses = []
    for step in range(problem.STEPS):
        x, y = problem.batch(step)
        history = model.fit(x, y, batch_size=problem.BATCH, shuffle=False, verbose=0)
        losses += history.history["loss"]
    problem.finish(path, model, losses)

"""A loop under MultiWorkerMirroredStrategy, one process a worker, as in TensorFlow's tutorial.

TF_CONFIG tells the workers of each other: python tensorflow_workers.py RESULT.
"""

import json
import os
import sys

os.environ["KERAS_BACKEND"] = "tensorflow"
import problem
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow's is used
import keras  # noqa: E402 - after the strategy is made
from precision import policies  # noqa: E402 - after the strategy is made

worker = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
workers = strategy.num_replicas_in_sync


def step_of(model):
    """Return a function that makes one step on all workers, and returns the loss of the global batch."""

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            errors = tf.square(tf.cast(model(x, training=True), tf.float32) - y)
            loss = tf.nn.compute_average_loss(tf.reduce_mean(errors, axis=1), global_batch_size=problem.BATCH)
            scaled = model.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        model.optimizer.apply(gradients, model.trainable_variables)
        return loss

    return tf.function(lambda x, y: strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None))


for policy, path in policies(sys.argv[1]):
    keras.utils.set_random_seed(1)
    with strategy.scope(), policy:
        model = problem.model(keras)
        model.compile(problem.optimizer(keras), loss="mse")
        model.optimizer.build(model.trainable_variables)
    train_step = step_of(model)
    losses = []
    for step in range(problem.STEPS):
        problem.die_at(step, worker)
        x, y = problem.share(step, worker, workers)
        losses.append(train_step(tf.constant(x), tf.constant(y)))
    problem.finish(path, model, losses)
if "DIE" in os.environ:
    problem.die_at(problem.STEPS, worker)
    train_step(tf.constant(x), tf.constant(y))  # with a worker less

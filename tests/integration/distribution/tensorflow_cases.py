"""Ways to update under MirroredStrategy, with the library, in loops: python tensorflow_cases.py REPLICAS RESULT."""

import json
import os
import sys
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
import keras
import numpy as np
import problem
import tensorflow as tf

import mixte.keras
from mixte import LossScaleError
from mixte.keras import LossScaleOptimizer, LossScaler

replicas = int(sys.argv[1])
(processor,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * replicas)
strategy = tf.distribute.MirroredStrategy([f"CPU:{index}" for index in range(replicas)])

LAW = "dynamic:initial=1024,growth_interval=2"


def sgd(**options):
    return keras.optimizers.SGD(problem.LEARNING_RATE, momentum=0.5, **options)


class Plain:
    """One optimizer, one ``apply``."""

    def __init__(self, model, law=LAW, **options):
        self.optimizer = LossScaleOptimizer(sgd(**options), law)
        self.optimizer.build(model.trainable_variables)

    def scale(self, loss):
        return self.optimizer.scale_loss(loss)

    def update(self, gradients, variables):
        self.optimizer.apply(gradients, variables)

    def state(self):
        return self.optimizer.read_state()


class ClippedByHand(Plain):
    """True gradients are clipped between ``unscale`` and ``apply_unscaled``."""

    def update(self, gradients, variables):
        clipped, _ = tf.clip_by_global_norm(self.optimizer.unscale(gradients), 0.25)
        self.optimizer.apply_unscaled(clipped, variables)


class Joint(Plain):
    """Two optimizers that share a scale, updated or skipped together."""

    def __init__(self, model):
        scaler = LossScaler(LAW)
        self.optimizer, self.other = (LossScaleOptimizer(sgd(), scaler) for _ in range(2))
        self.optimizer.build(model.trainable_variables[:2])
        self.other.build(model.trainable_variables[2:])

    def update(self, gradients, variables):
        updates = [
            (self.optimizer, gradients[:2], variables[:2]),
            (self.other, gradients[2:], variables[2:]),
        ]
        mixte.keras.apply_together(updates, skip="joint")


class ByLoss(Plain):
    """One plain optimizer, updated by a loss with a scale of its own."""

    def __init__(self, model):
        self.scaler = LossScaler(LAW)
        self.optimizer = sgd()
        self.optimizer.build(model.trainable_variables)

    def scale(self, loss):
        return self.scaler.scale_loss(loss)

    def update(self, gradients, variables):
        mixte.keras.apply_losses(self.optimizer, [(self.scaler, gradients)], variables)

    def state(self):
        return self.scaler.read()


def words_model(keras):
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((3,), dtype="int32"), layers.Embedding(5, 4), layers.Flatten(), layers.Dense(1)]
    )


def words(step):
    """Return integers, and targets of which one is so large that its squared error overflows: no loss is finite."""
    x, y = problem.batch(step)
    overflows = ~tf.math.is_finite(x).numpy().all(axis=1, keepdims=True)
    return (abs(x) * 2).clip(0, 4).astype("int32"), y + overflows.astype("float32") * np.float32(1e38)


CASES = {
    "a compiled loop": {},
    "an eager loop": {"eager": True},
    "clipping by the optimizer": {"options": {"global_clipnorm": 0.25}},
    "clipping by hand": {"way": ClippedByHand},
    "two optimizers": {"way": Joint},
    "a scaler for each loss": {"way": ByLoss},
    "a moving average": {"options": {"use_ema": True}},
    "sparse gradients": {"build": words_model, "data": words},
    "a law of the largest gradient": {"options": {"law": "logmax"}},
    "a law of the underflow": {"options": {"law": "underflow:growth_interval=2"}},
}


def train(*, way=Plain, build=problem.model, data=problem.batch, eager=False, options=None):
    keras.utils.set_random_seed(1)
    with strategy.scope():
        model = build(keras)
        trained = way(model, **(options or {}))

    def replica_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(model(x, training=True) - y)) / problem.BATCH
            scaled = trained.scale(loss)
        trained.update(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return loss

    def train_step(x, y):
        return strategy.reduce("SUM", strategy.run(replica_step, args=(x, y)), axis=None)

    train_step = train_step if eager else tf.function(train_step)
    losses = [float(train_step(*on_replicas(data(step)))) for step in range(problem.STEPS)]
    state = trained.state()
    copies = [strategy.experimental_local_results(variable.value) for variable in model.variables]
    return {
        "losses": losses,
        "weights": [[copy.numpy().tolist() for copy in each] for each in copies],
        "counters": state.counters,
        "history": [[step, scale] for step, scale in state.history],
        "scale": state.scale,
    }


def on_replicas(batch):
    size = problem.BATCH // replicas

    def part(context, whole):
        start = context.replica_id_in_sync_group * size
        return tf.constant(whole[start : start + size])

    return tuple(
        strategy.experimental_distribute_values_from_function(lambda context, whole=whole: part(context, whole))
        for whole in batch
    )


def refusal():
    """Return what is said of a scale that is not the strategy's."""
    outside = LossScaler(LAW)
    with strategy.scope():
        model = problem.model(keras)
        trained = Plain(model, law=outside)
        trained.scale(1.0)
        gradients = [tf.zeros(variable.shape) for variable in model.trainable_variables]
        try:
            strategy.run(lambda: trained.update(gradients, model.trainable_variables))
        except LossScaleError as error:
            return str(error)
    return None


results = {name: train(**case) for name, case in CASES.items()}
Path(sys.argv[2]).write_text(json.dumps({"cases": results, "refusal": refusal()}))

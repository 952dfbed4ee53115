"""Every way to train with Keras, one after the other: what ``mixte run`` is to record. Knows nothing of mixte.

Prints a JSON object on the last line: what the script itself saw.
"""

import hashlib
import json
import os
import sys

BACKEND = sys.argv[1]
os.environ["KERAS_BACKEND"] = BACKEND

import keras  # noqa: E402 - not before the backend is set
import numpy as np  # noqa: E402

SEEN = {}


def digest(model):
    return hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest()


def chain(name):
    """Two layers that hand a number on: the first computes in 16 bits, the last gives it out."""
    return keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name=f"{name}_inner"),
            keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name=f"{name}_last"),
        ],
        name=name,
    )


def forced_overflow(distances):
    """One step for each distance between prediction and target: the gradient is twice the distance."""
    model = chain("overflow")
    model.compile(keras.optimizers.SGD(2.0**-20, name="overflow"), loss="mse")
    digests = [digest(model)]
    x = np.ones((1, 1), "float32")
    for distance in distances:
        model.train_on_batch(x, x - np.float32(distance))
        digests.append(digest(model))
    SEEN["digests"] = digests


def data(count):
    rng = np.random.default_rng(count)
    return rng.normal(size=(count, 1)).astype("float32"), rng.normal(size=(count, 1)).astype("float32")


class Counter(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.batches = 0

    def on_train_batch_end(self, batch, logs=None):
        self.batches += 1


def fits():
    """Callbacks in every form; a validation; a second fit."""
    model = chain("fits")
    model.compile(keras.optimizers.SGD(0.01, name="fits"), loss="mse", metrics=["mae"])
    x, y = data(40)
    counters = [Counter(), Counter(), Counter()]
    model.fit(x, y, 8, 2, 0, [counters[0]], validation_data=(x, y))  # by position
    model.fit(x, y, batch_size=8, verbose=0, callbacks=counters[1])
    given = keras.callbacks.CallbackList([counters[2]], model=model)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=given)
    SEEN["batches"] = [counter.batches for counter in counters]
    SEEN["callbacks_left"] = len(given.callbacks)
    SEEN["evaluated"] = model.evaluate(x, y, verbose=0, return_dict=True)["mae"]


def several_steps_at_once():
    model = chain("several")
    model.compile(keras.optimizers.SGD(0.01, name="several"), loss="mse", steps_per_execution=4)
    x, y = data(10)
    model.fit(x, y, batch_size=1, epochs=2, verbose=0)


def generator_without_length():
    def batches():
        for _ in range(3):
            yield data(4)

    model = chain("generator")
    model.compile(keras.optimizers.SGD(0.01, name="generator"), loss="mse")
    model.fit(batches(), verbose=0)


def eager_loop():
    """Three updates by hand, the second with a gradient that is not finite."""
    model = chain("eager")
    optimizer = keras.optimizers.SGD(0.01, name="eager")
    model.compile(optimizer, loss="mse")
    optimizer = model.optimizer
    x, y = data(4)
    for step in range(3):
        target = y * np.float32("inf") if step == 1 else y
        if BACKEND == "tensorflow":
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = keras.ops.mean(keras.ops.square(model(x) - target))
                scaled = optimizer.scale_loss(loss)
            optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        elif BACKEND == "torch":
            import torch

            model.zero_grad()
            loss = keras.ops.mean(keras.ops.square(model(x) - torch.tensor(target)))
            optimizer.scale_loss(loss).backward()
            with torch.no_grad():
                gradients = [v.value.grad for v in model.trainable_variables]
                optimizer.apply(gradients, model.trainable_variables)
        else:
            import jax

            def scaled_loss(trainable, target=target):
                prediction, _ = model.stateless_call(trainable, [], x)
                return optimizer.scale_loss(keras.ops.mean(keras.ops.square(prediction - target)))

            trainable = [v.value for v in model.trainable_variables]
            gradients = jax.grad(scaled_loss)(trainable)
            optimizer.apply(gradients, model.trainable_variables)


def compiled_loop():
    """Five updates in a function that the backend compiles."""
    if BACKEND == "torch":
        return
    model = chain("compiled")
    model.compile(keras.optimizers.SGD(0.01, name="compiled"), loss="mse")
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    x, y = data(4)
    if BACKEND == "tensorflow":
        import tensorflow as tf

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                scaled = optimizer.scale_loss(tf.reduce_mean((model(x) - y) ** 2))
            optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)

        for _ in range(5):
            step(x, y)
        return
    import jax

    def scaled_loss(trainable, state, x, y):
        prediction, _ = model.stateless_call(trainable, [], x)
        loss = keras.ops.mean(keras.ops.square(prediction - y))
        with keras.StatelessScope(state_mapping=list(zip(optimizer.variables, state, strict=True))):
            return optimizer.scale_loss(loss)

    @jax.jit
    def step(trainable, state, x, y):
        gradients = jax.grad(scaled_loss)(trainable, state, x, y)
        return optimizer.stateless_apply(state, gradients, trainable)

    trainable = [v.value for v in model.trainable_variables]
    state = [v.value for v in optimizer.variables]
    for _ in range(5):
        trainable, state = step(trainable, state, x, y)
    if "write-back" in sys.argv:
        for variable, value in zip(optimizer.variables, state, strict=True):
            variable.assign(value)


forced_overflow(json.loads(sys.argv[2]))
fits()
if BACKEND != "torch":  # Keras refuses it there
    several_steps_at_once()
generator_without_length()
eager_loop()
compiled_loop()
print(json.dumps(SEEN))  # noqa: T201 - a script, not a test

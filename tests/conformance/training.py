"""The same small training, whose gradients overflow in known steps, in every kind of loop that a backend has."""

import keras
import numpy as np
from keras import layers, ops

import mixte.keras as mk
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale

from .expected import GROWTH_INTERVAL, INITIAL_SCALE, OVERFLOWS
from .steps import compiled, host

BATCH = 4


def law():
    return DynamicScale(INITIAL_SCALE, growth_interval=GROWTH_INTERVAL)


def data():
    """Return x and y for as many batches as there are steps. An overflow is a feature that float16 cannot hold."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(len(OVERFLOWS) * BATCH, 3)).astype("float32")
    x[np.flatnonzero(OVERFLOWS) * BATCH + 1, 0] = 1e6
    return x, x[:, 1:2] * 0.5 + 0.1


def batches():
    x, y = data()
    return [(x[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(x), BATCH)]


class OwnStep(keras.Model):
    """A model whose ``train_step`` is written by hand, as in Keras's guides, with ``scale_loss``."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(4, activation="tanh")
        self.head = layers.Dense(1)

    def call(self, x):
        return self.head(self.hidden(x))

    def train_step(self, *arguments):
        step = {"tensorflow": _own_step_tensorflow, "jax": _own_step_jax, "torch": _own_step_torch}[BACKEND]
        return step(self, *arguments)


def _own_step_tensorflow(model, data):
    import tensorflow as tf

    x, y = data
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x))
        scaled = model.optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    model.optimizer.apply(gradients, model.trainable_variables)
    return {"loss": loss}


def _own_step_jax(model, state, data):
    import jax

    trainable, non_trainable, optimizer_variables, metrics = state
    x, y = data

    def loss_function(values):
        y_pred, updated = model.stateless_call(values, non_trainable, x)
        loss = model.compute_loss(x, y, y_pred)
        return model.optimizer.stateless_scale_loss(optimizer_variables, loss), (loss, updated)

    (_, (loss, non_trainable)), gradients = jax.value_and_grad(loss_function, has_aux=True)(trainable)
    trainable, optimizer_variables = model.optimizer.stateless_apply(optimizer_variables, gradients, trainable)
    return {"loss": loss}, (trainable, non_trainable, optimizer_variables, metrics)


def _own_step_torch(model, data):
    x, y = data
    model.zero_grad()
    loss = model.compute_loss(x, y, model(x))
    model.optimizer.scale_loss(loss).backward()
    gradients = [variable.value.grad for variable in model.trainable_weights]
    model.optimizer.apply(gradients, model.trainable_weights)
    return {"loss": loss}


def functional_model():
    return keras.Sequential([layers.Input((3,)), layers.Dense(4, activation="tanh"), layers.Dense(1)])


def make(build=functional_model):
    """Return a built model in mixed_float16, and an optimizer for it."""
    with mk.use("mixed_float16"):
        model = build()
        model(np.zeros((BATCH, 3), "float32"))
    return model, mk.LossScaleOptimizer(keras.optimizers.Adam(0.05), law())


class Watch(keras.callbacks.Callback):
    """Takes note of the state after every batch of ``fit``."""

    def __init__(self, note):
        super().__init__()
        self._note = note

    def on_train_batch_end(self, batch, logs=None):
        if hasattr(self.model, "jax_state_sync"):
            self.model.jax_state_sync()
        self._note(None)


def fit(note, *, build=functional_model, **compile_options):
    model, optimizer = make(build)
    model.compile(optimizer, loss="mse", **compile_options)
    note.begin(model, optimizer)
    x, y = data()
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[Watch(note)])


def bare(note, *, mode):
    """Write the loop by hand, with the stateful calls."""
    model, optimizer = make()
    optimizer.build(model.trainable_variables)
    note.begin(model, optimizer)
    gradients_of = {"tensorflow": _gradients_tensorflow, "jax": _gradients_jax, "torch": _gradients_torch}[
        BACKEND
    ]

    def step(x, y):
        gradients = gradients_of(model, optimizer, x, y)
        return optimizer.apply(gradients, model.trainable_variables)

    run = compiled(step, [*model.trainable_variables, *optimizer.variables], mode)
    for x, y in batches():
        note(bool(host(run(ops.convert_to_tensor(x), ops.convert_to_tensor(y)))))


def mse(y, y_pred):
    return ops.mean(ops.square(y - y_pred))


def _gradients_tensorflow(model, optimizer, x, y):
    import tensorflow as tf

    with tf.GradientTape() as tape:
        scaled = optimizer.scale_loss(mse(y, model(x)))
    return tape.gradient(scaled, model.trainable_variables)


def _gradients_jax(model, optimizer, x, y):
    import jax

    def scaled(values):
        y_pred, _ = model.stateless_call(values, [], x)
        return optimizer.scale_loss(mse(y, y_pred))

    return jax.grad(scaled)([variable.value for variable in model.trainable_variables])


def _gradients_torch(model, optimizer, x, y):
    model.zero_grad()
    optimizer.scale_loss(mse(y, model(x))).backward()
    return [variable.value.grad for variable in model.trainable_variables]


def stateless(note):
    """Write the loop by hand for JAX, with ``stateless_minimize``."""
    import jax

    model, optimizer = make()
    optimizer.build(model.trainable_variables)
    note.begin(model, optimizer)

    def loss_function(trainable, non_trainable, x, y):
        y_pred, non_trainable = model.stateless_call(trainable, non_trainable, x)
        return mse(y, y_pred), non_trainable

    @jax.jit
    def step(state, x, y):
        trainable, non_trainable, optimizer_variables = state
        (_, non_trainable), trainable, optimizer_variables, applied = mk.stateless_minimize(
            optimizer, loss_function, trainable, optimizer_variables, non_trainable, x, y, has_aux=True
        )
        return applied, (trainable, non_trainable, optimizer_variables)

    groups = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    state = tuple([variable.value for variable in group] for group in groups)
    for x, y in batches():
        applied, state = step(state, x, y)
        for group, values in zip(groups, state, strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        note(bool(applied))


LOOPS = {
    "tensorflow": {
        "fit, eager": lambda note: fit(note, run_eagerly=True),
        "fit, graph": lambda note: fit(note, jit_compile=False),
        "fit, xla": lambda note: fit(note, jit_compile=True),
        "own train_step, graph": lambda note: fit(note, build=OwnStep, jit_compile=False),
        "own train_step, xla": lambda note: fit(note, build=OwnStep, jit_compile=True),
        "bare, eager": lambda note: bare(note, mode="eager"),
        "bare, graph": lambda note: bare(note, mode="graph"),
        "bare, xla": lambda note: bare(note, mode="xla"),
    },
    "jax": {
        "fit, jit": fit,
        "own train_step, jit": lambda note: fit(note, build=OwnStep),
        "bare, eager": lambda note: bare(note, mode="eager"),
        "bare, stateless_minimize": stateless,
    },
    "torch": {
        "fit": fit,
        "own train_step": lambda note: fit(note, build=OwnStep),
        "bare": lambda note: bare(note, mode="eager"),
    },
}[BACKEND]
"""Every kind of loop, by name. Each calls ``note.begin(model, optimizer)`` once, and ``note(applied)`` per step."""

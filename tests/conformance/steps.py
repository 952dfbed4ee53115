"""Take optimizer steps on given gradients, in every way that the backend offers."""

import keras
import numpy as np

from mixte.keras import LossScaleOptimizer
from mixte.keras._framework import BACKEND

MODES = {"tensorflow": ("eager", "graph", "xla"), "jax": ("eager", "jit"), "torch": ("eager",)}[BACKEND]
"""The ways to run a step: ``graph`` is a tf.function, ``xla`` one with ``jit_compile=True``."""

EAGER_AND_FASTEST = (MODES[0], MODES[-1]) if len(MODES) > 1 else MODES
"""The two that differ most; where compiling each test three times would take too long."""


def host(tensor):
    value = getattr(tensor, "value", tensor)
    if BACKEND == "torch" and keras.ops.is_tensor(value):  # Keras's own way draws a warning from numpy
        return value.detach().cpu().numpy().copy()
    return np.array(keras.ops.convert_to_numpy(tensor))


class Steps:
    """Takes steps with one optimizer: with loss scaling, or without as an oracle. All state is in variables.

    Gradients are given unscaled, as arrays or None; they are scaled as the loss would be.
    """

    def __init__(self, optimizer, variables, mode="eager"):
        self.optimizer, self.variables = optimizer, list(variables)
        self._scales = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
        optimizer.build(self.variables)
        self._step = compiled(self._apply, [*self.variables, *optimizer.variables], mode)

    def step(self, *gradients):
        """Take one step; return whether it was applied (None where the optimizer does not say)."""
        given = tuple(
            None if g is None else keras.ops.convert_to_tensor(g, _dtype(g, v))
            for g, v in zip(gradients, self.variables, strict=True)
        )
        applied = self._step(given)
        return None if applied is None else bool(host(applied))

    def values(self):
        return [host(variable) for variable in self.variables]

    def inner_values(self):
        """Return the values of the state that is not loss scaling."""
        inner = self.optimizer.inner_optimizer if self._scales else self.optimizer
        return [host(variable) for variable in inner.variables]

    def _apply(self, gradients):
        scaled = (
            [None if g is None else self._scaled(g) for g in gradients] if self._scales else list(gradients)
        )
        return self.optimizer.apply(scaled, self.variables)

    def _scaled(self, gradient):
        if isinstance(self.optimizer, LossScaleOptimizer):
            return self.optimizer.scale_loss(gradient)
        return gradient * keras.ops.cast(self.optimizer.dynamic_scale, gradient.dtype)


def compiled(function, variables, mode):
    """Return a function of tensors that runs in a mode, and that changes no variables but the given ones."""
    if mode == "eager":
        return function
    if mode == "jit":
        return _compiled_by_jax(function, list(variables))
    import tensorflow as tf

    return tf.function(function, jit_compile=mode == "xla")


def _compiled_by_jax(function, mapped):
    import jax

    @jax.jit
    def on_values(values, *arguments):
        with keras.StatelessScope(state_mapping=list(zip(mapped, values, strict=True))) as scope:
            result = function(*arguments)
        return result, [scope.get_current_value(variable) for variable in mapped]

    def run(*arguments):
        result, values = on_values([variable.value for variable in mapped], *arguments)
        for variable, value in zip(mapped, values, strict=True):
            variable.assign(value)
        return result

    return run


def _dtype(gradient, variable):
    own = getattr(gradient, "dtype", None)
    return keras.backend.standardize_dtype(own) if own is not None else variable.dtype

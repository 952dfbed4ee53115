"""Put a guard into every way in which a script trains: ``fit``, ``train_on_batch``, and loops of its own.

On top of the recording, which tells the guard what became of the steps once it has read them. Here the guard sees
the batches, and raises in the thread that trains.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BACKEND, BaseOptimizer, keras
from mixte.keras._hooks import defining_class
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._ownership import scaled_by
from mixte.keras._recording import _with_callback
from mixte.keras._recording_loops import Inside
from mixte.keras._sampling import is_executing
from mixte.keras._scaler import LossScaler

if TYPE_CHECKING:
    from mixte.keras._guard import Guard


class CheckCallback(keras.callbacks.Callback):
    """Shows a guard the batches of a ``fit``, and lets it stop the training."""

    async_safe = True  # else Keras would wait for the device after every batch, because of us

    def __init__(self, guard: Guard) -> None:
        super().__init__()
        self._guard = guard
        self._trained: Any = None

    def set_model(self, model: Any) -> None:
        # Not `self.model` anywhere here: on JAX, that property writes the training's state back into the model.
        super().set_model(model)
        self._trained = model

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras's contract
        if self._trained.optimizer is not None:
            self._guard.optimizer_used(self._trained.optimizer)
        self._guard.note(lambda: self._guard.batches.watch_fit(self._trained))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._guard.check(self._trained)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._guard.check(self._trained)


def install_guarding(guard: Guard) -> None:
    """Patch Keras so that a guard watches every training of this process. Once, after ``install_recording``."""
    inside = Inside()
    _patch_fit(guard, inside)
    _patch_train_on_batch(guard, inside)
    _patch_model_call(guard, inside)
    _patch_init(guard)
    _patch_updates(guard, inside)


def _patch_fit(guard: Guard, inside: Inside) -> None:
    trainer = defining_class(keras.Model, "fit")
    original = trainer.fit

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            with (
                inside.entered(),
                _with_callback(original, self, args, kwargs, CheckCallback(guard)) as arguments,
            ):
                result = original(*arguments.args, **arguments.kwargs)
            guard.check(self)  # the last steps are read at the end of the last epoch
        finally:
            guard.batches.unwatch_fit(self)
        return result

    trainer.fit = fit


def _patch_train_on_batch(guard: Guard, inside: Inside) -> None:
    trainer = defining_class(keras.Model, "train_on_batch")
    original = trainer.train_on_batch

    @functools.wraps(original)
    def train_on_batch(self: Any, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any) -> Any:
        guard.check(self)
        guard.note(lambda: guard.batches.note_arrays(self, x, y, sample_weight))
        if self.optimizer is not None:
            guard.optimizer_used(self.optimizer)
        with inside.entered():
            return original(self, x, y, sample_weight, **kwargs)

    trainer.train_on_batch = train_on_batch


def _patch_model_call(guard: Guard, inside: Inside) -> None:
    """See what a loop of the script's own calls its models with."""
    call, stateless_call = keras.Model.__call__, keras.Model.stateless_call
    within = Inside()

    def note(model: Any, args: Any, kwargs: Any) -> None:
        if model.built and is_executing((args, kwargs)) and not _symbolic((args, kwargs)):
            inputs, named = keras.tree.map_structure(_apart, (args, kwargs))
            guard.batches.note_call(model, inputs, named)

    @functools.wraps(call)
    def noted_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if inside or within:
            return call(self, *args, **kwargs)
        with within.entered():
            result = call(self, *args, **kwargs)
        guard.note(lambda: note(self, args, kwargs))
        return result

    @functools.wraps(stateless_call)
    def noted_stateless_call(self: Any, trainable: Any, others: Any, *args: Any, **kwargs: Any) -> Any:
        if inside or within:
            return stateless_call(self, trainable, others, *args, **kwargs)
        with within.entered():
            result = stateless_call(self, trainable, others, *args, **kwargs)
        named = {name: value for name, value in kwargs.items() if name != "return_losses"}
        guard.note(lambda: note(self, args, named))
        return result

    keras.Model.__call__ = noted_call
    keras.Model.stateless_call = noted_stateless_call


def _symbolic(values: Any) -> bool:
    return any(isinstance(value, keras.KerasTensor) for value in keras.tree.flatten(values))


def _apart(value: Any) -> Any:
    """Return a tensor without what it was computed from, which would be kept alive with it."""
    return value.detach() if BACKEND == "torch" and hasattr(value, "detach") else value


def _patch_init(guard: Guard) -> None:
    original = LossScaleOptimizer.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        guard.optimizer_made(self)

    LossScaleOptimizer.__init__ = init


def _patch_updates(guard: Guard, inside: Inside) -> None:
    """Let the guard stop a loop of the script's own after an update, which was made or skipped as a whole."""
    update, apply = LossScaler.update, BaseOptimizer.apply
    theirs = keras.optimizers.LossScaleOptimizer
    scaled_apply = theirs.apply

    @functools.wraps(update)
    def checked_update(self: Any, observation: Any, **kwargs: Any) -> None:
        update(self, observation, **kwargs)
        if guard.alarmed and not inside and is_executing(observation.finite):
            guard.check()

    @functools.wraps(apply)
    def checked_apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        gradients = list(grads)
        result = apply(self, gradients, trainable_variables)
        if not inside and scaled_by(self) is None:
            if is_executing(gradients):
                guard.saw_plain_update(self)
                guard.check()
            else:
                guard.optimizer_used(self)
        return result

    @functools.wraps(scaled_apply)
    def checked_scaled_apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        gradients = list(grads)
        with inside.entered():  # the optimizer within has no other way here
            result = scaled_apply(self, gradients, trainable_variables)
        if guard.alarmed and not inside and is_executing(gradients):
            guard.check()
        return result

    LossScaler.update = checked_update
    BaseOptimizer.apply = checked_apply
    theirs.apply = checked_scaled_apply

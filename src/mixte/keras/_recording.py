"""Lead what happens in Keras to a recorder: ``fit``, ``evaluate``, ``train_on_batch``, and updates in loops."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BaseOptimizer, keras
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._sampling import is_executing

if TYPE_CHECKING:
    from collections.abc import Generator

    from mixte.keras._recorder import Recorder


class StepCallback(keras.callbacks.Callback):
    """Tells a recorder of every batch, epoch and evaluation of a ``fit``.

    A batch's results are handed over when it ends, which Keras may do in another thread. The scaler's state is
    copied when the next batch begins: that is called in the training thread, in order.
    """

    async_safe = True  # else Keras would wait for the device after every batch, because of us

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._first = 0

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras's contract
        self._recorder.training_begins(self.model)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._recorder.epoch = epoch
        self._first = self._recorder.steps

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._recorder.step_begins(self.model, step=self._first + batch + 1)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._recorder.step_ends(step=self._first + batch + 1, logs=logs or {})

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._recorder.epoch_ends(self.model, epoch=epoch, logs=logs or {})


class EvaluationCallback(keras.callbacks.Callback):
    """Tells a recorder of an evaluation outside ``fit``."""

    async_safe = True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def on_test_end(self, logs: Any = None) -> None:
        self._recorder.evaluated("test", logs or {})


class _Inside:
    """Whether Keras's own loops are running: what they update is recorded there."""

    def __init__(self) -> None:
        self._depth = 0

    @contextmanager
    def entered(self) -> Generator[None]:
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def __bool__(self) -> bool:
        return self._depth > 0


def install_recording(recorder: Recorder) -> None:
    """Patch Keras so that every training of this process is recorded. Once per process."""
    inside = _Inside()
    losses: dict[int, Any] = {}
    _patch_fit(recorder, inside)
    _patch_evaluate(recorder, inside)
    _patch_train_on_batch(recorder, inside)
    _patch_scale_loss(losses)
    for optimizer_class in (BaseOptimizer, LossScaleOptimizer):
        _patch_apply(optimizer_class, recorder, inside, losses)


def _with_callback(callbacks: Any, ours: Any) -> Any:
    if callbacks is None:
        return [ours]
    if isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks.append(ours)
        return callbacks
    return [*callbacks, ours] if isinstance(callbacks, (list, tuple)) else [callbacks, ours]


def _patch_fit(recorder: Recorder, inside: _Inside) -> None:
    original = keras.Model.fit

    @functools.wraps(original)
    def fit(self: Any, *args: Any, callbacks: Any = None, **kwargs: Any) -> Any:
        # `callbacks` is the sixth parameter of fit (x, y, batch_size, epochs, verbose, callbacks): few give it
        # by position.
        positional = 5
        if len(args) > positional:
            args, callbacks = (*args[:positional], *args[positional + 1 :]), args[positional]
            names = ("validation_split", "validation_data", "shuffle", "class_weight", "sample_weight")
            kwargs |= dict(zip(names, args[positional:], strict=False))
            args = args[:positional]
        with inside.entered():
            return original(self, *args, callbacks=_with_callback(callbacks, StepCallback(recorder)), **kwargs)

    keras.Model.fit = fit


def _patch_evaluate(recorder: Recorder, inside: _Inside) -> None:
    original = keras.Model.evaluate

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, callbacks: Any = None, **kwargs: Any) -> Any:
        if not inside and len(args) <= 6:  # as above; a list by position is left alone, and not recorded
            callbacks = _with_callback(callbacks, EvaluationCallback(recorder))
        if callbacks is not None:
            kwargs["callbacks"] = callbacks
        return original(self, *args, **kwargs)

    keras.Model.evaluate = evaluate


def _patch_train_on_batch(recorder: Recorder, inside: _Inside) -> None:
    original = keras.Model.train_on_batch

    @functools.wraps(original)
    def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        step = recorder.batch_begins(self)
        with inside.entered():
            result = original(self, *args, **kwargs)
        names = () if isinstance(result, dict) else self.metrics_names
        values: dict[str, Any] = (
            dict(result) if isinstance(result, dict) else dict(zip(names, _as_list(result), strict=False))
        )
        recorder.batch_ends(self, step=step, logs=values)
        return result

    keras.Model.train_on_batch = train_on_batch


def _as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _patch_scale_loss(losses: dict[int, Any]) -> None:
    """Remember the loss that a loop scales: it is the step's loss, which no one else tells us."""
    original = LossScaleOptimizer.scale_loss

    @functools.wraps(original)
    def scale_loss(self: Any, loss: Any) -> Any:
        if is_executing(loss):
            losses[id(self)] = loss.detach() if hasattr(loss, "detach") else loss
        return original(self, loss)

    LossScaleOptimizer.scale_loss = scale_loss


def _patch_apply(optimizer_class: Any, recorder: Recorder, inside: _Inside, losses: dict[int, Any]) -> None:
    original = optimizer_class.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        gradients = list(grads)
        result = original(self, gradients, trainable_variables)
        owner = getattr(self, "_mixte_wrapped_by", None)
        is_inner = owner is not None and owner() is not None
        if not inside and not is_inner and is_executing(gradients):
            loss = losses.pop(id(self), None)
            recorder.loop_step(self, loss if loss is None or loss.ndim == 0 else None)
        return result

    optimizer_class.apply = apply

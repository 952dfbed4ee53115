"""Lead what happens in Keras's own loops to a recorder: ``fit``, ``evaluate`` and ``train_on_batch``."""

from __future__ import annotations

import functools
import inspect
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import ref

from mixte.keras._framework import keras
from mixte.keras._governor import GOVERNOR
from mixte.keras._hooks import defining_class
from mixte.keras._recording_loops import Inside, install_loop_recording

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
        self._before = 0  # steps before this epoch
        self._trained: Any = None

    def set_model(self, model: Any) -> None:
        # Not `self.model` anywhere here: on JAX, that property writes the training's state back into the model, in
        # whatever thread asks for it.
        super().set_model(model)
        self._trained = model

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras's contract
        _govern(self._recorder, self._trained)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002
        self._before = self._recorder.epoch_begins(epoch) or 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002
        steps = self._steps_from(batch)
        self._recorder.steps_begin(self._trained, last=self._before + batch + steps, steps=steps)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        first = batch - self._together + 1
        last = self._before + first + self._steps_from(first)
        self._recorder.steps_end(last=last, logs=logs or {})

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002
        self._recorder.steps_pause()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._recorder.epoch_ends(self._trained, epoch=epoch, logs=logs or {})

    @property
    def _together(self) -> int:
        return self._trained.steps_per_execution

    def _steps_from(self, batch: int) -> int:
        """How many steps Keras runs as one from this batch on: fewer where the epoch ends."""
        total = (self.params or {}).get("steps")
        return self._together if not total else max(min(self._together, total - batch), 1)


class EvaluationCallback(keras.callbacks.Callback):
    """Tells a recorder of an evaluation outside ``fit``."""

    async_safe = True

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def on_test_end(self, logs: Any = None) -> None:
        self._recorder.evaluated("test", logs or {})


def install_recording(recorder: Recorder) -> None:
    """Patch Keras so that every training of this process is recorded. Once per process."""
    inside = Inside()
    _patch_fit(recorder, inside)
    _patch_evaluate(recorder, inside)
    _patch_train_on_batch(recorder, inside)
    install_loop_recording(recorder, inside)


def _patch_fit(recorder: Recorder, inside: Inside) -> None:
    trainer = defining_class(keras.Model, "fit")
    original = trainer.fit

    @functools.wraps(original)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        with (
            inside.entered(),
            _telling_of_failure(recorder),
            _with_callback(original, self, args, kwargs, StepCallback(recorder)) as arguments,
        ):
            return original(*arguments.args, **arguments.kwargs)

    trainer.fit = fit


def _patch_evaluate(recorder: Recorder, inside: Inside) -> None:
    trainer = defining_class(keras.Model, "evaluate")
    original = trainer.evaluate

    @functools.wraps(original)
    def evaluate(self: Any, *args: Any, **kwargs: Any) -> Any:
        if inside:  # the validation in `fit`
            return original(self, *args, **kwargs)
        with _with_callback(original, self, args, kwargs, EvaluationCallback(recorder)) as arguments:
            return original(*arguments.args, **arguments.kwargs)

    trainer.evaluate = evaluate


@contextmanager
def _telling_of_failure(recorder: Recorder) -> Generator[None]:
    """Tell of an exception in the thread that trains: a profiler can be stopped there only."""
    try:
        yield
    except BaseException as error:
        recorder.training_broke(error)
        raise


@contextmanager
def _with_callback(
    function: Any, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], ours: Any
) -> Generator[inspect.BoundArguments]:
    """Yield the arguments with our callback among the callbacks, wherever and however they were given."""
    arguments = inspect.signature(function).bind(model, *args, **kwargs)
    given: Any = arguments.arguments.get("callbacks")
    if isinstance(given, keras.callbacks.CallbackList):
        # The script's own object, which Keras uses as it is: ours is a guest in it.
        ours.set_model(model)
        ours.set_params(given.params)
        given.callbacks.append(ours)
        try:
            yield arguments
        finally:
            given.callbacks.remove(ours)
        return
    several = () if given is None else given if isinstance(given, (list, tuple)) else (given,)
    arguments.arguments["callbacks"] = [*several, ours]
    yield arguments


def _patch_train_on_batch(recorder: Recorder, inside: Inside) -> None:
    trainer = defining_class(keras.Model, "train_on_batch")
    original = trainer.train_on_batch
    last_trained: list[Any] = [lambda: None]

    @functools.wraps(original)
    def train_on_batch(self: Any, *args: Any, **kwargs: Any) -> Any:
        new = last_trained[0]() is not self
        if new:
            last_trained[0] = ref(self)
            GOVERNOR.govern(self)
        step = recorder.batch_begins(self, policy_known=GOVERNOR.applied_to(self) is not None, new=new)
        with inside.entered(), _telling_of_failure(recorder):
            result = original(self, *args, **kwargs)
        if step is not None:
            recorder.batch_ends(self, step=step, logs=_named(self, result))
        return result

    trainer.train_on_batch = train_on_batch


def _govern(recorder: Recorder, model: Any) -> None:
    GOVERNOR.govern(model)
    recorder.training_begins(model, policy_known=GOVERNOR.applied_to(model) is not None)


def _named(model: Any, result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        return dict(result)
    values = list(result) if isinstance(result, (list, tuple)) else [result]
    return dict(zip(model.metrics_names, values, strict=False))

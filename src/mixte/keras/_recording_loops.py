"""Lead the updates that a script makes in a loop of its own to a recorder."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mixte.keras._framework import BaseOptimizer, keras
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._ownership import scaled_by
from mixte.keras._sampling import is_executing
from mixte.keras._scaler import LossScaler

if TYPE_CHECKING:
    from collections.abc import Generator

    from mixte.keras._recorder import Recorder


class Inside:
    """Whether something is running that is recorded as a whole: what it updates is not recorded once more."""

    def __init__(self) -> None:
        self._depth = 0

    @contextmanager
    def entered(self) -> Generator[None]:
        """Be inside."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def __bool__(self) -> bool:
        return self._depth > 0


def install_loop_recording(recorder: Recorder, inside: Inside) -> None:
    """Patch what every update passes: our scaler's, that of Keras's own, and that of an optimizer without one."""
    losses: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
    _patch_init(recorder)
    _patch_scale_loss(losses)
    _patch_scaler_update(recorder, inside, losses)
    _patch_keras_scaler(recorder, inside)
    _patch_plain_update(recorder, inside)


def _patch_init(recorder: Recorder) -> None:
    """See for whom each scaler scales: its updates do not tell."""
    original = LossScaleOptimizer.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        recorder.optimizer_made(self)

    LossScaleOptimizer.__init__ = init


def _patch_scale_loss(losses: WeakKeyDictionary[Any, list[Any]]) -> None:
    """Remember the losses that a loop scales: they are the step's loss, which no one else tells us."""
    original = LossScaler.scale_loss

    @functools.wraps(original)
    def scale_loss(self: Any, loss: Any) -> Any:
        if is_executing(loss):
            losses.setdefault(self, []).append(loss.detach() if hasattr(loss, "detach") else loss)
            del losses[self][:-_MOST_LOSSES]
        return original(self, loss)

    LossScaler.scale_loss = scale_loss


_MOST_LOSSES = 16  # a script that scales and never updates must not fill the memory


def _patch_scaler_update(recorder: Recorder, inside: Inside, losses: WeakKeyDictionary[Any, list[Any]]) -> None:
    original = LossScaler.update

    @functools.wraps(original)
    def update(self: Any, observation: Any, *, counted: Any = None) -> None:
        original(self, observation, counted=counted)
        if inside:
            recorder.scaler_used(self)
            losses.pop(self, None)
        elif is_executing(observation.finite):
            recorder.loop_step(self, losses.pop(self, []))
        else:
            recorder.loop_traced(self)

    LossScaler.update = update


def _patch_keras_scaler(recorder: Recorder, inside: Inside) -> None:
    """See the updates by Keras's own loss-scaling optimizer, where a script brings it."""
    theirs = keras.optimizers.LossScaleOptimizer
    original = theirs.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        gradients = list(grads)
        with inside.entered():
            result = original(self, gradients, trainable_variables)
        _tell(recorder, inside, self, gradients)
        return result

    theirs.apply = apply


def _patch_plain_update(recorder: Recorder, inside: Inside) -> None:
    original = BaseOptimizer.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        gradients = list(grads)
        result = original(self, gradients, trainable_variables)
        if scaled_by(self) is None:  # else its scaler's update tells
            _tell(recorder, inside, self, gradients)
        return result

    BaseOptimizer.apply = apply


def _tell(recorder: Recorder, inside: Inside, source: Any, gradients: list[Any]) -> None:
    if inside:
        return
    if is_executing(gradients):
        recorder.loop_step(source, [])
    else:
        recorder.loop_traced(source)

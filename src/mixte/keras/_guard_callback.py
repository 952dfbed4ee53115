"""The callback that stops ``fit`` where going on would bring nothing, and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from mixte.keras._framework import keras, to_host
from mixte.keras._guard import Guard
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._sampling import decode, sample, scaler_of
from mixte.scaling import DEFAULT_STOP_AFTER, StopRule

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixte.keras._sampling import Reading
    from mixte.records import Stopped

_READ_EVERY: Final = 20


@final
class NonFiniteGuard(keras.callbacks.Callback):
    """Stops ``fit`` with the cause when updates are skipped, or losses are not finite, without end.

    It raises a ``TrainingStoppedError`` whose message is one paragraph: what happened, at which step, the first
    bad gradient and its layer, what a replay of the batch in float32 showed, and what to do.

    - Under loss scaling, and with the check that ``mixte`` puts around bfloat16: after ``stop_after`` skipped
      updates in a row, beyond those in which a law looks for its first scale; after 10 with the scale at its floor;
      after 10 whose loss itself was not finite.
    - With any other optimizer: after ``stop_after`` steps whose loss was not finite, if weights or a replay show
      that it will remain so.

    The state is read every 20 steps and at the end of an epoch. To find the cause, the batch's forward pass is
    computed twice more, and its gradients once; the model stays as it is. ``mixte run`` has the same built in.

    Args:
        stop_after: See above. 0 to stop never.
        optimizers: The optimizers to follow, by name, for a model that trains with several. By default, the
            model's own.

    Attributes:
        finding: Why the training was stopped, as data; None if it was not.

    Raises:
        InputError: If ``stop_after`` is negative or no whole number.

    Example:
        >>> model.fit(x, y, callbacks=[mixte.keras.NonFiniteGuard()])
    """

    async_safe = True  # else Keras would wait for the device after every batch, because of us

    def __init__(
        self,
        stop_after: int = DEFAULT_STOP_AFTER,
        *,
        optimizers: Mapping[str, LossScaleOptimizer] | None = None,
    ) -> None:
        super().__init__()
        self._rule = StopRule(after=stop_after)
        self._chosen = dict(optimizers or {})
        self._guard = Guard(self._rule)
        self._followed: dict[str, Any] = {}
        self._readings: dict[str, Reading | None] = {}
        self._steps = 0  # ended so far
        self._read_at = 0
        self._loss: Any = None
        self._trained: Any = None

    @property
    def finding(self) -> Stopped | None:
        """Why the training was stopped; None if it was not."""
        return self._guard.finding

    def set_model(self, model: Any) -> None:
        """Keep the model. Not as ``self.model``: on JAX that property writes the training's state back."""
        super().set_model(model)
        self._trained = model

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras's contract
        """Find the optimizers to follow, and their state."""
        self._guard = Guard(self._rule)
        self._guard.batches.watch_fit(self._trained)
        optimizer = self._trained.optimizer
        followed = self._chosen or ({} if optimizer is None else {optimizer.name: optimizer})
        for each in followed.values():
            self._guard.optimizer_used(each)
            if isinstance(each, LossScaleOptimizer):
                self._guard.optimizer_made(each)
        self._followed = {
            name: scaler for name, each in followed.items() if (scaler := scaler_of(each)) is not None
        }
        self._readings = {name: self._read(scaler) for name, scaler in self._followed.items()}
        self._steps = self._read_at = 0

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 - as above
        """Look at the steps so far, now and then."""
        if self._steps - self._read_at >= _READ_EVERY:
            self._look()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 - as above
        """Count the step, and keep its loss where it is."""
        self._steps += self._trained.steps_per_execution
        self._loss = (logs or {}).get("loss")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - as above
        """Look at the steps up to here."""
        self._look()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 - as above
        """Leave the model as it was."""
        self._guard.batches.unwatch_fit(self._trained)

    def _look(self) -> None:
        steps, self._read_at = self._steps - self._read_at, self._steps
        for name, scaler in self._followed.items():
            before, after = self._readings[name], self._read(scaler)
            self._readings[name] = after
            self._guard.saw_step(scaler, before, after, name=name, step=self._steps, steps=max(steps, 1))
        if not self._followed and self._loss is not None:
            self._guard.saw_loss(float(to_host(self._loss)), step=self._steps, steps=steps)
        try:
            self._guard.check(self._trained)
        except Exception:
            self._guard.batches.unwatch_fit(self._trained)
            raise

    def _read(self, scaler: Any) -> Reading | None:
        return decode(scaler, sample(scaler, self._trained))

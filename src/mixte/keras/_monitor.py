"""Loss scale and skipped steps in the logs and the history of ``fit``."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, final

from mixte._errors import InputError, MixteWarning
from mixte.keras._framework import keras
from mixte.keras._optimizer import LossScaleOptimizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixte.keras._state import ScalerState


@final
class LossScaleMonitor(keras.callbacks.Callback):
    """Adds the loss scale and the skipped steps to the logs of every epoch, and so to the history.

    - ``loss_scale``: the scale for the next step, when the epoch ends.
    - ``skipped_steps``: how many steps of this epoch were skipped.
    - ``skip_rate``: their share of this epoch's steps; NaN if there were none.

    The state is read once at the end of an epoch, when Keras waits for the device anyway. Callbacks that are to
    see these logs (``CSVLogger``, ``TensorBoard``) come after this one in the list; the history always does.

    Args:
        optimizers: The optimizers to follow, by a name that is put before those above, as in
            ``generator_loss_scale``: for a model that trains with several. By default, the model's own.

    Raises:
        InputError: If one of ``optimizers`` is no ``LossScaleOptimizer``.

    Warns:
        MixteWarning: If the model's own optimizer is no ``LossScaleOptimizer``: there is nothing to add then.

    Example:
        >>> history = model.fit(x, y, callbacks=[mixte.keras.LossScaleMonitor()])
        >>> history.history["skipped_steps"]
    """

    def __init__(self, optimizers: Mapping[str, LossScaleOptimizer] | None = None) -> None:
        super().__init__()
        for name, optimizer in (optimizers or {}).items():
            if not isinstance(optimizer, LossScaleOptimizer):  # pyright: ignore[reportUnnecessaryIsInstance] - input
                raise InputError(
                    f"LossScaleMonitor cannot follow {name!r}, which is {optimizer!r}. Give it a "
                    "mixte.keras.LossScaleOptimizer."
                )
        self._chosen = dict(optimizers or {})
        self._followed: dict[str, LossScaleOptimizer] = {}
        self._before: dict[str, ScalerState] = {}

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras's contract
        """Find the optimizers to follow."""
        own = self.model.optimizer
        self._followed = {f"{name}_": optimizer for name, optimizer in self._chosen.items()}
        if not self._chosen and isinstance(own, LossScaleOptimizer):
            self._followed = {"": own}
        elif not self._chosen:
            warnings.warn(
                f"LossScaleMonitor has nothing to show: the optimizer of the model {self.model.name!r} is "
                f"{type(own).__name__}, not a mixte.keras.LossScaleOptimizer.",
                category=MixteWarning,
                stacklevel=2,
            )
        self._before = {prefix: optimizer.read_state() for prefix, optimizer in self._followed.items()}

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:  # noqa: ARG002 - as above
        """Add to the epoch's logs."""
        if hasattr(self.model, "jax_state_sync"):  # on JAX, fit holds the state; by now it has put it back
            self.model.jax_state_sync()
        for prefix, optimizer in self._followed.items():
            state, before = optimizer.read_state(), self._before[prefix]
            self._before[prefix] = state
            steps = state.counters["steps"] - before.counters["steps"]
            skipped = state.counters["skipped"] - before.counters["skipped"]
            if logs is not None:
                logs[f"{prefix}loss_scale"] = state.scale
                logs[f"{prefix}skipped_steps"] = skipped
                logs[f"{prefix}skip_rate"] = skipped / steps if steps else float("nan")  # of no steps: unknown

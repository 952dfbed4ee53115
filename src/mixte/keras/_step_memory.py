"""What was seen when a step's losses were scaled, until its gradients come back to be unscaled."""

from __future__ import annotations

from typing import Any

from mixte.keras._framework import in_stateless_scope, keras
from mixte.keras._tracing import here, home

_MOST_LOSSES = 16


class StepMemory:
    """Remembers the scale that multiplied the last loss, and whether the losses since the last update were finite.

    Gradients are divided by the very scale that multiplied their loss, though another optimizer that shares the
    scaler may have moved it in between. What was remembered in one graph or trace is unknown in any other.
    """

    def __init__(self) -> None:
        self.has_scaled = False
        self._scale: Any = None
        self._losses_finite: list[Any] = []

    def remember_scale(self, scale: Any) -> Any:
        """Note that a loss is multiplied by a scale, and return the scale."""
        self.has_scaled = True
        if not in_stateless_scope():  # there the caller hands the scale over, in the optimizer's variables
            self._scale = scale
        return scale

    def remember_loss(self, finite: Any) -> None:
        """Note whether a loss was finite: a scalar bool tensor."""
        place = home(finite)
        self._losses_finite = [other for other in self._losses_finite if home(other) is place]
        if len(self._losses_finite) >= _MOST_LOSSES:  # scaled again and again without an update: keep them few
            self._losses_finite = [_all(self._losses_finite)]
        self._losses_finite.append(finite)

    def scale(self) -> Any:
        """Return the scale that multiplied the last loss; None where it is unknown."""
        known = self._scale is not None and not in_stateless_scope() and home(self._scale) is here()
        return self._scale if known else None

    def take_losses_finite(self) -> Any:
        """Return whether all losses since the last update were finite, and forget them; None where unknown."""
        place = here()
        known = [finite for finite in self._losses_finite if home(finite) is place]
        self._losses_finite = []
        return _all(known) if known else None


def _all(flags: list[Any]) -> Any:
    return flags[0] if len(flags) == 1 else keras.ops.all(keras.ops.stack(flags))

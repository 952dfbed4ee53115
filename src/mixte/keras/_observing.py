"""What gradients show, combined from several sets of them, and brought to the host where the law runs there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixte.keras._framework import BACKEND, keras
from mixte.scaling import Observation

if TYPE_CHECKING:
    from collections.abc import Sequence

_ARRAYS: Any = np if BACKEND == "torch" else keras.ops  # on PyTorch observations are on the host


def combined(seen: Sequence[Observation]) -> Observation:
    """Return what several sets of gradients show together. The underflow is their mean: each set counts alike."""
    if len(seen) == 1:
        return seen[0]
    return Observation(
        finite=_ARRAYS.all(_ARRAYS.stack([each.finite for each in seen])),
        has_nan=_ARRAYS.any(_ARRAYS.stack([each.has_nan for each in seen])),
        loss_finite=_ARRAYS.all(_ARRAYS.stack([each.loss_finite for each in seen])),
        largest_gradient=_ARRAYS.max(_ARRAYS.stack([each.largest_gradient for each in seen])),
        underflow_fraction=_ARRAYS.mean(_ARRAYS.stack([each.underflow_fraction for each in seen])),
    )


def both(first: Observation, second: Observation) -> Observation:
    """Return the first observation, but not finite if the second is not."""
    return Observation(
        finite=_ARRAYS.logical_and(first.finite, second.finite),
        has_nan=_ARRAYS.logical_or(first.has_nan, second.has_nan),
        loss_finite=first.loss_finite,
        largest_gradient=first.largest_gradient,
        underflow_fraction=first.underflow_fraction,
    )


def on_host(seen: Observation) -> Observation:
    """Return the observation as numpy scalars. Waits for the device, if it is not on the host already."""
    return Observation(
        finite=np.bool_(bool(seen.finite)),
        has_nan=np.bool_(bool(seen.has_nan)),
        loss_finite=np.bool_(bool(seen.loss_finite)),
        largest_gradient=np.float32(float(seen.largest_gradient)),
        underflow_fraction=np.float32(float(seen.underflow_fraction)),
    )

"""A loss scale that never changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_scale


@final
@dataclass(frozen=True, slots=True)
class FixedScale(LossScaleLaw):
    """Multiply the loss by one number throughout.

    The steps of a fixed scale are checked and skipped like those of every other law, so a scale that is too
    large for the network skips for ever: watch the counters. ``FixedScale(1.0)`` is loss scaling switched off
    with the check kept.

    Scales in practice: 128 in NVIDIA's TensorFlow example and in bigLSTM, 8 to 32768 in "Mixed Precision
    Training" (Micikevicius et al., ICLR 2018, section 3.2), whose rule is: largest gradient x scale < 65504.

    Attributes:
        scale: The factor. A positive normal float32 number.

    Example:
        >>> float(FixedScale(1024).initial_state()["scale"])
        1024.0
    """

    scale: float = 128.0

    def __post_init__(self) -> None:
        require_scale(self, "scale")

    def initial_state(self) -> ScaleState:
        """Return the state before the first step."""
        return {"scale": np.float32(self.scale)}

    def next(
        self,
        state: ScaleState,
        observation: Observation,  # noqa: ARG002 - every law has it; this one never looks
        ops: ArrayOps = NUMPY,  # noqa: ARG002 - as above
    ) -> ScaleState:
        """Return the state as it was."""
        return dict(state)

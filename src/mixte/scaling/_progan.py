"""The law of Progressive GAN: log2 of the scale drifts up on clean steps and drops by 1 on bad ones."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import log2
from typing import final

import numpy as np

from mixte.scaling._bounds import DEFAULT_MIN_SCALE
from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_number, require_scales


@final
@dataclass(frozen=True, slots=True)
class ProGanScale(LossScaleLaw):
    """Add ``increment`` to log2 of the scale on a clean step; subtract ``decrement`` on a non-finite one.

    No counters: the scale rises smoothly, by a factor of 2 in ``1 / increment`` clean steps. In equilibrium the
    share of skipped steps is about ``increment / decrement``: 0.05% with the defaults.

    Source: tkarras/progressive_growing_of_gans, tfutil.py, class Optimizer; StyleGAN v1 has the same. There
    the start is 2**64 and there are no bounds.

    The scale is not a power of two in general, so scaling and unscaling round; and 2**x may differ in the last
    place between frameworks. The logarithm itself is the same everywhere.

    Attributes:
        initial_scale: The scale of the first step.
        increment: Added to log2 of the scale on a clean step. Above 0, at most 128.
        decrement: Subtracted from log2 of the scale on a non-finite step. Above 0, at most 128.
        min_scale: Lower bound.
        max_scale: Upper bound.

    Raises:
        InputError: On construction, if a parameter is out of its range or the bounds exclude the start.
    """

    initial_scale: float = 2.0**64
    _: KW_ONLY
    increment: float = 0.0005
    decrement: float = 1.0
    min_scale: float = DEFAULT_MIN_SCALE
    max_scale: float = 2.0**64

    def __post_init__(self) -> None:
        require_scales(self)
        require_number(self, "increment", above=0.0, at_most=128.0)
        require_number(self, "decrement", above=0.0, at_most=128.0)

    def initial_state(self) -> ScaleState:
        """Return the state: ``scale``, and ``log2_scale`` (float32), which is what the law moves."""
        return {"scale": np.float32(self.initial_scale), "log2_scale": np.float32(log2(self.initial_scale))}

    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step; see ``LossScaleLaw.next``."""
        change = ops.where(observation.finite, ops.float32(self.increment), ops.float32(-self.decrement))
        moved = ops.maximum(state["log2_scale"] + change, ops.float32(log2(self.min_scale)))
        log2_scale = ops.minimum(moved, ops.float32(log2(self.max_scale)))
        # The bounds are repeated on the scale because 2**x may round past them.
        scale = ops.maximum(ops.exp2(log2_scale), ops.float32(self.min_scale))
        return {"scale": ops.minimum(scale, ops.float32(self.max_scale)), "log2_scale": log2_scale}

"""The law of nearly every framework: halve on overflow, double after N clean steps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np

from mixte.scaling._bounds import DEFAULT_MAX_SCALE, DEFAULT_MIN_SCALE, grown, shrunk
from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_count, require_factors, require_scales


@final
@dataclass(frozen=True, slots=True)
class DynamicScale(LossScaleLaw):
    """Shrink the scale at once on a non-finite step; grow it after ``growth_interval`` clean steps in a row.

    The growth follows exactly the N-th consecutive clean step. A growth whose result is not finite is refused.
    The scale stays within ``[min_scale, max_scale]``, so it is never 0 and never inf.

    With the right parameters this is the law of TensorFlow, Keras, PyTorch, jmp, apex and flax: see
    ``PRESETS``. OpenSeq2Seq's Backoff and apex.fp16_utils count steps since the last overflow and grow
    whenever that count is a multiple of their window; that is the same sequence of scales, so they are presets
    of this law too.

    Attributes:
        initial_scale: The scale of the first step. Start high: a scale too high falls by one step each, one
            too low takes ``growth_interval`` steps for each doubling.
        growth_factor: Above 1.
        backoff_factor: Above 0 and below 1.
        growth_interval: Consecutive clean steps before a growth; at least 1.
        min_scale: Lower bound, a normal float32 number.
        max_scale: Upper bound, a finite float32 number.

    Raises:
        InputError: On construction, if a parameter is out of its range or the bounds exclude the start.

    Example:
        >>> trace = simulate(DynamicScale(1024, growth_interval=2), [True, False, False, False])
        >>> trace.scales.tolist(), float(trace.final_scale)
        ([1024.0, 512.0, 512.0, 1024.0], 1024.0)
    """

    initial_scale: float = 2.0**15
    _: KW_ONLY
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    min_scale: float = DEFAULT_MIN_SCALE
    max_scale: float = DEFAULT_MAX_SCALE

    def __post_init__(self) -> None:
        require_scales(self)
        require_factors(self)
        require_count(self, "growth_interval")

    def initial_state(self) -> ScaleState:
        """Return the state: ``scale``, and ``clean_steps`` since the last change or non-finite step (int32)."""
        return {"scale": np.float32(self.initial_scale), "clean_steps": np.int32(0)}

    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step; see ``LossScaleLaw.next``."""
        scale, clean_steps = state["scale"], state["clean_steps"] + ops.int32(1)
        finite = observation.finite
        due = clean_steps >= ops.int32(self.growth_interval)
        after_clean = ops.where(due, grown(scale, self.growth_factor, self.max_scale, ops), scale)
        after_bad = shrunk(scale, self.backoff_factor, self.min_scale, ops)
        counting = ops.logical_and(finite, ops.logical_not(due))
        return {
            "scale": ops.where(finite, after_clean, after_bad),
            "clean_steps": ops.where(counting, clean_steps, ops.int32(0)),
        }

"""The law of tf.contrib: bad steps add up, near or far, and every second one shrinks the scale."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import final

import numpy as np

from mixte.scaling._bounds import DEFAULT_MAX_SCALE, grown, shrunk
from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_count, require_factors, require_scales


@final
@dataclass(frozen=True, slots=True)
class ContribScale(LossScaleLaw):
    """The law of tf.contrib's ExponentialUpdateLossScaleManager.

    Two differences from ``DynamicScale``: the scale shrinks after ``bad_steps_per_backoff`` non-finite steps
    that ACCUMULATE (a clean step does not clear their count; a growth does), and it shrinks by a gentle 0.8.
    Every non-finite step is skipped all the same.

    Source: TensorFlow 1.15, tensorflow/contrib/mixed_precision/python/loss_scale_manager.py. There
    ``init_loss_scale`` and ``incr_every_n_steps`` have no default, and there is no upper bound.

    Attributes:
        initial_scale: The scale of the first step.
        growth_factor: ``incr_ratio`` there. Above 1.
        backoff_factor: ``decr_ratio`` there. Above 0 and below 1.
        growth_interval: ``incr_every_n_steps`` there. Consecutive clean steps before a growth.
        bad_steps_per_backoff: ``decr_every_n_nan_or_inf`` there. Non-finite steps before the scale shrinks.
        min_scale: Lower bound.
        max_scale: Upper bound.

    Raises:
        InputError: On construction, if a parameter is out of its range or the bounds exclude the start.
    """

    initial_scale: float = 2.0**15
    _: KW_ONLY
    growth_factor: float = 2.0
    backoff_factor: float = 0.8
    growth_interval: int = 2000
    bad_steps_per_backoff: int = 2
    min_scale: float = 1.0
    max_scale: float = DEFAULT_MAX_SCALE

    def __post_init__(self) -> None:
        require_scales(self)
        require_factors(self)
        require_count(self, "growth_interval")
        require_count(self, "bad_steps_per_backoff")

    def initial_state(self) -> ScaleState:
        """Return the state: ``scale``, ``clean_steps`` in a row and ``bad_steps`` accumulated (int32)."""
        return {
            "scale": np.float32(self.initial_scale),
            "clean_steps": np.int32(0),
            "bad_steps": np.int32(0),
        }

    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step; see ``LossScaleLaw.next``."""
        scale, finite, zero, one = state["scale"], observation.finite, ops.int32(0), ops.int32(1)
        clean_steps = ops.where(finite, state["clean_steps"] + one, zero)
        bad_steps = ops.where(finite, state["bad_steps"], state["bad_steps"] + one)
        # One of the two counts is untouched or zero in every step, so at most one can be due.
        growth_due = clean_steps >= ops.int32(self.growth_interval)
        backoff_due = bad_steps >= ops.int32(self.bad_steps_per_backoff)
        due = ops.logical_or(growth_due, backoff_due)
        larger = grown(scale, self.growth_factor, self.max_scale, ops)
        smaller = shrunk(scale, self.backoff_factor, self.min_scale, ops)
        return {
            "scale": ops.where(growth_due, larger, ops.where(backoff_due, smaller, scale)),
            "clean_steps": ops.where(due, zero, clean_steps),
            "bad_steps": ops.where(due, zero, bad_steps),
        }

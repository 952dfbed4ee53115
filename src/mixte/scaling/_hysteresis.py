"""A law that tolerates a few bad steps before it shrinks the scale."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal, final

import numpy as np

from mixte.scaling._bounds import DEFAULT_MAX_SCALE, DEFAULT_MIN_SCALE, grown, shrunk
from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_choice, require_count, require_factors, require_scales


@final
@dataclass(frozen=True, slots=True)
class HysteresisScale(LossScaleLaw):
    """Skip ``hysteresis - 1`` non-finite steps at the same scale; shrink at each one after those.

    What refills the allowance makes two laws:

    - ``refill_on="clean_step"``: any clean step does, so only ``hysteresis`` bad steps in a row shrink the
      scale. This is apex's kernel (NVIDIA/apex, csrc/update_scale_hysteresis.cu) and DeepSpeed with
      ``consecutive_hysteresis``. Isolated bad steps then never lower the scale: a network that overflows on
      every second step skips every second step for ever.
    - ``refill_on="growth"``: only a growth does. This is DeepSpeed's default (deepspeedai/DeepSpeed,
      deepspeed/runtime/fp16/loss_scaler.py, ``delayed_shift``).

    DeepSpeed's growth comes one step late, on clean step ``growth_interval + 1`` after an overflow and every
    ``growth_interval`` steps from there: that is ``growth_delay=1``. DeepSpeed also raises an error at a bad
    step with the scale already at its minimum; a law does not, the optimizer around it decides that.

    Attributes:
        initial_scale: The scale of the first step.
        growth_factor: Above 1.
        backoff_factor: Above 0 and below 1.
        growth_interval: Consecutive clean steps before a growth; at least 1.
        growth_delay: Further clean steps before the first growth after the start or a bad step; at least 0.
        hysteresis: The bad step of an unbroken allowance that shrinks the scale; 1 is ``DynamicScale``.
        refill_on: ``"clean_step"`` or ``"growth"``.
        min_scale: Lower bound.
        max_scale: Upper bound.

    Raises:
        InputError: On construction, if a parameter is out of its range or the bounds exclude the start.
    """

    initial_scale: float = 2.0**16
    _: KW_ONLY
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 2000
    growth_delay: int = 0
    hysteresis: int = 2
    refill_on: Literal["clean_step", "growth"] = "clean_step"
    min_scale: float = DEFAULT_MIN_SCALE
    max_scale: float = DEFAULT_MAX_SCALE

    def __post_init__(self) -> None:
        require_scales(self)
        require_factors(self)
        require_count(self, "growth_interval")
        require_count(self, "growth_delay", at_least=0)
        require_count(self, "hysteresis")
        require_choice(self, "refill_on", ("clean_step", "growth"))

    def initial_state(self) -> ScaleState:
        """Return the state: ``scale``, ``clean_steps`` (below 0 while delayed) and ``allowance`` (int32)."""
        return {
            "scale": np.float32(self.initial_scale),
            "clean_steps": np.int32(-self.growth_delay),
            "allowance": np.int32(self.hysteresis),
        }

    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step; see ``LossScaleLaw.next``."""
        scale, finite, one = state["scale"], observation.finite, ops.int32(1)
        full, left = ops.int32(self.hysteresis), state["allowance"]
        clean_steps = state["clean_steps"] + one
        growth_due = clean_steps >= ops.int32(self.growth_interval)
        after_clean = ops.where(growth_due, grown(scale, self.growth_factor, self.max_scale, ops), scale)
        used_up = left <= one
        after_bad = ops.where(used_up, shrunk(scale, self.backoff_factor, self.min_scale, ops), scale)
        refilled = full if self.refill_on == "clean_step" else ops.where(growth_due, full, left)
        return {
            "scale": ops.where(finite, after_clean, after_bad),
            "clean_steps": ops.where(
                finite,
                ops.where(growth_due, ops.int32(0), clean_steps),
                ops.int32(-self.growth_delay),
            ),
            "allowance": ops.where(finite, refilled, ops.maximum(left - one, one)),
        }

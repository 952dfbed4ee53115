"""A law that raises the scale only while gradients underflow, and only as far as the largest one allows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, final

import numpy as np

from mixte.scaling._bounds import DEFAULT_MAX_SCALE, DEFAULT_MIN_SCALE, FLOAT32_MAX, grown, shrunk
from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, Scalar, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_count, require_factors, require_number, require_scales

FLOAT16_MAX: Final = 65504.0
"""Largest finite float16 (IEEE 754 binary16)."""


@final
@dataclass(frozen=True, slots=True)
class UnderflowScale(LossScaleLaw):
    """Raise the scale for a reason - small gradients are being lost - and stop when the reason is gone.

    Halving laws raise the scale until it overflows, again and again, whether or not the network needs it. The
    purpose of a loss scale, though, is to lift small gradients out of float16's underflow; beyond that it buys
    nothing ("Mixed Precision Training", Micikevicius et al., ICLR 2018, section 3.2: x8 was enough for Multibox
    SSD because values below 2**-27 did not matter). So this law measures. Over a window of ``growth_interval``
    clean steps it averages the share of non-zero gradient values that fall below float16's smallest normal
    number (2**-14) at the present scale. At the end of the window it raises the scale if

    - that share is above ``tolerated_underflow``, and
    - the largest gradient of the window x the raised scale x 2**``headroom_bits`` stays within 65504, and
    - the raised scale is below the one that last overflowed - or ``retry_interval`` clean steps have passed
      since. Gradients inside the network may be larger than those of its weights, which are all that the law
      sees; without this memory it would run into the same overflow every window.

    A non-finite step shrinks the scale at once. Short windows make the rise fast, so it may start low and skips
    few steps at the start of training, or none.

    Ours; not published elsewhere. The default thresholds are choices: a tolerated share of 1%, well below the
    5% of weight-gradient values that the paper found lost without a scale, and a headroom of 2 bits.

    Attributes:
        initial_scale: The scale of the first step; 128 is NVIDIA's static choice in its TensorFlow example.
        growth_factor: Above 1.
        backoff_factor: Above 0 and below 1.
        growth_interval: Consecutive clean steps per window; at least 1.
        retry_interval: Consecutive clean steps before a scale that overflowed is tried again; at least 1.
        tolerated_underflow: Share of non-zero gradient values that may underflow. Within [0, 1).
        headroom_bits: Bits kept free between the largest gradient and 65504. Within [0, 15].
        min_scale: Lower bound.
        max_scale: Upper bound.

    Raises:
        InputError: On construction, if a parameter is out of its range or the bounds exclude the start.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"largest_gradient", "underflow_fraction"})

    initial_scale: float = 128.0
    _: KW_ONLY
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int = 20
    retry_interval: int = 2000
    tolerated_underflow: float = 0.01
    headroom_bits: float = 2.0
    min_scale: float = DEFAULT_MIN_SCALE
    max_scale: float = DEFAULT_MAX_SCALE

    def __post_init__(self) -> None:
        require_scales(self)
        require_factors(self)
        require_count(self, "growth_interval")
        require_count(self, "retry_interval")
        require_number(self, "tolerated_underflow", at_least=0.0, below=1.0)
        require_number(self, "headroom_bits", at_least=0.0, at_most=15.0)

    def initial_state(self) -> ScaleState:
        """Return the state.

        ``scale``; of the window, ``window_steps`` (int32), ``window_underflow``, the sum of the shares, and
        ``window_largest``, the largest gradient (float32); ``steps_since_overflow`` (int32, at most
        ``retry_interval``) and ``overflowed_scale`` (float32; the largest float32 while none is known).
        """
        return {
            "scale": np.float32(self.initial_scale),
            "window_steps": np.int32(0),
            "window_underflow": np.float32(0),
            "window_largest": np.float32(0),
            "steps_since_overflow": np.int32(0),
            "overflowed_scale": np.float32(FLOAT32_MAX),
        }

    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step; see ``LossScaleLaw.next``."""
        finite, zero = observation.finite, ops.float32(0)
        steps = state["window_steps"] + ops.int32(1)
        underflow = state["window_underflow"] + ops.where(finite, observation.underflow_fraction, zero)
        largest = ops.maximum(state["window_largest"], ops.where(finite, observation.largest_gradient, zero))
        clean_steps = ops.minimum(state["steps_since_overflow"] + ops.int32(1), ops.int32(self.retry_interval))
        full = steps >= ops.int32(self.growth_interval)
        raised = self._raised(state, underflow, largest, clean_steps, ops)
        scale = ops.where(
            finite,
            ops.where(full, raised, state["scale"]),
            shrunk(state["scale"], self.backoff_factor, self.min_scale, ops),
        )
        in_window = ops.logical_and(finite, ops.logical_not(full))
        # A scale that is being tried again is forgotten as a limit; if it overflows, it is noted afresh.
        limit = ops.where(
            scale >= state["overflowed_scale"], ops.float32(FLOAT32_MAX), state["overflowed_scale"]
        )
        return {
            "scale": scale,
            "window_steps": ops.where(in_window, steps, ops.int32(0)),
            "window_underflow": ops.where(in_window, underflow, zero),
            "window_largest": ops.where(in_window, largest, zero),
            "steps_since_overflow": ops.where(finite, clean_steps, ops.int32(0)),
            "overflowed_scale": ops.where(finite, limit, state["scale"]),
        }

    def _raised(
        self, state: ScaleState, underflow: Scalar, largest: Scalar, clean_steps: Scalar, ops: ArrayOps
    ) -> Scalar:
        """Return the scale after a full window: raised if the three conditions hold, else as it is."""
        candidate = grown(state["scale"], self.growth_factor, self.max_scale, ops)
        needed = underflow > ops.float32(self.tolerated_underflow * self.growth_interval)
        # Divided, not multiplied: the product of two large float32 could overflow. So could the quotient, by a
        # tiny candidate; below 2**-100 every finite gradient of a float16 network fits anyway.
        divisor = ops.maximum(candidate, ops.float32(2.0**-100))
        fits = largest <= ops.float32(FLOAT16_MAX / 2.0**self.headroom_bits) / divisor
        untried = candidate < state["overflowed_scale"]
        retried = clean_steps >= ops.int32(self.retry_interval)
        allowed = ops.logical_and(needed, ops.logical_and(fits, ops.logical_or(untried, retried)))
        return ops.where(allowed, candidate, state["scale"])

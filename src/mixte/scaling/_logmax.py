"""A law that predicts the largest gradient from its statistics instead of waiting for an overflow."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from math import log2
from typing import ClassVar, Literal, final

import numpy as np

from mixte.scaling._law import ArrayOps, LossScaleLaw, Observation, Scalar, ScaleState
from mixte.scaling._numpy_ops import NUMPY
from mixte.scaling._parameters import require_choice, require_number, require_scales

_PUBLISHED_LOG_MAX = 16.0


@final
@dataclass(frozen=True, slots=True)
class LogMaxScale(LossScaleLaw):
    """Set the scale in every step so that the largest gradient overflows with a chosen small probability.

    The law follows x = log2(max |g|) of the unscaled gradients with exponentially weighted averages, takes x
    as normally distributed, and sets the scale to ``2**(log_max - (mean + quantile * deviation))``. With the
    default quantile, the 99.9% quantile of the normal distribution, one step in 1000 overflows if that holds.

    Source: NVIDIA/OpenSeq2Seq, open_seq2seq/optimizers/automatic_loss_scaler.py, LogMaxScaler. It has an error,
    which the variants treat differently. What x stands for a bad step, where max |g| is unknown:

    - ``"corrected"`` (default): x = log_max, the logarithm of the value that was overflowed.
    - ``"published"``: x = 2**log_max = 65536, though x is a logarithm already. One bad step then holds the
      scale at its minimum for about 12,000 steps. Its formula for the scale has 16 in place of ``log_max``.
    - ``"relative"``: x = log_max - log2(scale) + 1. An overflow at this scale only proves that max |g| exceeded
      2**log_max / scale; this disturbs the scale least. Ours, not published.

    In all variants an all-zero step (max |g| = 0) leaves the averages alone; as published it would make them
    -inf, and the scale NaN, for ever. The averages are kept as bias-corrected mean and variance (West, 1979),
    equal to the published moments in exact arithmetic; the difference of moments would lose the variance to
    cancellation in float32.

    Attributes:
        initial_scale: The scale of the first step.
        log_max: log2 of the value that overflows. 16 as published; exactly, it is log2(65504) = 15.9993.
        mean_decay: Decay per step of the average that gives the mean. Within (0, 1).
        variance_decay: Decay per step of the averages that give the deviation. Within (0, 1).
        quantile: Standard deviations between mean and ceiling. At least 0.
        variant: ``"corrected"``, ``"published"`` or ``"relative"``.
        min_scale: Lower bound.
        max_scale: Upper bound.

    Raises:
        InputError: On construction, if a parameter is out of its range or the bounds exclude the start.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"largest_gradient"})

    initial_scale: float = 1.0
    _: KW_ONLY
    log_max: float = _PUBLISHED_LOG_MAX
    mean_decay: float = 0.99
    variance_decay: float = 0.999
    quantile: float = 3.09
    variant: Literal["corrected", "published", "relative"] = "corrected"
    min_scale: float = 1.0
    max_scale: float = 2.0**14

    def __post_init__(self) -> None:
        require_scales(self)
        require_number(self, "log_max", above=0.0, at_most=24.0)
        require_number(self, "mean_decay", above=0.0, below=1.0)
        require_number(self, "variance_decay", above=0.0, below=1.0)
        require_number(self, "quantile", at_least=0.0, at_most=100.0)
        require_choice(self, "variant", ("corrected", "published", "relative"))

    def initial_state(self) -> ScaleState:
        """Return the state, all float32.

        ``scale``; ``mean`` by the fast average and ``mean_weight``, the sum of its weights, 1 - decay**t;
        ``slow_mean``, ``variance`` and ``variance_weight`` by the slow average.
        """
        averages = ("mean", "mean_weight", "slow_mean", "variance", "variance_weight")
        return {"scale": np.float32(self.initial_scale)} | {name: np.float32(0) for name in averages}

    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step; see ``LossScaleLaw.next``."""
        zero = ops.float32(0)
        known = ops.logical_and(observation.finite, observation.largest_gradient > zero)
        # max |g| is meaningless on a bad step and has no logarithm on an all-zero one.
        largest = ops.where(known, observation.largest_gradient, ops.float32(1))
        x = ops.where(known, ops.log2(largest), self._log2_largest_of_bad_step(state, ops))
        followed = self._follow(state, x, ops)
        update = ops.logical_or(known, ops.logical_not(observation.finite))
        return {name: ops.where(update, followed[name], state[name]) for name in state}

    def _log2_largest_of_bad_step(self, state: ScaleState, ops: ArrayOps) -> Scalar:
        match self.variant:
            case "corrected":
                return ops.float32(self.log_max)
            case "published":
                return ops.float32(2.0**self.log_max)
            case "relative":
                return ops.float32(self.log_max + 1.0) - ops.log2(state["scale"])

    def _follow(self, state: ScaleState, x: Scalar, ops: ArrayOps) -> ScaleState:
        """Return the state after the averages have taken in ``x``."""
        mean_weight = _next_weight(state["mean_weight"], self.mean_decay, ops)
        share = ops.float32(1.0 - self.mean_decay) / mean_weight
        mean = state["mean"] + share * (x - state["mean"])
        variance_weight = _next_weight(state["variance_weight"], self.variance_decay, ops)
        slow_share = ops.float32(1.0 - self.variance_decay) / variance_weight
        distance = x - state["slow_mean"]
        variance = (ops.float32(1) - slow_share) * (state["variance"] + slow_share * distance * distance)
        return {
            "scale": self._scale(mean, variance, ops),
            "mean": mean,
            "mean_weight": mean_weight,
            "slow_mean": state["slow_mean"] + slow_share * distance,
            "variance": variance,
            "variance_weight": variance_weight,
        }

    def _scale(self, mean: Scalar, variance: Scalar, ops: ArrayOps) -> Scalar:
        log_max = _PUBLISHED_LOG_MAX if self.variant == "published" else self.log_max
        # The variance cannot be negative in exact arithmetic; the first share may exceed 1 by a rounding.
        deviation = ops.sqrt(ops.maximum(variance, ops.float32(0)))
        wanted = ops.float32(log_max) - (mean + ops.float32(self.quantile) * deviation)
        # Bounded before 2**x, which could overflow, and after it, because 2**x may round past the bounds.
        low, high = self.min_scale, self.max_scale
        log2_scale = ops.minimum(ops.maximum(wanted, ops.float32(log2(low))), ops.float32(log2(high)))
        return ops.minimum(ops.maximum(ops.exp2(log2_scale), ops.float32(low)), ops.float32(high))


def _next_weight(weight: Scalar, decay: float, ops: ArrayOps) -> Scalar:
    """Return 1 - decay**(t + 1), given 1 - decay**t."""
    return weight * ops.float32(decay) + ops.float32(1.0 - decay)

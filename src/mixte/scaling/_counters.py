"""Counting what became of the steps: applied, skipped, and why. Pure, like the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from mixte.scaling._numpy_ops import NUMPY

if TYPE_CHECKING:
    from mixte.scaling._law import ArrayOps, Observation, Scalar

Counters: TypeAlias = "dict[str, Scalar]"

COUNTER_NAMES = (
    "steps",
    "applied",
    "skipped",
    "consecutive_skipped",
    "skipped_nan",
    "skipped_inf",
    "skipped_loss",
    "calibration_skips",
)
"""The names of the counters, in the order in which they are shown."""


def initial_counters() -> Counters:
    """Return all counters at zero, int32, by name.

    - ``steps``: all steps; ``applied + skipped``.
    - ``applied``: steps whose update was applied.
    - ``skipped``: steps whose update was not; ``skipped_loss + skipped_nan + skipped_inf``.
    - ``consecutive_skipped``: skips since the last applied step; 0 after an applied one.
    - ``skipped_loss``, ``skipped_nan``, ``skipped_inf``: skips by cause. A step has one cause, the first of:
      the loss itself was not finite; a gradient was NaN; a gradient was infinite.
    - ``calibration_skips``: skips before the first applied step, while a scale that starts high finds its
      place. They are normal, and part of ``skipped``.
    """
    return {name: np.int32(0) for name in COUNTER_NAMES}


def count(counters: Counters, observation: Observation, ops: ArrayOps = NUMPY) -> Counters:
    """Return the counters after one more step.

    Args:
        counters: The counters so far.
        observation: What the step showed. It was applied if ``observation.finite``.
        ops: The operations of the framework that the scalars belong to; numpy's by default.
    """
    finite = observation.finite
    bad = ops.logical_not(finite)
    loss = ops.logical_and(bad, ops.logical_not(observation.loss_finite))
    gradient = ops.logical_and(bad, observation.loss_finite)
    nan = ops.logical_and(gradient, observation.has_nan)
    inf = ops.logical_and(gradient, ops.logical_not(observation.has_nan))
    calibrating = ops.logical_and(bad, counters["applied"] <= ops.int32(0))
    skip = ops.int32(bad)
    return {
        "steps": counters["steps"] + ops.int32(1),
        "applied": counters["applied"] + ops.int32(finite),
        "skipped": counters["skipped"] + skip,
        "consecutive_skipped": (counters["consecutive_skipped"] + skip) * skip,
        "skipped_nan": counters["skipped_nan"] + ops.int32(nan),
        "skipped_inf": counters["skipped_inf"] + ops.int32(inf),
        "skipped_loss": counters["skipped_loss"] + ops.int32(loss),
        "calibration_skips": counters["calibration_skips"] + ops.int32(calibrating),
    }

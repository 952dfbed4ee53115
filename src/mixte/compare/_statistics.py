"""Paired statistics of a few runs: what they carry, and no more.

The unit of all statistics is the pair: two runs with the same seed. Steps of one run are not independent
samples of what another run would do, so any number of steps in one pair says nothing about the next pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
_BATCHES = 10
_FEWEST_STEPS = 5 * _BATCHES  # a median over fewer than five steps is not worth the name


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval of 95 %; ``low <= high``."""

    low: float
    high: float


def mean_interval(values: Sequence[float], *, resolution: float = 0.0) -> Interval | None:
    """Student's t interval of the mean.

    It holds for any number of values from two, if they are about normal; with two it is wide (12.7 standard
    errors to each side), as it must be. A percentile bootstrap would be far too narrow for so few.

    Args:
        values: Independent values, such as the differences of pairs.
        resolution: Values that lie within this of each other are equal.

    Returns:
        The interval. None where the values carry none: fewer than two, one that is not finite, or all equal.
        Equal values come from a coarse measure (an accuracy over few examples) or from runs that were not
        independent, and would give an interval of no width, a certainty that nobody has.
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    if max(values) - min(values) <= resolution:
        return None
    half = student_quantile(CONFIDENCE, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    mean = fmean(values)
    return Interval(low=mean - half, high=mean + half)


def ratio_interval(ratios: Sequence[float]) -> Interval | None:
    """The t interval of the geometric mean of positive ratios; None as in ``mean_interval``.

    Ratios are averaged by their logarithms: 2 and 1/2 are equally far from 1.
    """
    if not all(ratio > 0 for ratio in ratios):
        return None
    interval = mean_interval([math.log(ratio) for ratio in ratios])
    return None if interval is None else Interval(low=math.exp(interval.low), high=math.exp(interval.high))


def geometric_mean(ratios: Sequence[float]) -> float:
    """The geometric mean of positive ratios; exactly 1 if all are 1."""
    return math.exp(fmean([math.log(ratio) for ratio in ratios]))


def within_runs_interval(base_ns: Sequence[int], other_ns: Sequence[int]) -> Interval | None:
    """How well one pair of runs fixes the ratio of its own median step times, by batch means.

    Neighbouring steps resemble each other, so they are no independent samples. The method of batch means takes
    ten consecutive stretches of each run, compares their medians stretch by stretch, and treats the ten log
    ratios as independent (A. M. Law, Simulation Modeling and Analysis, chapter 9, there for means). It says
    nothing about another pair of runs.

    Args:
        base_ns: Steady step times of the run compared with, in order, in nanoseconds.
        other_ns: Those of the other run.

    Returns:
        The interval around ``median(other_ns) / median(base_ns)``; None with fewer than 50 steps in a run.
    """
    if min(len(base_ns), len(other_ns)) < _FEWEST_STEPS:
        return None
    pairs = zip(_batch_medians(base_ns), _batch_medians(other_ns), strict=True)
    logs = [math.log(other / base) for base, other in pairs if base > 0 and other > 0]
    interval = mean_interval(logs)
    if interval is None or len(logs) < _BATCHES:
        return None
    half = (interval.high - interval.low) / 2
    centre = math.log(median(other_ns) / median(base_ns))
    return Interval(low=math.exp(centre - half), high=math.exp(centre + half))


def student_quantile(confidence: float, degrees_of_freedom: int) -> float:
    """The t that a Student variable stays within, on both sides, with the given probability.

    Solves A(t | n) = confidence by bisection over the angle atan(t / sqrt(n)), with A in its closed form for
    whole n (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4).

    Args:
        confidence: In (0, 1).
        degrees_of_freedom: From 1.
    """
    low, high = 0.0, math.pi / 2
    for _ in range(200):  # the interval halves until it holds no further float
        middle = (low + high) / 2
        if _two_sided_probability(middle, degrees_of_freedom) < confidence:
            low = middle
        else:
            high = middle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _two_sided_probability(angle: float, degrees_of_freedom: int) -> float:
    cosine, odd = math.cos(angle), degrees_of_freedom % 2
    # Both series get each term from the one before, by cos**2 and a fraction: for odd n the first is cos (none
    # for n = 1) and the fractions are 2/3, 4/5, ...; for even n the first is 1 and they are 1/2, 3/4, ...
    term = cosine if odd else 1.0
    total = 0.0 if degrees_of_freedom == 1 else term
    for k in range(1, (degrees_of_freedom - odd) // 2):
        term *= cosine**2 * (2 * k - 1 + odd) / (2 * k + odd)
        total += term
    inner = math.sin(angle) * total
    return 2 / math.pi * (angle + inner) if odd else inner


def _batch_medians(times_ns: Sequence[int]) -> list[float]:
    edges = [len(times_ns) * index // _BATCHES for index in range(_BATCHES + 1)]
    return [median(times_ns[start:stop]) for start, stop in pairwise(edges)]

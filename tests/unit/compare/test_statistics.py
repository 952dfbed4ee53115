"""The statistics agree with scipy's, and claim nothing that the samples do not carry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mixte.compare._statistics import (
    Interval,
    geometric_mean,
    mean_interval,
    ratio_interval,
    student_quantile,
    within_runs_interval,
)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30, 100, 999])
def test_quantiles_are_those_of_students_distribution(confidence: float, degrees: int) -> None:
    # Both invert the same function: we to the last bit of an angle near pi/2, where the tangent magnifies its
    # relative error 2**-52 by up to t**2, which is below 4.1e5 here (t = 636.6 for 1 degree and 0.999).
    oracle = stats.t.ppf((1 + confidence) / 2, degrees)
    assert student_quantile(confidence, degrees) == pytest.approx(oracle, rel=4.1e5 * 2**-52)


@pytest.mark.parametrize("pairs", [2, 3, 5, 20])
def test_the_interval_of_differences_is_that_of_the_paired_t_test(pairs: int) -> None:
    random = np.random.default_rng(pairs)
    base, other = random.normal(0.9, 0.01, pairs), random.normal(0.91, 0.01, pairs)
    interval = mean_interval((other - base).tolist())
    oracle = stats.ttest_rel(other, base).confidence_interval(0.95)
    assert interval is not None
    # The quantiles agree to 1e-11 (above); means and deviations of so few values round far below that.
    assert (interval.low, interval.high) == pytest.approx((oracle.low, oracle.high), rel=1e-10)


def test_the_interval_of_ratios_is_the_t_interval_of_their_logarithms() -> None:
    ratios = [0.5, 0.52, 0.47, 0.55]
    logs = np.log(ratios)
    low, high = stats.t.interval(0.95, 3, loc=logs.mean(), scale=stats.sem(logs))
    interval = ratio_interval(ratios)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((math.exp(low), math.exp(high)), rel=1e-10)
    # exp(mean(log)) against scipy's: a handful of roundings of values near 1
    assert geometric_mean(ratios) == pytest.approx(stats.gmean(ratios), rel=8 * 2**-52)


@pytest.mark.parametrize(
    "values", [[], [0.1], [0.1, 0.1, 0.1], [0.0, 0.0], [0.1, math.nan], [0.1, math.inf], [-math.inf, math.inf]]
)
def test_values_that_carry_no_interval_get_none(values: list[float]) -> None:
    assert mean_interval(values) is None


def test_values_within_the_resolution_of_each_other_are_equal() -> None:
    assert mean_interval([0.1, 0.1 + 1e-9], resolution=1e-8) is None
    assert mean_interval([0.1, 0.1 + 1e-7], resolution=1e-8) is not None


@pytest.mark.parametrize("ratios", [[1.0], [0.0, 1.0], [1.0, 1.0]])
def test_ratios_that_carry_no_interval_get_none(ratios: list[float]) -> None:
    assert ratio_interval(ratios) is None


def test_equal_runs_have_a_ratio_of_exactly_one() -> None:
    assert geometric_mean([1.0, 1.0, 1.0]) == 1.0


@pytest.mark.parametrize("pairs", [2, 5])
def test_policies_that_do_not_differ_are_told_apart_in_one_of_twenty_comparisons(pairs: int) -> None:
    random = np.random.default_rng(20_260_101 + pairs)
    repetitions = 4000
    claims = 0
    for differences in random.normal(0.0, 0.01, (repetitions, pairs)):
        interval = mean_interval(differences.tolist())
        assert interval is not None
        claims += not interval.low <= 0 <= interval.high
    # Claims follow a binomial distribution; its central 99.99 % are the tolerance.
    low, high = stats.binom.interval(0.9999, repetitions, 0.05)
    assert low <= claims <= high


def correlated_step_times(random: np.random.Generator, steps: int) -> list[int]:
    """Step times whose noise lasts for about ten steps: an autoregressive process with factor 0.9."""
    noise = np.empty(steps)
    level = 0.0
    for index, shock in enumerate(random.normal(0.0, 0.01, steps)):
        level = 0.9 * level + shock
        noise[index] = level
    return np.rint(8e6 * np.exp(noise)).astype(int).tolist()


def test_the_interval_within_two_runs_allows_for_steps_that_resemble_their_neighbours() -> None:
    random = np.random.default_rng(7)
    repetitions, outside = 300, 0
    for _ in range(repetitions):
        interval = within_runs_interval(
            correlated_step_times(random, 1000), correlated_step_times(random, 1000)
        )
        assert interval is not None
        outside += not interval.low <= 1 <= interval.high
    # Means of neighbouring stretches of 100 such steps still have the correlation c = f (1 - f^100)^2 /
    # (100 (1 + f)(1 - f) - 2 f (1 - f^100)) = 0.05 with f = 0.9, which makes the variance of their mean
    # 1 + 1.8 c = 1.09 times what ten independent ones show, and the error rate 6 % in place of 5 %. Medians
    # resemble means to a percent or two. Taking the steps for independent makes the deviation sqrt(19) times
    # too small: 65 % would be outside.
    assert outside <= stats.binom.ppf(0.9999, repetitions, 0.08)


def test_the_interval_within_two_runs_is_that_of_ten_stretches() -> None:
    random = np.random.default_rng(3)
    base, other = random.integers(7_000_000, 9_000_000, (2, 200))
    logs = np.log(np.median(other.reshape(10, 20), axis=1) / np.median(base.reshape(10, 20), axis=1))
    half = stats.t.ppf(0.975, 9) * stats.sem(logs)
    centre = np.median(other) / np.median(base)
    interval = within_runs_interval(base.tolist(), other.tolist())
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx(
        (centre * math.exp(-half), centre * math.exp(half)), rel=1e-10
    )


def test_short_runs_have_no_interval_within_them() -> None:
    assert within_runs_interval([1] * 49, [2] * 500) is None


def test_identical_runs_have_no_interval_within_them() -> None:
    assert within_runs_interval([5, 6] * 100, [5, 6] * 100) is None


def test_a_clock_that_stands_still_gives_no_interval() -> None:
    assert within_runs_interval([0] * 100, [1] * 100) is None


def test_an_interval_is_ordered() -> None:
    interval = mean_interval([-3.0, 1.0])
    assert isinstance(interval, Interval)
    assert interval.low < -1.0 < interval.high

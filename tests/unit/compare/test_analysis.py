"""From runs to paired differences: right where there is something to say, silent where there is not."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy import stats

from mixte.compare import Comparison, Pair, Request, compare_results

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mixte.compare import RunResult

    MakeRun = Callable[..., RunResult]

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def compared(results: Sequence[RunResult], policies: tuple[str, ...] = ("A", "B")) -> Comparison:
    request = Request(script="train.py", policies=policies, seeds=tuple(range(8)))
    return compare_results(request, results, Path("cmp"), NOW)


def pair_of(results: Sequence[RunResult]) -> Pair:
    (pair,) = compared(results).pairs
    return pair


def test_differences_are_taken_seed_by_seed(run_result: MakeRun) -> None:
    base, other = [0.91, 0.95, 0.93], [0.92, 0.94, 0.97]
    results = [run_result("A", s, accuracy=x, losses=(1.0, float(s))) for s, x in enumerate(base)]
    results += [run_result("B", s, accuracy=x, losses=(2.0, float(s))) for s, x in enumerate(other)]
    pair = pair_of(results[::-1])
    accuracy = next(x for x in pair.differences if x.metric == "accuracy")
    assert pair.seeds == (0, 1, 2)
    assert accuracy.split == "validation"
    assert accuracy.differences == tuple(b - a for a, b in zip(base, other, strict=True))
    oracle = stats.ttest_rel(other, base).confidence_interval(0.95)
    assert (accuracy.low, accuracy.high) == pytest.approx((oracle.low, oracle.high), rel=1e-10)
    assert accuracy.mean == pytest.approx(np.mean(np.subtract(other, base)), rel=1e-12)
    assert accuracy.median == np.median(np.subtract(other, base))


def test_identical_runs_differ_by_exactly_zero_and_carry_no_interval(run_result: MakeRun) -> None:
    results = [
        run_result(p, s, losses=(1.0, 0.1 + s), accuracy=0.9 + s / 100, times_ns=(10, 12, 11), memory_bytes=5)
        for p in "AB"
        for s in range(3)
    ]
    pair = pair_of(results)
    assert pair.identical
    for difference in pair.differences:
        assert set(difference.differences) == {0.0}
        assert (difference.mean, difference.low, difference.high) == (0.0, None, None)
    for ratio in pair.ratios:
        assert (set(ratio.ratios), ratio.mean, ratio.low) == ({1.0}, 1.0, None)


def test_one_pair_carries_no_interval_for_losses_and_metrics(run_result: MakeRun) -> None:
    pair = pair_of([run_result(p, 0, losses=(1.0,), accuracy=x) for p, x in (("A", 0.9), ("B", 0.8))])
    assert {(x.metric, x.low, x.high) for x in pair.differences} == {
        (None, None, None),
        ("accuracy", None, None),
    }


def test_step_times_of_one_pair_get_an_interval_for_this_pair_only(run_result: MakeRun) -> None:
    random = np.random.default_rng(0)
    results = [
        run_result(policy, 0, times_ns=tuple(random.integers(low, low + 10, 100).tolist()))
        for policy, low in (("A", 100), ("B", 200))
    ]
    (ratio,) = pair_of(results).ratios
    assert ratio.basis == "steps"
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < ratio.mean < ratio.high


def test_step_times_of_several_pairs_get_an_interval_over_pairs(run_result: MakeRun) -> None:
    results = [run_result("A", s, times_ns=(100 + s,) * 100) for s in range(2)]
    results += [run_result("B", s, times_ns=(203 - s,) * 100) for s in range(2)]
    (ratio,) = pair_of(results).ratios
    assert ratio.ratios == (203 / 100, 202 / 101)
    assert ratio.basis == "pairs"


def test_a_seed_counts_only_if_both_runs_finished(run_result: MakeRun) -> None:
    results = [run_result("A", s, accuracy=0.9) for s in range(3)]
    results += [
        run_result("B", 0, accuracy=0.8),
        run_result("B", 1, accuracy=0.7, problem="ended with exit code 1", exit_code=1),
    ]
    comparison = compared(results)
    assert comparison.pairs[0].seeds == (0,)
    assert comparison.warnings == ("B, seed 1, does not count: it ended with exit code 1",)
    assert [run.exit_code for run in comparison.runs] == [0, 0, 0, 0, 1]


def test_a_script_that_sets_its_own_seed_is_found_and_gets_no_interval(run_result: MakeRun) -> None:
    results = [
        run_result(p, s, losses=(1.0, final), accuracy=final)
        for s in range(3)
        for p, final in (("A", 0.5), ("B", 0.6))
    ]
    comparison = compared(results)
    assert not comparison.pairs[0].independent
    assert all(x.low is None for x in comparison.pairs[0].differences)
    assert comparison.warnings[0].startswith(
        "different seeds gave identical losses under A, B: the script sets"
    )


def test_nan_losses_are_compared_as_values(run_result: MakeRun) -> None:
    results = [run_result(p, s, losses=(1.0 + s, math.nan)) for p in "AB" for s in range(2)]
    pair = pair_of(results)
    assert pair.identical
    assert pair.independent
    assert math.isnan(pair.differences[0].mean)
    assert pair.differences[0].low is None


def test_a_policy_without_effect_is_found_by_its_dtypes(run_result: MakeRun) -> None:
    same = [run_result(p, 0, losses=(x,), compute_dtype="float32") for p, x in (("A", 0.5), ("B", 0.6))]
    assert compared(same).warnings == ("B had no effect: every layer computed in the same dtype as under A",)
    different = [
        run_result(p, 0, losses=(0.5,), compute_dtype=d) for p, d in (("A", "float32"), ("B", "float16"))
    ]
    assert compared(different).warnings == (
        "B and A gave identical losses to the last bit: the policy did not reach what is trained",
    )


def test_warnings_of_the_runs_are_given_once(run_result: MakeRun) -> None:
    results = [
        run_result(p, s, losses=(float(s), float(ord(p))), warnings=("float16 is slow here",))
        for p in "AB"
        for s in (0, 1)
    ]
    assert compared(results).warnings == ("in every run: float16 is slow here",)
    del results[0]
    results.insert(0, run_result("A", 0, losses=(0.0, 65.0)))
    assert compared(results).warnings == ("A, seed 1; B, seed 0; B, seed 1: float16 is slow here",)


def test_three_policies_are_each_compared_with_the_first(run_result: MakeRun) -> None:
    results = [run_result(p, 0, accuracy=x) for p, x in (("A", 0.9), ("B", 0.8), ("C", 0.7))]
    pairs = compared(results, ("A", "B", "C")).pairs
    assert [(pair.baseline, pair.policy) for pair in pairs] == [("A", "B"), ("A", "C")]


def test_nothing_done_yet_is_no_error() -> None:
    comparison = compared([])
    assert comparison.runs == ()
    assert comparison.pairs[0].seeds == ()


def test_accuracies_over_the_same_few_examples_carry_no_interval_when_all_differ_by_one_example(
    run_result: MakeRun,
) -> None:
    # Each pair is 1/360 apart, but not to the last bit, since frameworks give accuracies in float32.
    base = np.float32([359 / 360, 350 / 360, 340 / 360]).tolist()
    other = np.float32([358 / 360, 349 / 360, 339 / 360]).tolist()
    results = [run_result("A", s, accuracy=x) for s, x in enumerate(base)]
    results += [run_result("B", s, accuracy=x) for s, x in enumerate(other)]
    (accuracy,) = pair_of(results).differences
    assert len(set(accuracy.differences)) > 1
    assert accuracy.low is None

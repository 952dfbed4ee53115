"""A comparison in the terminal: within its width, and with a verdict that claims what the pairs carry."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from rich.cells import cell_len

from mixte.compare import Comparison, Difference, Pair, Ratio, RunEntry
from mixte.records import Change, OptimizerSummary, RunSummary, Scores
from mixte.report import render_comparison
from mixte.report._verdict import verdict


def entry(policy: str, seed: int, *, loss: float, accuracy: float, time_ns: float, later: int = 0) -> RunEntry:
    summary = RunSummary(
        status="finished",
        script="t.py",
        policy=policy,
        backend="tensorflow",
        step_time_median_ns=time_ns,
        scores={
            "train": Scores(loss=Change(first=2.3, last=loss)),
            "validation": Scores(metrics={"accuracy": Change(first=0.1, last=accuracy)}),
        },
        optimizers={
            "adam": OptimizerSummary(applied=98 - later, skipped_in_calibration=2, skipped_later=later)
        },
        host_memory_peak_bytes=2**29,
    )
    return RunEntry(
        policy=policy, seed=seed, directory=f"{policy}{seed}", exit_code=0, duration_s=9.0, summary=summary
    )


def difference(*differences: float, **changes: Any) -> Difference:
    known = {
        "split": "validation",
        "metric": "accuracy",
        "baseline_mean": 0.975,
        "differences": differences,
        "mean": sum(differences) / len(differences),
        "median": sorted(differences)[len(differences) // 2],
    }
    return Difference(**known | changes)


def ratio(mean: float, low: float | None = None, high: float | None = None, **changes: Any) -> Ratio:
    known = {"quantity": "step time", "ratios": (mean, mean), "basis": None if low is None else "pairs"}
    return Ratio(**known | {"mean": mean, "low": low, "high": high} | changes)


def pair(*differences: Difference, seeds: tuple[int, ...] = (0, 1), **changes: Any) -> Pair:
    known = {"baseline": "float32", "policy": "mixed_float16", "independent": True, "identical": False}
    return Pair(**known | {"seeds": seeds, "differences": differences} | changes)


COMPARISON = Comparison(
    script="train.py",
    policies=("float32", "mixed_float16"),
    seeds=(0, 1),
    started_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    planned=4,
    runs=(
        entry("float32", 0, loss=0.1, accuracy=0.97, time_ns=8.0e6),
        entry("mixed_float16", 0, loss=0.11, accuracy=0.972, time_ns=4.0e6, later=1),
        entry("mixed_float16", 1, loss=0.13, accuracy=0.98, time_ns=4.2e6),
        entry("float32", 1, loss=0.12, accuracy=0.98, time_ns=8.2e6),
    ),
    pairs=(
        pair(
            difference(0.01, 0.012, split="train", metric=None, baseline_mean=0.11, low=-0.002, high=0.023),
            difference(0.002, 0.0, low=-0.012, high=0.014),
            ratios=(ratio(0.506, 0.48, 0.53), ratio(1.0, quantity="host memory")),
        ),
    ),
    warnings=("mixed_float16, seed 1: float16 is slow here",),
)

RENDERED = """\
mixte: train.py, 2 policies x 2 seeds on tensorflow

                      train  validation  step time  peak memory   skipped in
policy         runs    loss    accuracy     median         host  calibration
float32           2  0.1100      0.9750    8.10 ms      512 MiB            4
mixed_float16     2  0.1200      0.9760    4.10 ms      512 MiB            4

                skipped
policy            later
float32               0
mixed_float16  1 of 196

mixed_float16 against float32: mean of 2 pairs [95% interval]
  train loss           +0.011  [-0.002, +0.023]
  validation accuracy  +0.001  [-0.012, +0.014]
  step time            x 0.51  [0.48, 0.53]
  host memory          x 1.00

warning: mixed_float16, seed 1: float16 is slow here
verdict: mixed_float16 is 1.98 x faster than float32 [1.89, 2.08]; no difference
         in validation accuracy is shown: 0.1 [-1.2, 1.4] points, 2 pairs.
records: mixte-runs/x
"""


def test_a_comparison_reads_as_documented() -> None:
    assert render_comparison(COMPARISON, place="mixte-runs/x") == RENDERED


def test_an_unfinished_comparison_says_so() -> None:
    partial = msgspec.structs.replace(COMPARISON, runs=COMPARISON.runs[:1], pairs=(pair(seeds=()),))
    text = render_comparison(partial)
    assert "on tensorflow; unfinished: 1 of 4 runs done" in text.replace("\n", " ")
    assert "mixed_float16     0       -           -    unknown      unknown" in text
    assert "verdict: mixed_float16 cannot be compared with float32" in text


def test_a_failed_run_is_counted_and_left_out() -> None:
    failed = msgspec.structs.replace(COMPARISON.runs[3], problem="ended with exit code 1")
    text = render_comparison(msgspec.structs.replace(COMPARISON, runs=(*COMPARISON.runs[:3], failed)))
    assert "float32        1 of 2  0.1000      0.9700    8.00 ms" in text


@settings(deadline=None)  # a busy machine is no failure
@given(
    width=st.integers(60, 140),
    encoding=st.sampled_from(["ascii", "utf-8"]),
    names=st.lists(st.text(st.characters(codec="utf-8"), max_size=60), min_size=2, max_size=6, unique=True),
)
def test_no_line_is_wider_than_the_terminal(width: int, encoding: str, names: list[str]) -> None:
    metrics = {name: Change(first=1.0, last=-1.234e-30) for name in names}
    summary = RunSummary(status="finished", script="t", policy="p", scores={names[0]: Scores(metrics=metrics)})
    runs = tuple(
        RunEntry(policy=name, seed=0, directory="d", exit_code=0, duration_s=1.0, summary=summary)
        for name in names
    )
    pairs = tuple(
        pair(
            *(difference(-1e-30, 2e-30, split=n, metric=n, low=-1.234e-300, high=1.234e300) for n in names),
            baseline=names[0],
            policy=name,
            ratios=(ratio(1e-12, 1e-13, 1e13, basis="steps"), ratio(1.0, quantity="device memory")),
        )
        for name in names[1:]
    )
    comparison = msgspec.structs.replace(
        COMPARISON, script=names[0], policies=tuple(names), runs=runs, pairs=pairs, warnings=tuple(names)
    )
    text = render_comparison(comparison, width, encoding=encoding, place=names[0])
    assert text.encode(encoding).decode(encoding) == text
    assert max(cell_len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize(
    ("ratio_", "claim"),
    [
        (ratio(0.5, 0.4, 0.625), "is 2.00 x faster than float32 [1.60, 2.50]"),
        (ratio(12.0, 11.0, 13.0), "is 12.0 x slower than float32 [11.0, 13.0]"),
        (ratio(0.98, 0.95, 1.01), "shows no difference in step time from float32 (x 0.98 [0.95, 1.01])"),
        (ratio(1.0), "took 1.00 x the step time of float32 in each of 2 pairs"),
    ],
)
def test_a_policy_is_called_faster_or_slower_only_if_the_interval_excludes_one(
    ratio_: Ratio, claim: str
) -> None:
    assert verdict(pair(difference(0.0, 0.0), ratios=(ratio_,))).startswith(f"mixed_float16 {claim}; ")


@pytest.mark.parametrize(
    ("difference_", "claim"),
    [
        (
            difference(0.01, 0.02, low=0.005, high=0.025),
            "validation accuracy is higher by 1.5 [0.5, 2.5] points, 2 pairs",
        ),
        (
            difference(-0.01, -0.02, low=-0.025, high=-0.005),
            "validation accuracy is lower by 1.5 [0.5, 2.5] points, 2 pairs",
        ),
        (
            difference(-0.01, 0.02, low=-0.1, high=0.11),
            "no difference in validation accuracy is shown: 0.5 [-10, 11] points, 2 pairs",
        ),
        (difference(0.01, 0.01), "validation accuracy was higher by 1 points in each of 2 pairs"),
        (difference(0.0, 0.0), "validation accuracy is equal in each of 2 pairs"),
        (
            difference(-2.0, -3.0, metric="mae", baseline_mean=30.0, low=-4.0, high=-1.0),
            "validation mae is lower by 2.5 [1, 4], 2 pairs",
        ),
    ],
)
def test_a_metric_is_called_higher_or_lower_only_if_the_interval_excludes_zero(
    difference_: Difference, claim: str
) -> None:
    text = verdict(pair(difference_))
    assert text == f"mixed_float16 has no step time to set against that of float32; {claim}."


def test_one_pair_is_told_as_what_was_seen() -> None:
    text = verdict(
        pair(difference(-0.003), seeds=(0,), ratios=(ratio(0.5, 0.4, 0.6, basis="steps", ratios=(0.5,)),))
    )
    assert text == (
        "mixed_float16 took 0.50 x the step time of float32 in this one pair; validation accuracy was lower by "
        "0.3 points in this one pair. One pair does not tell a difference from chance: use --seeds 5."
    )


def test_repetitions_of_one_training_are_told_as_such() -> None:
    text = verdict(pair(difference(0.01, 0.01), independent=False))
    assert text.endswith("validation accuracy was higher by 1 points in 2 repetitions of one training.")


def test_a_loss_that_is_not_finite_comes_before_any_metric() -> None:
    broken = difference(math.nan, 0.0, split="train", metric=None)
    assert verdict(pair(difference(0.0, 0.0), broken)).endswith("its train loss is not finite at the end.")
    both = difference(math.nan, math.nan, metric=None, baseline_mean=math.nan)
    assert verdict(pair(both)).endswith("the baseline's validation loss is not finite at the end.")


def test_identical_losses_are_told_and_need_no_more_seeds() -> None:
    text = verdict(pair(difference(0.0), seeds=(0,), identical=True))
    assert text.endswith("; the losses are identical to the last bit.")


def test_validation_accuracy_is_preferred_to_other_measures() -> None:
    measures = [
        difference(0.0, 0.0, split="train"),
        difference(0.0, 0.0, metric=None),
        difference(0.0, 0.0, metric="auc"),
        difference(0.0, 0.0, metric="sparse_categorical_accuracy"),
    ]
    assert "validation sparse_categorical_accuracy is equal" in verdict(pair(*measures))
    assert "validation auc is equal" in verdict(pair(*measures[:3]))
    assert "validation loss is equal" in verdict(pair(*measures[:2]))


def test_a_policy_that_scales_no_loss_has_no_skips_to_be_unknown() -> None:
    runs = tuple(
        msgspec.structs.replace(
            run,
            summary=msgspec.structs.replace(run.summary, optimizers={"adam": OptimizerSummary(law="none")}),
        )
        if run.policy == "float32" and run.summary is not None
        else run
        for run in COMPARISON.runs
    )
    text = render_comparison(msgspec.structs.replace(COMPARISON, runs=runs))
    rows = [line.split() for line in text.splitlines() if line.startswith("float32 ")]
    assert "unknown" not in text
    assert [row[-1] for row in rows] == ["-", "-"]  # skipped in calibration, skipped later

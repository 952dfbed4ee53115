"""One plain sentence on a policy against the baseline, which claims nothing that the pairs do not carry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mixte.report import _quantities as quantities
from mixte.report._text import clip

if TYPE_CHECKING:
    from mixte.compare import Difference, Pair, Ratio

_LONGEST_LABEL = 48


def verdict(pair: Pair) -> str:
    """Say what a policy gave against the baseline.

    "Faster", "slower", "higher" and "lower" are said of a policy only where the 95 % interval over at least two
    pairs excludes "no difference"; of a single pair, only what was seen in it is told. One in twenty such
    intervals excludes it by chance.

    Args:
        pair: The policy and the baseline.
    """
    if not pair.seeds:
        return f"{pair.policy} cannot be compared with {pair.baseline}: no seed of which both runs finished."
    quality = "the losses are identical to the last bit" if pair.identical else _quality(pair)
    sentence = f"{pair.policy} {_speed(pair)}; {quality}."
    if len(pair.seeds) == 1 and pair.differences and not pair.identical:
        return f"{sentence} One pair does not tell a difference from chance: use --seeds 5."
    return sentence


def _speed(pair: Pair) -> str:
    ratio = next((ratio for ratio in pair.ratios if ratio.quantity == "step time"), None)
    if ratio is None:
        return f"has no step time to set against that of {pair.baseline}"
    if ratio.basis == "pairs" and ratio.low is not None and ratio.high is not None:
        return _claimed_speed(ratio, ratio.low, ratio.high, pair.baseline)
    seen = f"took {quantities.ratio(ratio.mean)} x the step time of {pair.baseline}"
    pairs = "this one pair" if len(ratio.ratios) == 1 else f"each of {len(ratio.ratios)} pairs"
    return f"{seen} in {pairs}"


def _claimed_speed(ratio: Ratio, low: float, high: float, baseline: str) -> str:
    if high < 1:
        ends = f"{quantities.ratio(1 / high)}, {quantities.ratio(1 / low)}"
        return f"is {quantities.ratio(1 / ratio.mean)} x faster than {baseline} [{ends}]"
    ends = f"{quantities.ratio(low)}, {quantities.ratio(high)}"
    if low > 1:
        return f"is {quantities.ratio(ratio.mean)} x slower than {baseline} [{ends}]"
    return f"shows no difference in step time from {baseline} (x {quantities.ratio(ratio.mean)} [{ends}])"


def _quality(pair: Pair) -> str:
    broken = [x for x in pair.differences if not all(map(math.isfinite, x.differences))]
    if broken:
        whose = "its" if math.isfinite(broken[0].baseline_mean) else "the baseline's"
        return f"{whose} {_label(broken[0])} is not finite at the end"
    main = min(pair.differences, key=_importance, default=None)
    return "no loss or metric was logged in both" if main is None else _difference(main, pair)


def _difference(main: Difference, pair: Pair) -> str:
    label, mean, count = _label(main), main.mean, len(main.differences)
    direction = "higher" if mean > 0 else "lower"
    if main.low is not None and main.high is not None:
        if main.low <= 0 <= main.high:
            interval = _amount(main, mean, main.low, main.high)
            return f"no difference in {label} is shown: {interval}, {count} pairs"
        near, far = sorted((abs(main.low), abs(main.high)))
        return f"{label} is {direction} by {_amount(main, abs(mean), near, far)}, {count} pairs"
    where = "in this one pair" if count == 1 else f"in each of {count} pairs"
    if not pair.independent:
        where = f"in {count} repetitions of one training"
    if not any(main.differences):
        return f"{label} is equal {where}"
    return f"{label} was {direction} by {_amount(main, abs(mean))} {where}"


def _importance(difference: Difference) -> tuple[int, int]:
    """Data that was not trained on first, then accuracy, another metric, the loss."""
    splits = {"validation": 0, "test": 1, "train": 3}
    kind = 2 if difference.metric is None else 0 if _is_accuracy(difference) else 1
    return splits.get(difference.split, 2), kind


def _label(difference: Difference) -> str:
    return clip(f"{difference.split} {difference.metric or 'loss'}", _LONGEST_LABEL)


def _is_accuracy(difference: Difference) -> bool:
    return difference.metric is not None and "acc" in difference.metric.lower()


def _amount(difference: Difference, value: float, *ends: float) -> str:
    """A value and its interval, in percentage points where it is one of accuracies in [0, 1]."""
    in_points = _is_accuracy(difference) and 0 <= difference.baseline_mean <= 1
    number, *limits = (f"{x * 100:.2g}" if in_points else f"{x:.3g}" for x in (value, *ends))
    interval = f" [{', '.join(limits)}]" if limits else ""
    return f"{number}{interval}{' points' if in_points else ''}"

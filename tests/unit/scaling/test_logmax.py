"""The LogMax law on log-normal gradients: numpy's default_rng(0).normal(0, 1, 40000) as log2(max |g|)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from mixte.scaling import LogMaxScale, observe, simulate

STEPS = 40_000


@cache
def largest_gradients() -> np.ndarray:
    return np.exp2(np.random.default_rng(0).normal(0, 1, STEPS)).astype(np.float32)


def log2_scales(law: LogMaxScale, *, bad_step: int | None = None) -> np.ndarray:
    """log2 of the scale before each step and after the last, with at most one forced bad step."""
    trace = simulate(
        law,
        (
            observe(finite=step != bad_step, largest_gradient=float(largest))
            for step, largest in enumerate(largest_gradients())
        ),
    )
    return np.log2(np.append(trace.scales, trace.final_scale))


def test_scale_settles_where_one_step_in_a_thousand_overflows() -> None:
    log2_scale = log2_scales(LogMaxScale())
    assert round(float(log2_scale[-1]), 3) == 12.859
    overflows = np.log2(largest_gradients()) + log2_scale[:-1] > 16
    assert round(float(overflows[1000:].mean()), 5) == 0.00105


@pytest.mark.parametrize(
    ("variant", "bad_step", "pinned", "until_2_10", "lowest"),
    [
        ("published", 100, 12_013, 14_285, 0),
        ("published", 5000, 12_009, 14_217, 0),
        ("corrected", 100, 0, 6, 9.858),
        ("corrected", 5000, 0, 0, 12.381),
        ("relative", 100, 0, 0, 12.621),
        ("relative", 5000, 0, 0, 12.621),
    ],
)
def test_recovery_from_one_bad_step(
    variant: str, bad_step: int, pinned: int, until_2_10: int, lowest: float
) -> None:
    after = log2_scales(LogMaxScale(variant=variant), bad_step=bad_step)[bad_step + 1 :]
    assert int((after == 0).sum()) == pinned
    assert int(np.argmax(after >= 10)) == until_2_10
    assert round(float(after.min()), 3) == lowest


@pytest.mark.parametrize(("log2_largest", "log2_scale"), [(4, 12), (0, 14), (20, 0)])
def test_constant_gradients_give_the_ideal_scale_within_bounds_from_the_first_update(
    log2_largest: int, log2_scale: int
) -> None:
    trace = simulate(LogMaxScale(), [observe(finite=True, largest_gradient=2.0**log2_largest)] * 2000)
    assert set(np.log2(trace.scales[1:]).tolist()) == {log2_scale}


def test_scale_lags_behind_gradients_that_shrink_steadily() -> None:
    law = LogMaxScale(min_scale=2.0**-20, max_scale=2.0**100)
    steps = [observe(finite=True, largest_gradient=2.0 ** (-step / 200)) for step in range(4001)]
    scales = np.log2(simulate(law, steps).scales)
    assert [round(float(scales[step]), 2) for step in (200, 1000, 4000)] == [15.76, 16.15, 22.61]


@pytest.mark.parametrize("variant", ["corrected", "published", "relative"])
def test_all_zero_step_changes_nothing(variant: str) -> None:
    law = LogMaxScale(variant=variant)
    state = simulate(law, [observe(finite=True, largest_gradient=3.0)] * 5).final_state
    assert law.next(state, observe(finite=True, largest_gradient=0.0)) == state


def test_largest_gradient_of_a_bad_step_is_never_read() -> None:
    law = LogMaxScale()
    state = simulate(law, [observe(finite=True, largest_gradient=3.0)] * 5).final_state
    expected = law.next(state, observe(finite=False, largest_gradient=1.0))
    for meaningless in (np.nan, np.inf, 0.0):
        assert law.next(state, observe(finite=False, largest_gradient=meaningless)) == expected


def test_log_max_moves_the_ceiling_except_in_the_published_formula() -> None:
    gradient = [observe(finite=True, largest_gradient=2.0**4)]
    law = LogMaxScale(log_max=14)
    assert simulate(law, gradient).final_scale == 2.0**10
    assert simulate(replace(law, variant="published"), gradient).final_scale == 2.0**12

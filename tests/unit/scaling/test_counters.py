from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from mixte.scaling import COUNTER_NAMES, count, initial_counters, observe

CLEAN = observe(finite=True)
INF = observe(finite=False)
NAN = observe(finite=False, has_nan=True)
LOSS = observe(finite=False, has_nan=True, loss_finite=False)


def counted(*steps: object) -> dict[str, int]:
    counters = initial_counters()
    for step in steps:
        counters = count(counters, step)
    assert all(value.dtype == np.int32 for value in counters.values())
    return {name: int(value) for name, value in counters.items()}


def test_counters_start_at_zero_in_their_order() -> None:
    assert counted() == dict.fromkeys(COUNTER_NAMES, 0)
    assert tuple(initial_counters()) == COUNTER_NAMES
    assert tuple(count(initial_counters(), CLEAN)) == COUNTER_NAMES


def test_cause_of_a_skip_is_the_loss_before_nan_before_inf() -> None:
    counters = counted(LOSS, NAN, NAN, INF, INF, INF)
    assert (counters["skipped_loss"], counters["skipped_nan"], counters["skipped_inf"]) == (1, 2, 3)


def test_calibration_skips_are_those_before_the_first_clean_step() -> None:
    counters = counted(INF, INF, CLEAN, INF, CLEAN, NAN)
    assert counters["calibration_skips"] == 2
    assert counters["skipped"] == 4
    assert counters["applied"] == 2


def test_consecutive_skips_are_cleared_by_an_applied_step() -> None:
    assert counted(INF, NAN)["consecutive_skipped"] == 2
    assert counted(INF, NAN, CLEAN)["consecutive_skipped"] == 0
    assert counted(INF, NAN, CLEAN, LOSS)["consecutive_skipped"] == 1


@settings(deadline=None, derandomize=True)
@given(st.lists(st.sampled_from([CLEAN, INF, NAN, LOSS]), max_size=50))
def test_counters_add_up(steps: list[object]) -> None:
    counters = counted(*steps)
    assert counters["steps"] == len(steps) == counters["applied"] + counters["skipped"]
    causes = ("skipped_nan", "skipped_inf", "skipped_loss")
    assert counters["skipped"] == sum(counters[cause] for cause in causes)
    assert max(counters["consecutive_skipped"], counters["calibration_skips"]) <= counters["skipped"]

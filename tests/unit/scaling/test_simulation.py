from __future__ import annotations

import numpy as np

from mixte.scaling import DynamicScale, FixedScale, LogMaxScale, observe, simulate, simulate_gradients


def test_trace_holds_the_scale_before_each_step_and_after_the_last() -> None:
    trace = simulate(DynamicScale(8.0, growth_interval=2), [True, False, False, True])
    assert trace.scales.tolist() == [8, 4, 4, 8]
    assert trace.scales.dtype == np.float32
    assert trace.skipped.tolist() == [True, False, False, True]
    assert trace.final_scale == 4.0
    assert trace.counters["skipped"] == 2


def test_trace_of_no_steps_is_empty() -> None:
    trace = simulate(FixedScale(2.0), [])
    assert trace.scales.shape == trace.skipped.shape == (0,)
    assert trace.final_scale == 2.0


def test_numpy_truth_values_and_observations_are_steps() -> None:
    steps = [np.True_, observe(finite=False, has_nan=True), np.False_]
    trace = simulate(DynamicScale(8.0), steps)
    assert trace.skipped.tolist() == [True, True, False]
    assert trace.counters["skipped_nan"] == 1


def test_recorded_gradients_overflow_exactly_past_the_largest_float16() -> None:
    largest = float(np.finfo(np.float16).max)
    trace = simulate_gradients(
        FixedScale(1.0), [largest, np.nextafter(np.float32(largest), np.float32(np.inf))]
    )
    assert trace.skipped.tolist() == [False, True]


def test_non_finite_gradients_are_bad_at_any_scale_with_their_cause() -> None:
    trace = simulate_gradients(DynamicScale(2.0), [np.nan, np.inf, 1.0])
    assert trace.skipped.tolist() == [True, True, False]
    assert (trace.counters["skipped_nan"], trace.counters["skipped_inf"]) == (1, 1)


def test_laws_can_be_compared_on_one_recorded_trace() -> None:
    gradients = np.exp2(np.random.default_rng(3).normal(2, 1, 3000))
    halving = simulate_gradients(DynamicScale(2.0**24), gradients)
    predicted = simulate_gradients(LogMaxScale(), gradients)
    assert halving.skipped.sum() >= 9  # at least from 2**24 to the region of 2**14
    assert predicted.skipped.mean() < 0.005

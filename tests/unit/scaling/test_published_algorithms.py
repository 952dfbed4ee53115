"""The laws against the algorithms as their authors published them, step by step on random sequences.

The originals count in other ways (steps since the last overflow, counters that are compared before they are
raised, absolute iteration numbers); here they are, in plain Python, and give the same scales.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mixte.scaling import ContribScale, DynamicScale, HysteresisScale, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BAD_STEPS = st.lists(st.sampled_from([False, False, False, True]), max_size=120)
WINDOWS = st.integers(1, 7)


def since_last_overflow(
    bad_steps: Sequence[bool], *, scale: float, window: int, high: float
) -> Iterator[float]:
    """OpenSeq2Seq's Backoff and apex.fp16_utils: grow when (iteration - last overflow) % window == 0."""
    last = -1
    for iteration, bad in enumerate(bad_steps):
        if bad:
            scale, last = max(scale / 2, 1.0), iteration
        elif (iteration - last) % window == 0:
            scale = min(scale * 2, high)
        yield scale


def deepspeed(bad_steps: Sequence[bool], *, window: int, hysteresis: int, consecutive: bool) -> Iterator[float]:
    """DeepSpeed's DynamicLossScaler."""
    scale, left, last = 2.0**16, hysteresis, -1
    for iteration, bad in enumerate(bad_steps):
        if bad:
            if hysteresis == 1 or left == 1:
                scale = max(scale / 2, 1.0)
            else:
                left -= 1
            last = iteration
        else:
            if consecutive:
                left = hysteresis
            stable = iteration - last - 1
            if stable > 0 and stable % window == 0:
                left = left if consecutive else hysteresis
                scale *= 2
        yield scale


def apex_hysteresis(bad_steps: Sequence[bool], *, interval: int, hysteresis: int) -> Iterator[float]:
    """The kernel update_scale_hysteresis of apex; its allowance may go below zero."""
    scale, left, growth = 2.0**16, hysteresis, 0
    for bad in bad_steps:
        if bad:
            left -= 1
            growth = 0
            scale = scale if left > 0 else scale * 0.5
        else:
            growth += 1
            if growth == interval:
                scale, growth = scale * 2, 0
            left = hysteresis
        yield scale


def contrib(bad_steps: Sequence[bool], *, interval: int, bad_per_backoff: int) -> Iterator[np.float32]:
    """tf.contrib's ExponentialUpdateLossScaleManager, whose variables are float32."""
    scale, good, bad_count = np.float32(2.0**15), 0, 0
    for bad in bad_steps:
        if bad:
            good, bad_count = 0, bad_count + 1
            if bad_count == bad_per_backoff:
                scale, good, bad_count = max(np.float32(1), scale * np.float32(0.8)), 0, 0
        else:
            good += 1
            if good == interval:
                scale, good, bad_count = scale * np.float32(2), 0, 0
        yield scale


def after_each_step(law: object, bad_steps: Sequence[bool]) -> list[float]:
    trace = simulate(law, bad_steps)
    return [*trace.scales[1:].tolist(), float(trace.final_scale)] if bad_steps else []


@settings(deadline=None, derandomize=True)
@given(bad_steps=BAD_STEPS, window=WINDOWS)
def test_backoff_counted_from_the_last_overflow_is_plain_halving(bad_steps: list[bool], window: int) -> None:
    law = DynamicScale(2.0**14, growth_interval=window, min_scale=1.0, max_scale=2.0**16)
    expected = since_last_overflow(bad_steps, scale=2.0**14, window=window, high=2.0**16)
    assert after_each_step(law, bad_steps) == list(expected)


@pytest.mark.parametrize("consecutive", [True, False])
@settings(deadline=None, derandomize=True)
@given(bad_steps=BAD_STEPS, window=WINDOWS, hysteresis=st.integers(1, 4))
def test_hysteresis_with_a_delay_of_one_step_is_deepspeed(
    *, consecutive: bool, bad_steps: list[bool], window: int, hysteresis: int
) -> None:
    law = HysteresisScale(
        growth_interval=window,
        growth_delay=1,
        hysteresis=hysteresis,
        refill_on="clean_step" if consecutive else "growth",
        min_scale=1.0,
        max_scale=2.0**127,
    )
    expected = deepspeed(bad_steps, window=window, hysteresis=hysteresis, consecutive=consecutive)
    assert after_each_step(law, bad_steps) == [min(scale, 2.0**127) for scale in expected]


@settings(deadline=None, derandomize=True)
@given(bad_steps=BAD_STEPS, interval=WINDOWS, hysteresis=st.integers(1, 4))
def test_hysteresis_refilled_by_clean_steps_is_apex_kernel(
    bad_steps: list[bool], interval: int, hysteresis: int
) -> None:
    law = HysteresisScale(
        growth_interval=interval, hysteresis=hysteresis, min_scale=2.0**-126, max_scale=2.0**127
    )
    expected = apex_hysteresis(bad_steps[:100], interval=interval, hysteresis=hysteresis)
    assert after_each_step(law, bad_steps[:100]) == [min(scale, 2.0**127) for scale in expected]


@settings(deadline=None, derandomize=True)
@given(bad_steps=BAD_STEPS, interval=WINDOWS, bad_per_backoff=st.integers(1, 4))
def test_contrib_law_is_bit_equal_to_float32_original(
    bad_steps: list[bool], interval: int, bad_per_backoff: int
) -> None:
    law = ContribScale(growth_interval=interval, bad_steps_per_backoff=bad_per_backoff, max_scale=2.0**127)
    expected = contrib(bad_steps[:100], interval=interval, bad_per_backoff=bad_per_backoff)
    assert after_each_step(law, bad_steps[:100]) == [float(scale) for scale in expected]

"""The underflow law, on gradients drawn from a distribution: it must find the scale that they need."""

from __future__ import annotations

import numpy as np

from mixte.scaling import DynamicScale, LossScaleLaw, Observation, UnderflowScale, observe

FLOAT16_MIN_NORMAL = float(np.finfo(np.float16).smallest_normal)


def seen(gradients: np.ndarray, scale: np.float32, *, limit: float = 65504.0) -> Observation:
    """What one step shows of float32 gradients computed at a scale, by numpy."""
    magnitudes = np.abs(gradients[gradients != 0])
    return observe(
        finite=bool(magnitudes.max() * scale <= limit),
        largest_gradient=float(magnitudes.max()),
        underflow_fraction=float((magnitudes * scale < FLOAT16_MIN_NORMAL).mean()),
    )


def run(law: LossScaleLaw, steps: int, *, log2_median: float, limit: float = 65504.0) -> tuple[np.ndarray, int]:
    """Scales before each step, and the number of skips, for log-normal gradients (4 bits of deviation)."""
    random = np.random.default_rng(7)
    state, scales, skips = law.initial_state(), [], 0
    for _ in range(steps):
        gradients = np.exp2(random.normal(log2_median, 4, 2000)).astype(np.float32)
        observation = seen(gradients, state["scale"], limit=limit)
        skips += int(not observation.finite)
        scales.append(state["scale"])
        state = law.next(state, observation)
    return np.array(scales), skips


def test_scale_rises_until_fewer_than_one_percent_underflow_and_stays_there() -> None:
    scales, skips = run(UnderflowScale(1.0), 600, log2_median=-20)
    # 99% of a normal distribution lie above mean - 2.326 deviations: at scale S the 1% quantile of log2 |g| is
    # log2 S - 20 - 2.326 * 4, which reaches -14 between S = 2**15 (-14.3) and 2**16 (-13.3).
    assert scales[-1] == 2.0**16
    assert skips == 0
    assert set(scales[400:].tolist()) == {2.0**16}


def test_it_settles_in_fewer_skips_than_halving_from_a_high_start() -> None:
    _, ours = run(UnderflowScale(1.0), 600, log2_median=-4)
    _, halving = run(DynamicScale(2.0**15), 600, log2_median=-4)
    assert ours == 0
    assert halving > 0


def test_largest_gradient_keeps_its_headroom_even_while_others_underflow() -> None:
    law = UnderflowScale(1.0, growth_interval=2, headroom_bits=2)
    state = law.initial_state()
    for _ in range(200):
        assert float(state["scale"]) * 100.0 <= 65504 / 4
        state = law.next(state, observe(finite=True, largest_gradient=100.0, underflow_fraction=0.5))
    assert state["scale"] == 2.0**7  # 100 * 2**7 = 12800 fits below 16376, 100 * 2**8 does not


def test_largest_gradient_of_the_whole_window_counts() -> None:
    law = UnderflowScale(1.0, growth_interval=3)
    state = law.initial_state()
    for largest in (1.0, 60000.0, 1.0):
        state = law.next(state, observe(finite=True, largest_gradient=largest, underflow_fraction=0.5))
    assert state["scale"] == 1.0


def test_scale_does_not_rise_without_underflow() -> None:
    law = UnderflowScale(1.0, growth_interval=1)
    state = law.initial_state()
    for _ in range(5000):
        state = law.next(state, observe(finite=True, largest_gradient=1e-6, underflow_fraction=0.01))
    assert state["scale"] == 1.0


def test_scale_that_overflowed_is_not_tried_again_before_the_retry_interval() -> None:
    # The weights' gradients (largest 0.001) would allow more, but something inside overflows above 2**10.
    law = UnderflowScale(2.0**8, growth_interval=5, retry_interval=100)
    state, bad_at = law.initial_state(), []
    for step in range(500):
        bad = state["scale"] > 2.0**10
        if bad:
            bad_at.append(step)
        state = law.next(state, observe(finite=not bad, largest_gradient=0.001, underflow_fraction=0.5))
    # Up to 2**11 by three windows of 5; then one try per 100 clean steps and one bad step.
    assert bad_at == [15, 116, 217, 318, 419]


def test_bad_step_shrinks_at_once_and_starts_a_new_window() -> None:
    law = UnderflowScale(64.0, growth_interval=2)
    state = law.next(law.initial_state(), observe(finite=True, underflow_fraction=1.0))
    state = law.next(state, observe(finite=False))
    assert state["scale"] == 32.0
    assert state["window_steps"] == 0
    assert state["window_underflow"] == 0

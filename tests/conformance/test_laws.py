"""Each law, run by a scaler on each backend, moves the scale as the numpy state machine does."""

import functools

import keras
import numpy as np
import pytest

from mixte.keras import LossScaler
from mixte.scaling import (
    ContribScale,
    DynamicScale,
    FixedScale,
    HysteresisScale,
    LogMaxScale,
    Observation,
    ProGanScale,
    UnderflowScale,
    count,
    initial_counters,
)

from .steps import MODES, compiled, host

STEPS = 100

EXACT = {
    "fixed": FixedScale(128.0),
    "dynamic": DynamicScale(2.0**15, growth_interval=4),
    "dynamic_to_its_bounds": DynamicScale(2.0**3, growth_interval=1, min_scale=2.0, max_scale=2.0**5),
    "dynamic_in_every_step": DynamicScale(growth_interval=1, growth_factor=1.25, max_scale=2.0**60),
    "dynamic_to_the_ends_of_float32": DynamicScale(
        2.0**127, growth_interval=1, backoff_factor=2.0**-126, min_scale=2.0**-126, max_scale=2.0**127
    ),
    "contrib": ContribScale(5000.0, growth_interval=4),
    "hysteresis": HysteresisScale(2.0**16, growth_interval=4, hysteresis=2),
    "deepspeed": HysteresisScale(2.0**16, growth_interval=4, growth_delay=1, refill_on="growth"),
    "underflow": UnderflowScale(growth_interval=2, retry_interval=9, tolerated_underflow=0.3),
}
"""Laws of comparisons, products and quotients of float32 numbers: IEEE 754 leaves no choice to a backend."""

TRANSCENDENTAL = {
    "logmax": LogMaxScale(),
    "logmax_relative": LogMaxScale(variant="relative"),
    "progan": ProGanScale(2.0**16, increment=0.1, decrement=1.0),
}
"""Laws with log2, exp2 or sqrt, which IEEE 754 does not require to be rounded correctly."""

LAWS = EXACT | TRANSCENDENTAL


def observations():
    """Return what random steps showed: every fifth or so is not finite, by a cause at random."""
    rng = np.random.default_rng(seed=1)
    finite = rng.random(STEPS) > 0.2
    loss_finite = finite | (rng.random(STEPS) < 0.7)
    has_nan = ~finite & (rng.random(STEPS) < 0.5)
    largest = np.exp2(rng.normal(0, 4, STEPS)).astype(np.float32)
    largest[~finite] = np.nan
    return list(zip(finite, has_nan, loss_finite, largest, rng.random(STEPS, np.float32), strict=True))


@functools.cache
def run(mode):
    """Run all laws through the same steps, in one function: its compilation is what takes time."""
    scalers = [LossScaler(law, name=name) for name, law in LAWS.items()]

    def update(finite, has_nan, loss_finite, largest, underflow):
        observation = Observation(
            finite=finite,
            has_nan=has_nan,
            loss_finite=loss_finite,
            largest_gradient=largest,
            underflow_fraction=underflow,
        )
        for scaler in scalers:
            scaler.update(observation)
        return finite

    step = compiled(update, [variable for scaler in scalers for variable in scaler.variables], mode)
    states = []
    for observation in observations():
        step(*(keras.ops.convert_to_tensor(value) for value in observation))
        states.append([scaler.read() for scaler in scalers])
    return {name: [state[index] for state in states] for index, name in enumerate(LAWS)}


def oracle(law):
    """Run the numpy state machine through the same steps; return its scales and the counters."""
    state, counters, scales = law.initial_state(), initial_counters(), []
    for finite, has_nan, loss_finite, largest, underflow in observations():
        observation = Observation(
            finite=finite,
            has_nan=has_nan,
            loss_finite=loss_finite,
            largest_gradient=largest,
            underflow_fraction=underflow,
        )
        state, counters = law.next(state, observation), count(counters, observation)
        scales.append(state["scale"])
    return np.array(scales), counters


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EXACT)
def test_scales_are_those_of_the_numpy_state_machine_to_the_last_bit(name, mode):
    scales = np.array([state.scale for state in run(mode)[name]], np.float32)

    np.testing.assert_array_equal(scales, oracle(EXACT[name])[0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_scales_of_laws_with_logarithms_are_those_of_numpy_but_for_rounding(name, mode):
    scales = np.array([state.scale for state in run(mode)[name]], np.float32)

    # A float32 log2 of magnitude up to 16 with an error of 4 ulp is off by 4 * 16 * 2**-24 = 2**-18; the quantile of
    # 3.09 deviations enlarges that by 4 at most; 2**x turns it into a relative error of ln 2 times as much.
    np.testing.assert_allclose(scales, oracle(TRANSCENDENTAL[name])[0], rtol=2.0**-16)


@pytest.mark.parametrize("mode", MODES)
def test_counters_are_those_of_the_numpy_twin(mode):
    expected = {name: int(value) for name, value in oracle(EXACT["dynamic"])[1].items()}

    assert run(mode)["dynamic"][-1].counters == expected


@pytest.mark.parametrize("mode", MODES)
def test_history_holds_the_last_64_changes_of_the_scale(mode):
    states = run(mode)["dynamic_in_every_step"]
    scales = [2.0**15, *(state.scale for state in states)]
    changes = [(step, scales[step]) for step in range(1, STEPS + 1) if scales[step] != scales[step - 1]]
    assert len(changes) > 64, "the test must overfill the history"

    assert states[-1].history == tuple(changes[-64:])


def test_no_law_ever_leaves_its_bounds():
    for name, states in run(MODES[-1]).items():
        low, high = getattr(LAWS[name], "min_scale", 128.0), getattr(LAWS[name], "max_scale", 128.0)
        assert all(low <= state.scale <= high for state in states), name


def test_reading_a_state_copies_it_to_the_host():
    state = LossScaler(DynamicScale(256.0)).read()

    assert state.scale == 256.0
    assert set(state.counters.values()) == {0}
    assert state.history == ()
    assert host(LossScaler(DynamicScale(256.0)).scale) == 256.0

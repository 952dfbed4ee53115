"""Laws and counters traced through TensorFlow give the numbers that numpy gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf

from mixte.scaling import (
    PRESETS,
    LossScaleLaw,
    Observation,
    UnderflowScale,
    count,
    initial_counters,
    observe,
    parse_law,
    simulate,
)
from mixte.tensorflow import TENSORFLOW

if TYPE_CHECKING:
    from collections.abc import Callable

LAWS = {
    "fixed": parse_law("fixed:3"),
    "dynamic": parse_law("dynamic:growth_interval=3"),
    "exponential": parse_law("exponential:growth_interval=3"),
    "hysteresis": parse_law("hysteresis:growth_interval=3"),
    "hysteresis, by growth": parse_law("hysteresis:growth_interval=3,growth_delay=1,refill_on=growth"),
    "underflow": UnderflowScale(growth_interval=2, retry_interval=9),
    "torch at the top": parse_law("torch:initial=2^127,growth_interval=1"),
    "keras at the bottom": parse_law("keras:initial=2^-125"),
    "log2": PRESETS["progan"],
    "logmax": parse_law("logmax"),
    "logmax, published": PRESETS["openseq2seq_logmax"],
}

# These two use log2 and exp2, which numpy computes in float32 and TensorFlow in float64 here: each of the two
# results is within one unit in the last place of float32 of the exact value, 2**-23 of it.
INEXACT = {"log2", "logmax", "logmax, published"}


def steps(number: int = 60) -> list[Observation]:
    random = np.random.default_rng(11)
    return [
        observe(
            finite=bool(random.random() < 0.75),
            has_nan=bool(random.random() < 0.5),
            loss_finite=bool(random.random() < 0.8),
            largest_gradient=float(np.float32(np.exp2(random.normal(0, 2)))),
            underflow_fraction=float(random.random()),
        )
        for _ in range(number)
    ]


def as_tensors(observation: Observation) -> Observation:
    return Observation(
        **{name: tf.constant(getattr(observation, name)) for name in Observation.__dataclass_fields__}
    )


def walk(law: LossScaleLaw, compile_step: Callable[[Any], Any]) -> tuple[list[float], dict[str, int]]:
    """Scales before each step and counters after the last, all computed by TensorFlow."""

    def step(state: dict[str, tf.Tensor], counters: dict[str, tf.Tensor], *seen: tf.Tensor) -> Any:
        observation = Observation(**dict(zip(Observation.__dataclass_fields__, seen, strict=True)))
        return law.next(state, observation, TENSORFLOW), count(counters, observation, TENSORFLOW)

    step = compile_step(step)
    state = {name: tf.constant(value) for name, value in law.initial_state().items()}
    counters = {name: tf.constant(value) for name, value in initial_counters().items()}
    form = {name: value.dtype for name, value in state.items()}
    scales = []
    for observation in steps():
        scales.append(float(state["scale"]))
        tensors = as_tensors(observation)
        state, counters = step(
            state, counters, *(getattr(tensors, name) for name in Observation.__dataclass_fields__)
        )
        assert {name: value.dtype for name, value in state.items()} == form
    return scales, {name: int(value) for name, value in counters.items()}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("compile_step", [lambda step: step, tf.function], ids=["eager", "traced"])
def test_scales_and_counters_equal_numpys(name: str, compile_step: Callable[[Any], Any]) -> None:
    expected = simulate(LAWS[name], steps())
    scales, counters = walk(LAWS[name], compile_step)
    if name in INEXACT:
        # x = log2 S enters as 2**x: an error e of x is a factor of 2**e. |x| < 2**7, so one unit in its last
        # place is at most 2**-17; the averages of LogMax carry a few of them along.
        np.testing.assert_allclose(scales, expected.scales, rtol=16 * 2.0**-17)
    else:
        assert scales == expected.scales.tolist()
    assert counters == {key: int(value) for key, value in expected.counters.items()}


@pytest.mark.parametrize("exponent", [-126, -14, -1, 0, 1, 15, 24, 127])
def test_logarithm_and_power_are_exact_at_powers_of_two(exponent: int) -> None:
    assert float(TENSORFLOW.log2(tf.constant(2.0**exponent))) == exponent
    assert float(TENSORFLOW.exp2(tf.constant(float(exponent)))) == 2.0**exponent


def test_logarithm_of_zero_and_power_past_the_range_are_infinite() -> None:
    assert float(TENSORFLOW.log2(tf.constant(0.0))) == -np.inf
    assert float(TENSORFLOW.exp2(tf.constant(128.0))) == np.inf

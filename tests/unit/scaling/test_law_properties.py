"""What holds for every law, on any sequence of steps."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mixte.scaling import (
    PRESETS,
    ContribScale,
    DynamicScale,
    FixedScale,
    HysteresisScale,
    LogMaxScale,
    LossScaleLaw,
    Observation,
    ProGanScale,
    UnderflowScale,
    observe,
)

# Small intervals and narrow bounds, so that short sequences meet every branch; then every published law.
LAWS: dict[str, LossScaleLaw] = {
    "fixed": FixedScale(3.0),
    "dynamic": DynamicScale(7.0, growth_interval=2, min_scale=0.3, max_scale=40.0),
    "dynamic, unbounded": DynamicScale(2.0**126, growth_interval=1, growth_factor=3.7, max_scale=3.4e38),
    "dynamic, huge factor": DynamicScale(1.0, growth_interval=1, growth_factor=3e38, max_scale=3.4e38),
    "contrib": ContribScale(7.0, growth_interval=2, max_scale=40.0),
    "hysteresis": HysteresisScale(7.0, growth_interval=2, min_scale=0.3, max_scale=40.0),
    "hysteresis, by growth": HysteresisScale(7.0, growth_interval=2, hysteresis=3, refill_on="growth"),
    "log2": ProGanScale(7.0, increment=0.7, min_scale=0.3, max_scale=40.0),
    "logmax": LogMaxScale(7.0, min_scale=0.3, max_scale=40.0),
    "logmax, relative": LogMaxScale(variant="relative", min_scale=2.0**-126, max_scale=3.4e38),
    "underflow": UnderflowScale(7.0, growth_interval=2, retry_interval=3, min_scale=0.3, max_scale=40.0),
    "underflow, unbounded": UnderflowScale(growth_interval=1, min_scale=2.0**-126, max_scale=3.4e38),
    **PRESETS,
}

OBSERVATIONS = st.builds(
    lambda finite, has_nan, largest, share: observe(
        finite=finite, has_nan=has_nan, largest_gradient=largest, underflow_fraction=share
    ),
    st.booleans(),
    st.booleans(),
    st.one_of(st.just(0.0), st.just(np.inf), st.just(np.nan), st.floats(0, 2.0**127, width=32)),
    st.floats(0, 1, width=32),
).filter(lambda seen: not seen.finite or np.isfinite(seen.largest_gradient))


def bounds(law: LossScaleLaw) -> tuple[np.float32, np.float32]:
    if isinstance(law, FixedScale):
        return np.float32(law.scale), np.float32(law.scale)
    return np.float32(law.min_scale), np.float32(law.max_scale)


@pytest.mark.parametrize("name", LAWS)
@settings(deadline=None, derandomize=True, max_examples=30)
@given(steps=st.lists(OBSERVATIONS, max_size=60))
def test_scale_stays_finite_positive_and_within_bounds_and_state_keeps_its_form(
    name: str, steps: list[Observation]
) -> None:
    law = LAWS[name]
    low, high = bounds(law)
    state = law.initial_state()
    form = {key: value.dtype for key, value in state.items()}
    assert set(form.values()) <= {np.dtype(np.float32), np.dtype(np.int32)}
    for step in steps:
        state = law.next(state, step)
        assert {key: value.dtype for key, value in state.items()} == form
        assert low <= state["scale"] <= high
        assert 0 < state["scale"] < np.inf
        assert all(np.isfinite(value) for value in state.values())


@pytest.mark.parametrize("name", LAWS)
def test_next_leaves_its_argument_alone(name: str) -> None:
    state = LAWS[name].initial_state()
    before = dict(state)
    for finite in (True, False):
        LAWS[name].next(state, observe(finite=finite))
    assert state == before


@pytest.mark.parametrize("name", sorted(name for name in LAWS if name != "fixed" and "logmax" not in name))
def test_persistent_bad_steps_end_at_the_minimum(name: str) -> None:
    law = LAWS[name]
    state = law.initial_state()
    for _ in range(700):
        state = law.next(state, observe(finite=False))
    assert state["scale"] == bounds(law)[0]


def test_persistent_bad_steps_bring_logmax_to_1() -> None:
    # With x = log_max in every step, mean -> log_max and deviation -> 0, so the scale tends to 2**0.
    law = LogMaxScale(7.0, min_scale=0.3)
    state = law.initial_state()
    for _ in range(700):
        state = law.next(state, observe(finite=False))
    assert state["scale"] == 1.0


@pytest.mark.parametrize("name", LAWS)
def test_law_is_a_frozen_hashable_value_without_a_dictionary(name: str) -> None:
    law = LAWS[name]
    assert is_dataclass(law)
    assert not hasattr(law, "__dict__")
    assert hash(law) == hash(replace(law))
    with pytest.raises(AttributeError):
        setattr(law, fields(law)[0].name, 1.0)


def test_fixed_scale_is_the_same_after_any_step() -> None:
    law = FixedScale(1024)
    assert law.next(law.initial_state(), observe(finite=False)) == {"scale": np.float32(1024)}


def test_growth_follows_exactly_the_nth_consecutive_clean_step() -> None:
    law = DynamicScale(16.0, growth_interval=3)
    scales = []
    state = law.initial_state()
    for finite in (True, True, False, True, True, True, True):
        state = law.next(state, observe(finite=finite))
        scales.append(float(state["scale"]))
    assert scales == [16, 16, 8, 8, 8, 16, 16]


def test_growth_is_cut_at_the_maximum() -> None:
    law = DynamicScale(30.0, growth_interval=1, max_scale=40.0)
    assert law.next(law.initial_state(), observe(finite=True))["scale"] == 40.0


def test_shrinking_is_cut_at_the_minimum() -> None:
    law = DynamicScale(3.0, min_scale=2.0)
    assert law.next(law.initial_state(), observe(finite=False))["scale"] == 2.0


def test_hysteresis_of_one_is_plain_halving() -> None:
    pattern = [True, False, False, True, True, False, False, False, True] * 5
    plain = DynamicScale(2.0**16, growth_interval=2)
    state, other = plain.initial_state(), HysteresisScale(hysteresis=1, growth_interval=2).initial_state()
    for bad in pattern:
        step = observe(finite=not bad)
        state = plain.next(state, step)
        other = HysteresisScale(hysteresis=1, growth_interval=2).next(other, step)
        assert state["scale"] == other["scale"]


def test_only_the_laws_that_read_the_gradients_ask_for_the_costly_observations() -> None:
    needing = {type(law) for law in LAWS.values() if "largest_gradient" in law.needs}
    assert needing == {LogMaxScale, UnderflowScale}
    assert {type(law) for law in LAWS.values() if "underflow_fraction" in law.needs} == {UnderflowScale}

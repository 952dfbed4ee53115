"""Each law against the published sequence of its origin, in the form of the project's table of laws.

The expected numbers were computed from the original algorithms in float64, independently of this package.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mixte.scaling import PRESETS, LossScaleLaw, observe, parse_law, simulate

# name -> skips from the start until the scale is <= 2**15, <= 2**12, at its end (1, or the law's minimum);
# clean steps after an overflow until growth; skips in 100,000 steps that overflow above 2**15; log2 at the end
TABLE = {
    "keras": (0, 3, 15, 2000, 49, 15),
    "tf_keras": (0, 3, 15, 2000, 49, 15),
    "jmp": (0, 3, 15, 2000, 49, 15),
    "torch": (1, 4, 16, 2000, 50, 15),
    "apex": (1, 4, 16, 2000, 50, 15),
    "flax": (1, 4, 16, 2001, 50, 15),
    "apex_fp16_utils": (17, 20, 32, 1000, 116, 15),
    "nvidia_ncf": (106, 126, 200, 1000, 722, 14.784),
    "contrib": (0, 20, 94, 2000, 306, 14.745),
    "nvidia_bert": (34, 40, 64, 1000, 232, 15),
    "openseq2seq_backoff": (0, 2, 14, 2000, 0, 14),
    "progan": (49, 52, 64, None, 99, 14.92),  # growth is smooth: its own test below
    "deepspeed": (2, 5, 17, 1001, 200, 15),
    "deepspeed_consecutive": (2, 5, 17, 1001, 200, 15),
    "apex_hysteresis": (2, 5, 17, 2000, 100, 15),
}

GOOD, BAD = observe(finite=True), observe(finite=False)


def skips_until(law: LossScaleLaw, scale: float) -> int:
    """The number of non-finite steps in a row, from the start, until the scale is at most the given one."""
    state, skips = law.initial_state(), 0
    while state["scale"] > scale:
        state, skips = law.next(state, BAD), skips + 1
    return skips


def clean_steps_until_growth(law: LossScaleLaw) -> int:
    """The number of clean steps after two non-finite ones (hysteresis needs two) until the scale rises."""
    state = law.next(law.next(law.initial_state(), BAD), BAD)
    before, steps = state["scale"], 0
    while state["scale"] <= before:
        state, steps = law.next(state, GOOD), steps + 1
    return steps


@pytest.mark.parametrize("name", TABLE)
def test_descent_from_the_start_takes_the_published_number_of_skips(name: str) -> None:
    to_15, to_12, to_1, *_ = TABLE[name]
    law = PRESETS[name]
    assert (skips_until(law, 2.0**15), skips_until(law, 2.0**12), skips_until(law, 1.0)) == (to_15, to_12, to_1)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row[3] is not None])
def test_growth_follows_the_published_number_of_clean_steps(name: str) -> None:
    assert clean_steps_until_growth(PRESETS[name]) == TABLE[name][3]


# Laws that differ only in their bounds walk the same way here: one of each is enough for 100,000 steps.
@pytest.mark.parametrize("name", sorted(TABLE.keys() - {"tf_keras", "jmp", "apex", "deepspeed_consecutive"}))
def test_skips_in_100_000_steps_that_overflow_above_a_constant_scale(name: str) -> None:
    law, state, skips = PRESETS[name], PRESETS[name].initial_state(), 0
    for _ in range(100_000):
        bad = state["scale"] > 2.0**15
        skips += int(bad)
        state = law.next(state, BAD if bad else GOOD)
    *_, expected_skips, expected_log2 = TABLE[name]
    decimals = 2 if name == "progan" else 3  # as many as are published
    assert skips == expected_skips
    assert round(float(np.log2(state["scale"])), decimals) == expected_log2


@pytest.mark.parametrize(
    ("name", "bad_steps", "scale"),
    [("nvidia_ncf", 106, 31385.507), ("nvidia_ncf", 126, 3369.993), ("contrib", 20, 3518.437)],
)
def test_contrib_scale_after_published_number_of_bad_steps(name: str, bad_steps: int, scale: float) -> None:
    # One multiplication by 0.8 per two bad steps. Each rounds the product by at most 2**-24 of its value, and
    # 0.8 itself is rounded by at most 2**-24; the published values are rounded to 0.0005.
    tolerance = scale * (bad_steps / 2) * 2 * 2.0**-24 + 0.0005
    assert abs(float(simulate(PRESETS[name], [True] * bad_steps).final_scale) - scale) <= tolerance


def test_contrib_from_its_documented_start_of_5000() -> None:
    law = PRESETS["contrib_5000"]
    assert (skips_until(law, 2.0**15), skips_until(law, 2.0**12)) == (0, 2)
    assert simulate(law, [True, True]).final_scale == 4000.0
    assert simulate(replace(law, backoff_factor=0.5), [True, True]).final_scale == 2500.0


def test_plain_halving_from_2_24_needs_9_skips_to_2_15() -> None:
    assert skips_until(parse_law("dynamic:initial=2^24"), 2.0**15) == 9


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("keras", 9),
        ("contrib", 14.034),
        ("deepspeed", 11),
        ("deepspeed_consecutive", 16),
        ("apex_hysteresis", 16),
    ],
)
def test_twelve_steps_that_are_bad_and_clean_in_turn(name: str, expected: float) -> None:
    trace = simulate(PRESETS[name], [True, False] * 6)
    assert round(float(np.log2(trace.final_scale)), 3) == expected
    if expected == 16:
        assert set(trace.scales.tolist()) == {2.0**16}


def test_progan_doubles_in_2000_clean_steps() -> None:
    law = parse_law("progan:initial=2^15")
    trace = simulate(law, [False] * 2000)
    # log2 of the scale stays below 16, where float32 has a spacing of 2**-20, so 0.0005 is rounded by at most
    # 2**-21 in each addition, and by less than that on its own conversion.
    assert abs(float(trace.final_state["log2_scale"]) - 16) <= 2000 * 2 * 2.0**-21


@pytest.mark.parametrize("name", ["torch", "keras", "flax"])
def test_persistent_overflow_ends_at_the_smallest_normal_number_and_not_at_zero(name: str) -> None:
    # From 2**16, 142 halvings give 2**-126: flax's own floor. Keras 3 reaches 0 after 142 skips from 2**15
    # where subnormal numbers are flushed, PyTorch after 166 from 2**16; the next clean step then writes NaN.
    law = replace(PRESETS[name], initial_scale=2.0**16)
    assert skips_until(law, 2.0**-126) == 142
    assert simulate(law, [True] * 400).final_scale == np.float32(2.0**-126)


def test_growth_from_2_127_is_refused_as_pytorch_does() -> None:
    law = parse_law("torch:initial=2^127,growth_interval=1")
    trace = simulate(law, [False] * 5)
    assert set(trace.scales.tolist()) == {2.0**127}
    assert simulate(law, [False, True]).final_scale == 2.0**126


def test_deepspeed_reaches_1_with_the_17th_bad_step_in_a_row() -> None:
    scales = simulate(PRESETS["deepspeed"], [True] * 18).scales
    assert scales[16] == 2.0
    assert scales[17] == 1.0


def test_deepspeed_halves_at_every_bad_step_once_the_allowance_is_used() -> None:
    scales = simulate(PRESETS["deepspeed"], [True, True, False, True, False, True, False]).scales
    assert np.log2(scales).tolist() == [16, 16, 15, 15, 14, 14, 13]


def test_deepspeed_grows_every_1000_steps_after_the_first_growth() -> None:
    scales = simulate(PRESETS["deepspeed"], [False] * 3002).scales
    assert (np.flatnonzero(np.diff(scales)) + 1).tolist() == [1001, 2001, 3001]


def test_flax_grows_every_2001_steps() -> None:
    scales = simulate(PRESETS["flax"], [False] * 4003).scales
    assert (np.flatnonzero(np.diff(scales)) + 1).tolist() == [2001, 4002]

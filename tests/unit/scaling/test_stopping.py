"""When a training is stopped: from counters and the scale alone."""

import pytest

from mixte import InputError
from mixte.scaling import (
    PRESETS,
    ContribScale,
    Descent,
    DynamicScale,
    FixedScale,
    LossScaleLaw,
    StopRule,
    Streak,
    count,
    descent,
    initial_counters,
    judge,
    lengthened,
    observe,
    simulate,
    skipped_once_more,
)

CLEAN = observe(finite=True)
OVERFLOW = observe(finite=False)
BAD_LOSS = observe(finite=False, loss_finite=False)


def stopped_at(law, observations, rule=StopRule()):  # noqa: B008 - immutable
    """Return the number of the step after which the training is stopped, and the reason."""
    streak, counters = Streak(), initial_counters()
    scales = simulate(law, observations).scales.tolist()
    for step, (observation, scale) in enumerate(zip(observations, scales, strict=True), start=1):
        before, counters = counters, count(counters, observation)
        streak = lengthened(streak, before, counters)
        reason = judge(streak, rule, descent(law), scale=scale)
        if reason is not None:
            return step, reason
    return None


# Bad steps to a scale of 1 by section 3.1 of the laws' published reference values: 16 from 2**16, and 32 from 2**32;
# the scale multiplies one step more before it is known not to help.
@pytest.mark.parametrize(
    ("law", "step"),
    [
        (DynamicScale(2.0**16, min_scale=1.0), 17),
        (DynamicScale(2.0**32, min_scale=1.0, max_scale=2.0**32), 33),
        (ContribScale(2.0**32, growth_interval=1000, max_scale=2.0**32), 201),
    ],
    ids=["torch with a floor of 1", "apex.fp16_utils", "contrib"],
)
def test_a_law_whose_scale_has_come_to_its_floor_in_vain_is_stopped_at_once(law, step):
    assert stopped_at(law, [OVERFLOW] * 300) == (step, "floor")


def test_the_search_for_a_first_scale_is_no_reason_to_stop():
    law = DynamicScale(2.0**64, max_scale=2.0**64)
    assert stopped_at(law, [OVERFLOW] * 70 + [CLEAN] * 10) is None


def test_a_law_without_a_floor_of_its_own_is_not_followed_down_for_ever():
    # 30 halvings from 2**16 to 2**-14, the floor of our own laws; the 50 count from there.
    assert stopped_at(PRESETS["flax"], [OVERFLOW] * 200) == (80, "skips")


def test_fifty_skips_in_a_row_stop_a_law_that_is_not_at_its_floor():
    law = DynamicScale(2.0**24, min_scale=2.0**-100)
    assert stopped_at(law, [CLEAN] + [OVERFLOW] * 60) == (51, "skips")
    assert stopped_at(FixedScale(128.0), ([OVERFLOW] * 49 + [CLEAN]) * 4) is None


@pytest.mark.parametrize("after", [1, 5, 200])
def test_the_number_of_skips_can_be_chosen(after):
    assert stopped_at(FixedScale(128.0), [OVERFLOW] * 300, StopRule(after=after)) == (after, "skips")


def test_zero_stops_never():
    assert stopped_at(FixedScale(128.0), [BAD_LOSS] * 300, StopRule(after=0)) is None


def test_a_fixed_scale_has_no_floor_to_arrive_at():
    assert descent(FixedScale(1.0)) == Descent(None, 0)
    assert stopped_at(FixedScale(1.0), [OVERFLOW] * 49) is None


def test_a_loss_that_is_not_finite_ten_times_in_a_row_stops():
    assert stopped_at(DynamicScale(), [BAD_LOSS] * 20) == (10, "loss")
    assert stopped_at(DynamicScale(), [CLEAN, *[BAD_LOSS] * 9, CLEAN] * 3) is None
    assert stopped_at(DynamicScale(), [OVERFLOW] * 5 + [BAD_LOSS] * 20) == (15, "loss")


def test_single_bad_batches_at_the_floor_are_no_reason_to_stop():
    law = DynamicScale(1.0, min_scale=0.5)
    assert stopped_at(law, ([OVERFLOW] * 3 + [CLEAN] * 5) * 40) is None


@pytest.mark.parametrize("name", PRESETS)
def test_every_published_law_ends_if_every_step_is_bad(name):
    law = PRESETS[name]
    stopped = stopped_at(law, [OVERFLOW] * 1100)
    assert stopped is not None
    assert stopped[0] <= descent(law).steps + 50


@pytest.mark.parametrize("steps_read_at_once", [2, 7, 60])
def test_counters_that_are_read_now_and_then_tell_the_same_streak(steps_read_at_once):
    streak, counters = Streak(), initial_counters()
    before = counters
    for step in range(1, 421):
        counters = count(counters, BAD_LOSS if step > 60 else CLEAN)
        if step % steps_read_at_once == 0:
            streak = lengthened(streak, before, counters)
            before = counters
    assert (streak.skips, streak.applied) == (360, 60)
    assert 360 - steps_read_at_once < streak.loss_skips <= 360


def test_skips_seen_without_counters_are_counted():
    streak = Streak()
    for skipped in (True, True, False, True, True, True):
        streak = skipped_once_more(streak, skipped=skipped)
    assert (streak.skips, streak.applied) == (3, None)


@pytest.mark.parametrize("after", [-1, 2.5, True, "50"])
def test_a_number_of_skips_that_is_none_is_refused(after):
    with pytest.raises(InputError, match=r"whole number: 50 by default, 0 to stop never"):
        StopRule(after=after)


def test_presets_are_laws():
    assert all(isinstance(law, LossScaleLaw) for law in PRESETS.values())

"""A step's duration is what passed between the ends, on hosts that wait and on hosts that run ahead."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from mixte.records import StepClock, StepEnd


def ends(*moments: float, begin: float | None = None, alone: bool = False) -> list[StepEnd]:
    """Steps that follow each other, the first from a known beginning."""
    return [
        StepEnd(
            end_s=end, begin_s=begin if index == 0 else None, alone=alone and index == 0 and begin is not None
        )
        for index, end in enumerate(moments)
    ]


def test_a_step_takes_the_time_since_the_end_of_the_one_before() -> None:
    clock = StepClock(runs_ahead=False)
    assert clock.durations_s(ends(1.5, 1.75, 2.0, begin=1.0), complete=True) == [0.5, 0.25, 0.25]
    assert clock.durations_s(ends(2.5), complete=True) == [0.5]


def test_the_very_first_step_is_unknown_where_nobody_knows_when_it_began() -> None:
    clock = StepClock(runs_ahead=False)
    assert clock.durations_s(ends(7.0, 7.5), complete=True) == [None, 0.5]
    assert clock.durations_s(ends(9.0, 9.25, begin=math.nan), complete=True) == [None, 0.25]


def test_a_pause_before_a_step_is_no_part_of_it() -> None:
    clock = StepClock(runs_ahead=False)
    steps = [*ends(1.0, begin=0.0), *ends(60.5, 61.0, begin=60.0)]
    assert clock.durations_s(steps, complete=True) == [1.0, 0.5, 0.5]


def test_ends_noticed_in_the_wrong_order_are_put_in_order() -> None:
    clock = StepClock(runs_ahead=False)
    assert clock.durations_s(ends(1.0, 3.0, 2.0, 4.0, begin=0.0), complete=True) == [1.0, 1.0, 1.0, 1.0]


def test_several_steps_run_as_one_share_its_time() -> None:
    clock = StepClock(runs_ahead=False)
    assert clock.durations_s([StepEnd(begin_s=0.0, end_s=2.0, steps=4)], complete=True) == [0.5]


def test_a_host_that_runs_ahead_gives_the_mean_of_a_tenth_of_a_second() -> None:
    clock = StepClock(runs_ahead=True)
    # Four ends noticed at once, the fifth when 0.125 s have passed.
    burst = ends(0.001, 0.001, 0.002, 0.002, 0.125, begin=0.0)
    assert clock.durations_s(burst, complete=False) == [0.025] * 5


def test_an_open_window_is_kept_for_the_next_call_and_closed_at_the_end() -> None:
    clock = StepClock(runs_ahead=True)
    assert clock.durations_s(ends(0.25, 0.3, begin=0.0), complete=False) == [0.25]
    assert clock.durations_s(ends(0.3), complete=False) == []
    assert clock.durations_s(ends(0.3, 0.35), complete=True) == pytest.approx([0.05, 0.05], abs=1e-15)


def test_a_step_that_compiles_stands_alone_though_the_host_runs_ahead() -> None:
    clock = StepClock(runs_ahead=True)
    first = StepEnd(begin_s=1.0, end_s=1.05, alone=True)
    rest = [StepEnd(end_s=1.06), StepEnd(end_s=1.25)]
    durations = clock.durations_s([*ends(0.01, begin=0.0), first, *rest], complete=True)
    assert durations == pytest.approx([0.01, 0.05, 0.1, 0.1], abs=1e-15)


@given(
    st.lists(st.floats(0.001, 0.2), min_size=1, max_size=60),
    st.booleans(),
    st.lists(st.integers(1, 60), max_size=5),
)
def test_the_durations_add_up_to_what_passed_however_often_they_are_asked_for(
    gaps: list[float], runs_ahead: bool, cuts: list[int]
) -> None:
    moments: list[StepEnd] = []
    now = 0.0
    for gap in gaps:
        moments.append(StepEnd(end_s=now + gap, begin_s=0.0 if not moments else None))
        now += gap
    clock = StepClock(runs_ahead=runs_ahead)
    durations: list[float | None] = []
    for cut in sorted(cuts):
        durations += clock.durations_s(moments[len(durations) : cut], complete=False)
    durations += clock.durations_s(moments[len(durations) :], complete=True)
    assert len(durations) == len(gaps)
    # Each of at most 60 steps adds a few roundings of values below 16, each of at most half an ulp, 2**-50.
    assert sum(duration or 0.0 for duration in durations) == pytest.approx(now, abs=1e-12)

"""Which range a moment lies in; the oracle looks at every range."""

from __future__ import annotations

import pytest

from mixte.profiles.readers._nesting import innermost, outermost_first, parents
from mixte.profiles.readers._steps import Steps


def nested_ranges(rng, begin: int, end: int, depth: int) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    at = begin
    while at < end and depth:
        start = rng.randint(at, end)
        stop = rng.randint(start, end)
        ranges.append((start, stop))
        ranges += nested_ranges(rng, start, stop, depth - 1)
        at = stop + 1
    return ranges


@pytest.mark.parametrize("seed", range(20))
def test_the_innermost_range_is_the_shortest_around_a_moment(seeded, seed):
    rng = seeded(seed)
    ranges = nested_ranges(rng, 0, 300, 5)
    rng.shuffle(ranges)
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    moments = [rng.randrange(-5, 310) for _ in range(200)]
    for moment, found in zip(moments, innermost(starts, ends, moments), strict=True):
        around = [(end - start, -start) for start, end in ranges if start <= moment <= end]
        if found is None:
            assert not around
        else:
            latest = max(start for start, end in ranges if start <= moment <= end)
            assert starts[found] == latest
            assert starts[found] <= moment <= ends[found]
            assert ends[found] - starts[found] == min(length for length, start in around if -start == latest)


@pytest.mark.parametrize("seed", range(20))
def test_a_parent_holds_its_child_and_no_range_lies_between_them(seeded, seed):
    rng = seeded(seed)
    ranges = sorted(set(nested_ranges(rng, 0, 200, 5)), key=lambda _: rng.random())
    starts, ends = [start for start, _ in ranges], [end for _, end in ranges]
    for child, parent in enumerate(parents(starts, ends)):
        around = [
            other
            for other in range(len(ranges))
            if other != child and starts[other] <= starts[child] and ends[other] >= ends[child]
        ]
        if parent is None:
            assert not around
        else:
            assert parent in around
            assert ends[parent] - starts[parent] == min(ends[other] - starts[other] for other in around)


def test_ranges_that_overlap_are_not_each_others_parent():
    assert parents([0, 5], [10, 20]) == [None, None]
    assert innermost([0, 5], [10, 20], [3, 7, 15]) == [0, 1, 1]


def test_a_range_that_ended_is_left_even_below_one_that_goes_on():
    # 1 ends while 2, which began later, goes on; then only 0 is left.
    assert innermost([0, 5, 10], [100, 30, 60], [20, 40, 80]) == [2, 2, 0]


def test_of_ranges_that_begin_together_the_longest_comes_first():
    assert outermost_first([5, 0, 0, 5], [6, 3, 9, 8]) == [2, 1, 3, 0]


def test_nothing_lies_in_no_ranges():
    assert innermost([], [], [1, 2]) == [None, None]
    assert parents([], []) == []


def test_a_step_holds_its_two_ends_and_nothing_between_steps():
    steps = Steps.of([(20, 30, 8), (0, 10, 7)])
    assert [steps.at(moment) for moment in (-1, 0, 10, 15, 20, 30, 31)] == [None, 7, 7, None, 8, 8, None]
    assert steps.numbers == {7, 8}
    assert Steps().at(5) is None

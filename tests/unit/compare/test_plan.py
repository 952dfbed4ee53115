"""The order of the runs favours no policy."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings, strategies as st

from mixte.compare import Cell, plan

POLICIES = st.lists(
    st.sampled_from(["float32", "mixed_float16", "mixed_bfloat16", "a.toml"]), min_size=2, unique=True
)


def test_two_policies_alternate_as_a_b_b_a() -> None:
    order = [(cell.policy, cell.seed) for cell in plan(("A", "B"), (0, 1, 2))]
    assert order == [("A", 0), ("B", 0), ("B", 1), ("A", 1), ("A", 2), ("B", 2)]


@settings(deadline=None)  # a busy machine is no failure
@given(policies=POLICIES, seeds=st.integers(1, 8))
def test_every_policy_runs_once_with_every_seed(policies: list[str], seeds: int) -> None:
    cells = Counter(plan(policies, range(seeds)))
    assert cells == Counter(Cell(policy=policy, seed=seed) for policy in policies for seed in range(seeds))


@settings(deadline=None)  # a busy machine is no failure
@given(policies=POLICIES, half=st.integers(1, 4))
def test_a_linear_drift_cancels_over_an_even_number_of_seeds(policies: list[str], half: int) -> None:
    position = {cell: index for index, cell in enumerate(plan(policies, range(2 * half)))}
    means = {sum(position[Cell(policy=policy, seed=seed)] for seed in range(2 * half)) for policy in policies}
    assert len(means) == 1

"""Which runs a comparison consists of, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of a comparison: the script under one policy with one seed.

    Attributes:
        policy: Name of a preset, or path of a policy file.
        seed: Seed of the run. Runs of one seed see the same data and start from the same weights.
    """

    policy: str
    seed: int


def plan(policies: Sequence[str], seeds: Sequence[int]) -> tuple[Cell, ...]:
    """Order the runs so that a drift of the machine does not favour a policy.

    The runs of one seed follow each other, and every second seed takes the policies in reverse: A B, B A,
    A B ... A linear drift over time (a machine that warms up, a neighbour that gets busier) then cancels in the
    mean of the paired differences over an even number of seeds.

    Args:
        policies: The policies, the first being the one that the others are compared with.
        seeds: The seeds.

    Returns:
        One cell for each policy and seed.

    Example:
        >>> [f"{cell.policy}{cell.seed}" for cell in plan("AB", (0, 1))]
        ['A0', 'B0', 'B1', 'A1']
    """
    return tuple(
        Cell(policy=policy, seed=seed)
        for index, seed in enumerate(seeds)
        for policy in (policies if index % 2 == 0 else reversed(policies))
    )

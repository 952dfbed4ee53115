"""The bounded history of a loss scale: a ring of its last changes, kept in the optimizer's state."""

from __future__ import annotations

from typing import Any

LENGTH = 64
"""How many changes are kept. A halving law in trouble changes at every step; a healthy one every 2000."""


def record_change(*, steps: Any, scales: Any, count: Any, step: Any, before: Any, after: Any, ops: Any) -> Any:
    """Write a change of the scale into the ring, if there was one.

    Args:
        steps: Integer vector of ``LENGTH``: the step after which each kept change happened.
        scales: float32 vector of ``LENGTH``: the scale that each kept change led to.
        count: Integer scalar: how many changes there have been.
        step: Integer scalar: the number of the step just done, from 1.
        before: float32 scalar: the scale that this step used.
        after: float32 scalar: the scale for the next step.
        ops: ``keras.ops``.

    Returns:
        The three next values: steps, scales, count.
    """
    changed = ops.not_equal(before, after)
    slot = ops.equal(ops.arange(LENGTH, dtype=count.dtype), count % LENGTH)
    here = ops.logical_and(slot, changed)
    return (
        ops.where(here, step, steps),
        ops.where(here, after, scales),
        count + ops.cast(changed, count.dtype),
    )


def in_order(steps: Any, scales: Any, count: int) -> list[tuple[int, float]]:
    """Return the kept changes as (step, scale), oldest first, from the ring's values on the host."""
    kept = min(count, LENGTH)
    places = [(count - kept + index) % LENGTH for index in range(kept)]
    return [(int(steps[place]), float(scales[place])) for place in places]

"""Whether two runs were the same training."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixte.records import Record


def same_trajectory(first: Record, second: Record) -> bool:
    """Whether two runs logged the same losses, of steps and of evaluations, to the last bit.

    Two independent trainings never do; the same one repeated does wherever the framework is deterministic.

    Returns:
        True if they did; False if not, or if one of them logged no loss, so that it cannot be told.
    """
    losses = _losses(first)
    return bool(losses) and losses == _losses(second)


def same_precisions(first: Record, second: Record) -> bool:
    """Whether every layer computed in the same dtype in both runs.

    Returns:
        True if so; False if not, or if the layers are not known.
    """
    precisions = _precisions(first)
    return bool(precisions) and precisions == _precisions(second)


def _losses(record: Record) -> bytes:
    # As bytes, so that NaN equals NaN and -0.0 differs from 0.0.
    values = [line.loss for line in (*record.steps, *record.evaluations) if line.loss is not None]
    return struct.pack(f"{len(values)}d", *values)


def _precisions(record: Record) -> list[tuple[str | None, str | None]]:
    # By position, not by path: a framework may number its layers differently in each process.
    return [(x.layer_class, x.compute_dtype) for model in record.run.models for x in model.layers]

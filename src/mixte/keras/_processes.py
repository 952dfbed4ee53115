"""Several PyTorch processes that train together: what each saw of a step, made into what all of them saw.

``DistributedDataParallel`` averages gradients while they are computed, so that each process decides from the same
ones. Not the same are: each one's loss; gradients that are not averaged (inside ``no_sync``, or without
``DistributedDataParallel``); and those of sharded parameters, of which each process has a part. One exchange of a few
numbers makes one decision of all that.
"""

from __future__ import annotations

from typing import Any, Final

from mixte._errors import LossScaleError


def in_one_of_several() -> bool:
    """Tell whether this process is one of several in PyTorch's default process group."""
    from torch import distributed

    return distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1


def seen_by_all(largest: Any, loss_finite: Any, fraction: Any, *, scale: float) -> tuple[float, bool, float]:
    """Return what the gradients of all processes show. Every process of the group must come here in every step.

    Args:
        largest: The largest magnitude of this process's gradients, a float32 scalar tensor; NaN if any is NaN.
        loss_finite: Whether its losses were finite: a scalar bool tensor, or None.
        fraction: Its share of values that underflow, a scalar tensor, or None where no law asks.
        scale: The scale that multiplied its loss.

    Returns:
        The largest magnitude, NaN if any is NaN; whether all losses were finite; the largest share.

    Raises:
        LossScaleError: If the processes scaled their losses differently: their gradients do not belong together.
    """
    import torch

    with torch.no_grad():
        zero = torch.zeros_like(largest)
        nan = largest.isnan()
        sent = torch.stack(
            [
                nan.to(largest.dtype),
                torch.where(nan, zero, largest),  # libraries differ in what the maximum of a NaN is
                zero if loss_finite is None else 1.0 - loss_finite.to(largest.dtype),
                zero if fraction is None else fraction.to(largest.dtype),
                zero + scale,
                zero - scale,
            ]
        )
    _take_maxima(sent)
    any_nan, magnitude, any_loss, share, highest, negated = sent.tolist()
    if highest != -negated:
        raise LossScaleError(
            f"the processes that train together scale their losses differently, from {-negated:g} to {highest:g} (this "
            f"one: {scale:g}), and their gradients were averaged all the same. Give each the same law, and let each "
            "load the same checkpoint."
        )
    return float("nan") if any_nan else magnitude, not any_loss, share


def _take_maxima(values: Any) -> None:
    from torch import distributed

    try:
        distributed.all_reduce(values, op=distributed.ReduceOp.MAX)
    except RuntimeError as error:
        error.add_note(_LOST.format(count=distributed.get_world_size(), rank=distributed.get_rank()))
        raise


_LOST: Final = (
    "mixte: process {rank} of {count} that train together could not agree with the others on this step: one has ended, "
    "or did not come here within the time limit of torch.distributed.init_process_group(timeout=...). The output "
    "of that one tells why. This step was not applied. Start all of them again, from the last checkpoint."
)

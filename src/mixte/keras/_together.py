"""Several updates in one step: of several optimizers, or of one optimizer by several losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mixte._errors import InputError
from mixte.keras._framework import BACKEND, keras
from mixte.keras._observing import combined
from mixte.keras._optimizer import LossScaleOptimizer, check_free
from mixte.keras._ownership import claim, scaled_by
from mixte.keras._scaler import LossScaler
from mixte.keras._tracing import not_converted
from mixte.keras._update import Update, make_if, resolve_variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.scaling import Observation

Skip = Literal["independent", "joint"]


@not_converted
def apply_together(
    updates: Sequence[tuple[LossScaleOptimizer, Sequence[Any], Sequence[Any]]], *, skip: Skip = "independent"
) -> list[Any]:
    """Make the updates of several optimizers as one step, with one decision each or one for all.

    What it adds to calling ``apply`` of each optimizer: with ``skip="joint"`` a non-finite gradient of any holds
    all of them, so that networks that train against each other stay in step; and optimizers that share a
    ``LossScaler`` advance its law once, backing off if any of their gradients is not finite.

    Each law sees only the gradients of its own optimizers: one that was skipped for another's sake keeps its
    scale. The counters count what was done: all of the step is skipped under ``"joint"``, and the causes are
    those of all gradients together.

    Args:
        updates: For each optimizer, itself, the gradients of its scaled loss, and the variables to update.
        skip: ``"independent"`` or ``"joint"``.

    Returns:
        For each optimizer, whether its update was applied: scalar bool tensors.

    Raises:
        InputError: If there is no update, if an optimizer is no ``LossScaleOptimizer`` or comes twice, or
            ``skip`` is neither of the two.
        LossScaleError: As ``LossScaleOptimizer.apply``.

    Example:
        >>> mixte.keras.apply_together(
        ...     [
        ...         (generator_optimizer, generator_gradients, generator.trainable_variables),
        ...         (critic_optimizer, critic_gradients, critic.trainable_variables),
        ...     ],
        ...     skip="joint",
        ... )
    """
    _check_updates(updates, skip)
    optimizers = [optimizer for optimizer, _, _ in updates]
    ready = [optimizer._unscaled_update(list(grads), variables) for optimizer, grads, variables in updates]  # noqa: SLF001 - ours
    seen = [
        optimizer.scaler.observe(unscaled) for optimizer, (unscaled, _) in zip(optimizers, ready, strict=True)
    ]
    waiting = [update for _, update in ready]
    everything = combined(seen)
    if skip == "joint":
        make_if(everything.finite, waiting)
        applied = [everything] * len(waiting)
    else:
        for update, observation in zip(waiting, seen, strict=True):
            make_if(observation.finite, [update])
        applied = seen
    for scaler in {id(optimizer.scaler): optimizer.scaler for optimizer in optimizers}.values():
        own = combined([see for opt, see in zip(optimizers, seen, strict=True) if opt.scaler is scaler])
        scaler.update(own, counted=everything if skip == "joint" else None)
    return [keras.ops.convert_to_tensor(observation.finite) for observation in applied]


@not_converted
def apply_losses(
    optimizer: Any,
    losses: Sequence[tuple[LossScaler, Sequence[Any]]],
    trainable_variables: Sequence[Any] | None = None,
) -> Any:
    """Make one update by the sum of several losses, each of which has a scale of its own.

    Losses whose gradients differ by orders of magnitude (an adversarial loss and a penalty, say) need scales
    that differ as much. The gradients of each are divided by its own scale, in float32, and then added. Each law
    sees the gradients of its own loss; if any is not finite, the update is skipped.

    Args:
        optimizer: The optimizer, not wrapped: the scalers take the place of a ``LossScaleOptimizer``.
        losses: For each loss, the ``LossScaler`` whose ``scale_loss`` scaled it, and its gradients with respect
            to all of the variables; None where it does not depend on one.
        trainable_variables: The variables; those that the optimizer was built with by default.

    Returns:
        Whether the update was applied: a scalar bool tensor.

    Raises:
        InputError: If there is no loss, if a scaler comes twice, or gradients and variables differ in number.
        LossScaleError: If the optimizer scales its loss already, a loss was never scaled, or has only None
            gradients.

    Example:
        >>> adversarial, penalty = mixte.keras.LossScaler(), mixte.keras.LossScaler("fixed:128")
        >>> with tf.GradientTape(persistent=True) as tape:
        ...     first = adversarial.scale_loss(adversarial_loss(model))
        ...     second = penalty.scale_loss(penalty_loss(model))
        >>> losses = [(adversarial, tape.gradient(first, variables)), (penalty, tape.gradient(second, variables))]
        >>> mixte.keras.apply_losses(optimizer, losses, variables)
    """
    scalers = [scaler for scaler, _ in losses]
    _check_losses(optimizer, scalers)
    variables = resolve_variables(optimizer, list(losses[0][1]), trainable_variables)
    seen: list[Observation] = []
    summed: list[Any] = [None] * len(variables)
    for scaler, gradients in losses:
        unscaled = scaler.unscaled(list(gradients))
        if len(unscaled.gradients) != len(variables):
            raise InputError(
                f"the scaler {scaler.name!r} was given {len(unscaled.gradients)} gradients for {len(variables)} "
                "variables. Give one for each; None for a variable on which its loss does not depend."
            )
        seen.append(scaler.observe(unscaled))
        summed = [_sum(total, gradient) for total, gradient in zip(summed, unscaled.gradients, strict=True)]
    everything = combined(seen)
    make_if(everything.finite, [Update(optimizer=optimizer, gradients=summed, variables=variables)])
    for scaler, own in zip(scalers, seen, strict=True):
        scaler.update(own, counted=everything)
    return keras.ops.convert_to_tensor(everything.finite)


def _sum(total: Any, gradient: Any) -> Any:
    if total is None or gradient is None:
        return gradient if total is None else total
    if BACKEND == "tensorflow":
        import tensorflow as tf

        sparse = [part for part in (total, gradient) if isinstance(part, tf.IndexedSlices)]
        if len(sparse) == 2:
            return tf.IndexedSlices(
                tf.concat([part.values for part in sparse], axis=0),
                tf.concat([part.indices for part in sparse], axis=0),
                gradient.dense_shape,
            )
        if sparse:
            dense = gradient if sparse[0] is total else total
            return tf.tensor_scatter_nd_add(dense, sparse[0].indices[:, None], sparse[0].values)
    return keras.ops.add(total, gradient)


def _check_updates(updates: Sequence[tuple[Any, Any, Any]], skip: str) -> None:
    if skip not in ("independent", "joint"):
        raise InputError(f"skip is {skip!r}. It must be 'independent' or 'joint'.")
    if not updates:
        raise InputError(
            "apply_together() was given no update. Give (optimizer, gradients, variables) for each."
        )
    for optimizer, _, _ in updates:
        if not isinstance(optimizer, LossScaleOptimizer):
            raise InputError(
                f"apply_together() needs optimizers of mixte.keras.LossScaleOptimizer, received {optimizer!r}. "
                "Wrap it; with FixedScale(1) if its loss needs no scale."
            )
    if len({id(optimizer) for optimizer, _, _ in updates}) < len(updates):
        raise InputError("apply_together() was given an optimizer twice. Give all its gradients at once.")


def _check_losses(optimizer: Any, scalers: Sequence[Any]) -> None:
    if not scalers:
        raise InputError("apply_losses() was given no loss. Give (scaler, gradients) for each.")
    for scaler in scalers:
        if not isinstance(scaler, LossScaler):
            raise InputError(
                f"apply_losses() needs a mixte.keras.LossScaler for each loss, received {scaler!r}."
            )
    if len({id(scaler) for scaler in scalers}) < len(scalers):
        raise InputError(
            "apply_losses() was given a scaler twice. Losses with one scale are one loss: add them before scaling."
        )
    if not isinstance(scaled_by(optimizer), LossScaler):  # else an earlier step claimed it
        check_free(optimizer)
        claim(optimizer, scalers[0])

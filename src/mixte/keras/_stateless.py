"""One training step as a function of values, for JAX: it scales, differentiates, unscales and applies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mixte._errors import InputError
from mixte.keras._framework import BACKEND, keras
from mixte.keras._optimizer import LossScaleOptimizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Minimized(NamedTuple):
    """What ``stateless_minimize`` returns.

    Attributes:
        value: The unscaled loss; ``(loss, auxiliary)`` with ``has_aux``.
        trainable_variables: The next values of the trainable variables.
        optimizer_variables: The next values of ``optimizer.variables``, the scale and the counters among them.
        applied: Scalar bool array: whether the update was applied. If not, the trainable variables and all of
            the inner optimizer's state are what they were.
    """

    value: Any
    trainable_variables: list[Any]
    optimizer_variables: list[Any]
    applied: Any


def stateless_minimize(
    optimizer: LossScaleOptimizer,
    loss_function: Callable[..., Any],
    trainable_variables: Sequence[Any],
    optimizer_variables: Sequence[Any],
    *args: Any,
    has_aux: bool = False,
) -> Minimized:
    """Take one training step on values, with the loss scaled and the gradients unscaled by the same state.

    It takes the place of ``jax.value_and_grad`` and ``optimizer.stateless_apply`` in a custom JAX loop, inside
    ``jax.jit`` or not. There ``optimizer.scale_loss`` would bake in the scale that it saw when it was traced.

    It works on PyTorch too, where Keras's optimizers change the given tensors in place.

    Args:
        optimizer: A built ``LossScaleOptimizer``.
        loss_function: ``loss_function(trainable_variables, *args)`` returns the unscaled loss, a scalar; or, with
            ``has_aux``, ``(loss, auxiliary)``.
        trainable_variables: The values of the variables that the optimizer was built with, in that order.
        optimizer_variables: The values of ``optimizer.variables``.
        args: What else the loss function needs: a model's other variables, a batch.
        has_aux: Whether the loss function returns something beside the loss.

    Returns:
        ``(value, trainable_variables, optimizer_variables, applied)``.

    Raises:
        InputError: If the optimizer is not a built ``LossScaleOptimizer``, or Keras runs on TensorFlow, whose
            Keras optimizers have no stateless form.

    Example:
        >>> def loss_function(trainable_variables, non_trainable_variables, x, y):
        ...     y_pred, non_trainable_variables = model.stateless_call(
        ...         trainable_variables, non_trainable_variables, x, training=True
        ...     )
        ...     return loss_fn(y, y_pred), non_trainable_variables
        >>> @jax.jit
        ... def train_step(state, x, y):
        ...     trainable, non_trainable, optimizer_variables = state
        ...     (loss, non_trainable), trainable, optimizer_variables, applied = mixte.keras.stateless_minimize(
        ...         optimizer, loss_function, trainable, optimizer_variables, non_trainable, x, y, has_aux=True
        ...     )
        ...     return loss, (trainable, non_trainable, optimizer_variables)
    """
    _check(optimizer)
    trainable, state = list(trainable_variables), list(optimizer_variables)

    def scaled(values: list[Any]) -> tuple[Any, Any]:
        value = loss_function(values, *args)
        loss = value[0] if has_aux else value
        return optimizer.stateless_scale_loss(state, loss), value

    value, gradients = _differentiate(scaled, trainable)
    mapping = list(zip(optimizer._trainable_variables, trainable, strict=True))  # noqa: SLF001 - Keras's own pairing
    mapping += zip(optimizer.variables, state, strict=True)
    with keras.StatelessScope(state_mapping=mapping) as scope:
        applied = optimizer.apply(gradients)
    return Minimized(
        value=value,
        trainable_variables=[scope.get_current_value(v) for v in optimizer._trainable_variables],  # noqa: SLF001 - as above
        optimizer_variables=[scope.get_current_value(v) for v in optimizer.variables],
        applied=applied,
    )


def _differentiate(scaled: Callable[[list[Any]], tuple[Any, Any]], values: list[Any]) -> tuple[Any, list[Any]]:
    """Return what the function returns beside the scaled loss, and the gradients of the scaled loss."""
    if BACKEND == "jax":
        import jax

        (_, value), gradients = jax.value_and_grad(scaled, has_aux=True)(values)
        return value, gradients
    import torch

    leaves = [value.detach().requires_grad_() for value in values]
    loss, value = scaled(leaves)
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    detached = keras.tree.map_structure(lambda x: x.detach() if isinstance(x, torch.Tensor) else x, value)
    return detached, list(gradients)


def _check(optimizer: Any) -> None:
    if not isinstance(optimizer, LossScaleOptimizer):
        raise InputError(
            f"stateless_minimize() needs a mixte.keras.LossScaleOptimizer, received {optimizer!r}. Wrap it; with "
            "FixedScale(1) if its loss needs no scale."
        )
    if BACKEND == "tensorflow":
        raise InputError(
            "stateless_minimize() does not work on TensorFlow, where Keras optimizers have no stateless form. Use "
            "optimizer.scale_loss(loss) inside the gradient tape, and optimizer.apply(gradients, variables)."
        )
    if not optimizer.built:
        raise InputError(
            "the optimizer is not built, so it has no state yet. Call optimizer.build(model.trainable_variables) "
            "before you take the values of optimizer.variables."
        )

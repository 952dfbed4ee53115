"""Several replicas of a ``tf.distribute`` strategy: gradients summed before they are looked at, one decision for all.

Keras's optimizers sum the gradients of all replicas inside of their update. A check before that sees those of its own
replica only: one replica would skip a step that the others make. So the sum is made here, before the check, and the
optimizer is told that it has been made.

On JAX and PyTorch there is one replica in this sense: JAX sums inside of the program that it compiles for all devices,
and PyTorch while gradients are computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte._errors import LossScaleError
from mixte.keras._framework import BACKEND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_REDUCE = "_all_reduce_sum_gradients"  # the method of Keras's optimizers that sums; not public


def in_one_of_several() -> bool:
    """Tell whether this code runs, or is traced, for one of several replicas that train in step."""
    if BACKEND != "tensorflow":
        return False
    import tensorflow as tf

    context = tf.distribute.get_replica_context() if tf.distribute.has_strategy() else None
    return context is not None and context.num_replicas_in_sync > 1


def sum_over_replicas(
    gradients: Sequence[Any], loss_finite: Any, *, untouched: Sequence[bool]
) -> tuple[list[Any], Any]:
    """Add the gradients of all replicas, as Keras's optimizers do, in one exchange.

    A mean over the global batch comes of it because each replica's loss is divided by the number of replicas: Keras
    does so in ``fit``, and a loop of one's own must.

    16-bit gradients are added in float32, so that the sum cannot overflow where its parts do not.

    Args:
        gradients: This replica's; None where a variable has none.
        loss_finite: Whether this replica's loss was finite: a scalar bool tensor, or None where that is not known.
        untouched: For each gradient, whether it is no derivative but the new value of a float8 scale. Each replica
            keeps its own, made NaN if that of any replica is not finite.

    Returns:
        The sums, and whether the losses of all replicas were finite.
    """
    import tensorflow as tf

    finite = tf.constant(True) if loss_finite is None else loss_finite
    places = [place for place, gradient in enumerate(gradients) if gradient is not None]
    sent = [_wide(gradients[place]) for place in places]
    context = tf.distribute.get_replica_context()
    bad, *received = context.all_reduce(
        tf.distribute.ReduceOp.SUM, [tf.cast(tf.logical_not(finite), "float32"), *sent]
    )
    result: list[Any] = list(gradients)
    for place, total in zip(places, received, strict=True):
        result[place] = gradients[place] + 0.0 * total if untouched[place] else total
    return result, tf.equal(bad, 0.0)


def _wide(gradient: Any) -> Any:
    import tensorflow as tf

    return gradient if gradient.dtype in (tf.float32, tf.float64) else tf.cast(gradient, tf.float32)


def require_replicated(variable: Any) -> None:
    """Check that every replica has a copy of its own of a variable.

    Raises:
        LossScaleError: If they would all change the same one, each once per step.
    """
    import tensorflow as tf

    if not isinstance(variable.value, tf.distribute.DistributedValues):
        raise LossScaleError(
            f"the loss scale {variable.name!r} was made outside of the tf.distribute strategy under which it trains: "
            f"its {tf.distribute.get_strategy().num_replicas_in_sync} replicas would each change it in every step. "
            "Make the optimizer, or the LossScaler, and compile the model inside `with strategy.scope():`."
        )


def hand_over_sums(optimizer: Any) -> None:
    """Let an optimizer, and those inside a ``MultiOptimizer``, take gradients that are summed over the replicas."""
    for each in (optimizer, *getattr(optimizer, "optimizers", ())):
        if _REDUCE not in vars(each):
            object.__setattr__(each, _REDUCE, _as_they_are)


def sum_by_itself(optimizer: Any) -> None:
    """Let an optimizer sum over the replicas again, as it does without a scaler."""
    for each in (optimizer, *getattr(optimizer, "optimizers", ())):
        vars(each).pop(_REDUCE, None)


def _as_they_are(grads_and_vars: Any) -> Any:
    return grads_and_vars


def merges_replicas() -> bool:
    """Tell whether updates here merge replicas: such a strategy cannot have them inside a replica's conditional."""
    import tensorflow as tf

    return not tf.__internal__.distribute.strategy_supports_no_merge_call()


def choose_for_all(flag: Any, if_true: Callable[[], object], if_false: Callable[[], object]) -> None:
    """Run one of two functions on every replica, without running the other: one conditional around all replicas.

    Args:
        flag: Scalar bool tensor, the same on every replica.
        if_true: What this replica does if it holds.
        if_false: What this replica does otherwise.
    """
    import tensorflow as tf

    def on_all(strategy: Any, flags: Any, on_true: Any, on_false: Any) -> None:
        first = strategy.experimental_local_results(flags)[0]

        def each(functions: Any) -> Callable[[], Any]:
            def run() -> Any:
                strategy.extended.call_for_each_replica(_call, args=(functions,))
                return tf.constant(True)

            return run

        tf.cond(first, each(on_true), each(on_false))

    tf.distribute.get_replica_context().merge_call(on_all, args=(flag, if_true, if_false))


def _call(function: Callable[[], object]) -> None:
    function()

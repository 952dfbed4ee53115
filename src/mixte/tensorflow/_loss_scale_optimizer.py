"""Loss scaling for the optimizers of tf.compat.v1.train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final
from weakref import WeakSet

from mixte._errors import InputError, LossScaleError
from mixte.scaling import DynamicScale, Observation
from mixte.tensorflow._framework import tf
from mixte.tensorflow._gradients import all_finite, observe, scaled, unscaled
from mixte.tensorflow._scale_variables import ScaleVariables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixte.scaling import LossScaleLaw

_BaseOptimizer = tf.compat.v1.train.Optimizer
_OTHER_SCALER = tf.compat.v1.train.experimental.MixedPrecisionLossScaleOptimizer

_wrapped: Final[WeakSet[Any]] = WeakSet()
"""The optimizers that a ``LossScaleOptimizer`` holds: two scalers on one would unscale twice."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Computed:
    """What one ``compute_gradients`` gave and saw, for ``apply_gradients``."""

    gradients: list[Any]
    observation: Observation
    scale: Any

    def gave(self, gradients: list[Any]) -> bool:
        """Tell whether these are all of the gradients, and the same objects: neither clipped nor changed."""
        mine = {id(gradient) for gradient in self.gradients if gradient is not None}
        return mine == {id(gradient) for gradient in gradients if gradient is not None}


@final
class LossScaleOptimizer(_BaseOptimizer):
    """An optimizer that scales the loss, unscales the gradients, and skips steps whose gradients are not finite.

    The successor of ``tf.contrib.mixed_precision.LossScaleOptimizer``, with the same three calls, on any law of
    ``mixte.scaling``:

    - ``compute_gradients`` multiplies the loss by the scale in float32 and returns gradients that are already
      unscaled, in float32: clip them, by norm or by value, as without scaling. None gradients are allowed;
      IndexedSlices stay sparse, and only their values are looked at.
    - ``apply_gradients`` applies them if all are finite - as given, and as they were computed, so that clipping
      to a range cannot hide an overflow - whatever the loss: a float16 sum that overflowed may have true
      gradients. Otherwise nothing is changed but the scale and the counters: not the
      variables, not the slots, and not ``global_step``, so a learning-rate schedule waits for skipped steps.
    - ``minimize`` does both.

    Works in a TensorFlow 1 graph, in a ``tf.function`` and eagerly. The scale and the counters are variables,
    initialized by ``tf.compat.v1.global_variables_initializer`` and saved in checkpoints.

    Args:
        optimizer: An optimizer of ``tf.compat.v1.train``.
        law: A law of ``mixte.scaling``; ``DynamicScale()`` if not given.

    Raises:
        InputError: If ``optimizer`` is not one of ``tf.compat.v1.train``, or ``law`` not a law.
        LossScaleError: If ``optimizer`` scales its loss already, or is wrapped by another loss-scale optimizer.

    Example:
        >>> with tf.Graph().as_default():
        ...     optimizer = LossScaleOptimizer(tf.compat.v1.train.AdamOptimizer(0.1, 0.9), FixedScale(128))
        ...     weight = tf.compat.v1.get_variable("weight", [])
        ...     train = optimizer.minimize(weight * weight)
    """

    def __init__(self, optimizer: Any, law: LossScaleLaw | None = None) -> None:
        _check_wrappable(optimizer)
        super().__init__(use_locking=False, name=f"LossScale{optimizer.get_name()}")
        self._optimizer = optimizer
        self._variables = ScaleVariables(DynamicScale() if law is None else law)
        self._computed: dict[Any, _Computed] = {}
        self._track_trackable(optimizer, "base_optimizer")
        self._track_trackable(self._variables, "loss_scale")
        _wrapped.add(optimizer)

    @property
    def law(self) -> LossScaleLaw:
        """The law."""
        return self._variables.law

    @property
    def base_optimizer(self) -> Any:
        """The wrapped optimizer."""
        return self._optimizer

    @property
    def loss_scale(self) -> Any:
        """The loss scale of the next step: a float32 variable."""
        return self._variables.scale

    @property
    def counters(self) -> dict[str, Any]:
        """The counters by name, int32 variables; see ``mixte.scaling.initial_counters``."""
        return dict(self._variables.counters)

    def compute_gradients(self, loss: Any, *arguments: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Compute the gradients of the scaled loss and unscale them.

        Args:
            loss: A floating tensor, or (eagerly, necessarily) a function that returns one.
            *arguments: As in ``tf.compat.v1.train.Optimizer.compute_gradients``.
            **named: As there. A ``grad_loss`` is multiplied by the scale like the loss.

        Returns:
            Pairs of a gradient - float32 tensor, IndexedSlices or None - and its variable.

        Raises:
            LossScaleError: If a variable is stored in 16 bits, or if all gradients are None.
        """
        scale = self.loss_scale.read_value()
        seen: list[Any] = []

        def scaled_loss() -> Any:
            value = loss() if callable(loss) else loss
            seen.append(all_finite(value))
            return scaled(value, scale)

        if named.get("grad_loss") is not None:
            named["grad_loss"] = tf.cast(named["grad_loss"], tf.float32)
        pairs = self._optimizer.compute_gradients(
            scaled_loss if callable(loss) else scaled_loss(), *arguments, **named
        )
        _refuse_narrow_storage(variable for _, variable in pairs)
        result = [(unscaled(gradient, scale), variable) for gradient, variable in pairs]
        gradients = [gradient for gradient, _ in result]
        observation = observe(gradients, loss_finite=seen[0], scale=scale, needs=self.law.needs)
        computed = _Computed(gradients=gradients, observation=observation, scale=scale)
        self._computed.update({variable.ref(): computed for _, variable in result})
        return result

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: Any = None
    ) -> Any:
        """Apply the gradients if all are finite, and advance the scale and the counters.

        Args:
            grads_and_vars: Pairs from ``compute_gradients`` of this optimizer, clipped or filtered at will.
            global_step: A variable that is raised by one if the step is applied.
            name: Name of the operation.

        Returns:
            The operation to run in a graph; None eagerly.

        Raises:
            LossScaleError: If the gradients did not come from ``compute_gradients``, or if all are None.
        """
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars]
        computed = self._computed_for([variable for _, variable in pairs])
        observation = self._observe([gradient for gradient, _ in pairs], computed)
        present = [(gradient, variable) for gradient, variable in pairs if gradient is not None]

        def apply() -> Any:
            return tf.group(self._optimizer.apply_gradients(present, global_step=global_step))

        applied = tf.cond(observation.finite, apply, tf.no_op)
        dependencies = [] if applied is None else [applied]
        with tf.control_dependencies(dependencies):
            update = self._variables.update(observation)
        return None if update is None else tf.group(*dependencies, update, name=name or self.get_name())

    def _observe(self, gradients: list[Any], computed: list[_Computed]) -> Observation:
        """Look at the gradients to be applied, and back at what was seen when they were computed."""
        if len(computed) == 1 and computed[0].gave(gradients):
            return computed[0].observation
        before = [each.observation for each in computed]
        given = observe(
            gradients,
            loss_finite=_all([each.loss_finite for each in before]),
            scale=computed[-1].scale if computed else self.loss_scale.read_value(),
            needs=self.law.needs,
        )
        return Observation(
            finite=_all([given.finite, *(each.finite for each in before)]),
            has_nan=_any([given.has_nan, *(each.has_nan for each in before)]),
            loss_finite=given.loss_finite,
            largest_gradient=given.largest_gradient,
            underflow_fraction=given.underflow_fraction,
        )

    def _computed_for(self, variables: list[Any]) -> list[_Computed]:
        """Return the last ``compute_gradients`` of these variables, where its tensors can be used here."""
        missing = [variable.name for variable in variables if variable.ref() not in self._computed]
        if missing:
            raise LossScaleError(
                f"the gradient of {missing[0]} was not computed by compute_gradients of this optimizer, so its "
                "loss was not scaled. Get the gradients from compute_gradients, or call minimize."
            )
        distinct = {id(each): each for variable in variables if (each := self._computed[variable.ref()])}
        return [each for each in distinct.values() if _in_reach(each.observation.finite)]

    def get_slot(self, var: Any, name: str) -> Any:
        """Return a slot of the wrapped optimizer."""
        # get_slot_names is not passed on: a checkpoint would then save every slot twice, which TensorFlow
        # refuses. The names are those of the wrapped optimizer, `base_optimizer`.
        return self._optimizer.get_slot(var, name)

    def variables(self) -> list[Any]:
        """Return the variables of the wrapped optimizer, the scale with its law's state, and the counters."""
        return [*self._optimizer.variables(), *self._variables.variables]


def _check_wrappable(optimizer: Any) -> None:
    if isinstance(optimizer, (LossScaleOptimizer, _OTHER_SCALER)):
        raise LossScaleError(
            f"{type(optimizer).__name__} scales its loss already: wrapped again, gradients would be unscaled "
            "by the wrong factor. Wrap the plain optimizer once."
        )
    if not isinstance(optimizer, _BaseOptimizer):
        raise InputError(
            f"the optimizer is {optimizer!r}. It must be an optimizer of tf.compat.v1.train. For a Keras "
            "optimizer use mixte.keras.LossScaleOptimizer; for your own update, mixte.tensorflow.LossScaler."
        )
    if optimizer in _wrapped:
        raise LossScaleError(
            f"this {type(optimizer).__name__} is wrapped by another LossScaleOptimizer. Two scalers on one "
            "optimizer disagree on the scale: use the first, or make a second optimizer."
        )


def _refuse_narrow_storage(variables: Iterable[Any]) -> None:
    for variable in variables:
        if variable.dtype.base_dtype in {tf.float16, tf.bfloat16}:
            raise LossScaleError(
                f"the variable {variable.name} is stored in {variable.dtype.base_dtype.name}: small updates "
                "would be lost. Store it in float32 and compute in 16 bits with mixte.tensorflow: with "
                "float32_variable_storage_getter for get_variable, float32_variable_storage for tf.Variable."
            )


def _in_reach(tensor: Any) -> bool:
    """Tell whether a tensor can be used here: it is a value, or belongs to the graph that is being built."""
    return (
        tf.executing_eagerly()
        if not hasattr(tensor, "graph")
        else tensor.graph is tf.compat.v1.get_default_graph()
    )


def _all(conditions: list[Any]) -> Any:
    return tf.reduce_all(tf.stack(conditions)) if conditions else tf.constant(True)


def _any(conditions: list[Any]) -> Any:
    return tf.reduce_any(tf.stack(conditions))

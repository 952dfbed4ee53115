"""Loss scaling for loops with tf.GradientTape, without Keras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixte._errors import LossScaleError
from mixte.scaling import DynamicScale
from mixte.tensorflow._framework import tf
from mixte.tensorflow._gradients import all_finite, observe, scaled, unscaled
from mixte.tensorflow._scale_variables import ScaleVariables

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.scaling import LossScaleLaw, Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class UnscaledGradients:
    """Gradients after they were unscaled, and what was seen of them.

    Attributes:
        gradients: In the structure that was given: float32 tensors or IndexedSlices, or None.
        observation: What the law and the counters are told.
    """

    gradients: Any
    observation: Observation

    @property
    def finite(self) -> Any:
        """Scalar bool tensor: whether the step may be applied."""
        return self.observation.finite


class LossScaler(tf.Module):
    """Scale losses, unscale gradients, skip the steps whose gradients are not finite, and move the scale by a law.

    Works eagerly, in a ``tf.function`` and in a graph. All arithmetic with the scale is done in float32. Its
    variables are saved by ``tf.train.Checkpoint``.

    Args:
        law: A law of ``mixte.scaling``; ``DynamicScale()`` if not given.

    Example:
        >>> weight = tf.Variable(3.0)
        >>> scaler = LossScaler(DynamicScale(1024))
        >>> with tf.GradientTape() as tape:
        ...     loss = weight * weight
        ...     scaled_loss = scaler.scale(loss)
        >>> gradients = tape.gradient(scaled_loss, [weight])
        >>> applied = scaler.step(gradients, lambda gradients: weight.assign_sub(0.1 * gradients[0]), loss=loss)
        >>> bool(applied), round(float(weight), 4)
        (True, 2.4)
    """

    def __init__(self, law: LossScaleLaw | None = None) -> None:
        super().__init__(name="loss_scaler")
        self._variables = ScaleVariables(DynamicScale() if law is None else law)
        self._has_scaled = False

    @property
    def law(self) -> LossScaleLaw:
        """The law."""
        return self._variables.law

    @property
    def loss_scale(self) -> Any:
        """The loss scale of the next step: a float32 variable."""
        return self._variables.scale

    @property
    def counters(self) -> dict[str, Any]:
        """The counters by name, int32 variables; see ``mixte.scaling.initial_counters``."""
        return dict(self._variables.counters)

    def scale(self, loss: Any) -> Any:
        """Return the loss times the scale, in float32; call it inside the gradient tape.

        Args:
            loss: A floating tensor of any shape, or a nest of them.
        """
        self._has_scaled = True
        return tf.nest.map_structure(lambda each: scaled(each, self.loss_scale), loss)

    def unscale(self, gradients: Any, *, loss: Any = None) -> UnscaledGradients:
        """Return the gradients divided by the scale, in float32, and whether all of them are finite.

        For clipping, penalties on gradients (the division is differentiable) or several optimizers; end the
        step with ``update``. ``step`` does it all in the plain case.

        Args:
            gradients: A nest of tensors, IndexedSlices and None, as ``tf.GradientTape.gradient`` returns it.
            loss: The loss before scaling: if it is not finite, that counts as the cause of gradients that are not.
                Finite gradients are applied whatever the loss.

        Raises:
            LossScaleError: If all gradients are None, or if no loss was ever scaled.
        """
        if not self._has_scaled:
            raise LossScaleError(
                "gradients are to be unscaled, but this LossScaler never scaled a loss: they would become "
                "smaller by the loss scale. Call scale(loss) inside the tape and take gradients of the result."
            )
        scale = self.loss_scale.read_value()
        result = tf.nest.map_structure(lambda gradient: unscaled(gradient, scale), gradients)
        observation = observe(
            tf.nest.flatten(result),
            loss_finite=tf.constant(True) if loss is None else all_finite(loss),
            scale=scale,
            needs=self.law.needs,
        )
        return UnscaledGradients(gradients=result, observation=observation)

    def update(self, observation: Observation) -> Any:
        """Advance the scale and the counters by one step: once per step, after all that uses the scale."""
        return self._variables.update(observation)

    def step(self, gradients: Any, apply: Callable[[Any], Any], *, loss: Any = None) -> Any:
        """Unscale, apply the gradients if all are finite, and advance the scale.

        Args:
            gradients: The gradients of the scaled loss; see ``unscale``.
            apply: Takes the unscaled gradients and updates the variables. It must not make variables inside a
                ``tf.function``: there it is traced as a branch. In a TensorFlow 1 graph it must return what is to
                be run: an operation, a variable, a tensor, or a nest of them.
            loss: The loss before scaling; see ``unscale``.

        Returns:
            Scalar bool tensor: whether the step was applied.

        Raises:
            LossScaleError: If all gradients are None, or if no loss was ever scaled.
        """
        unscaled_gradients = self.unscale(gradients, loss=loss)
        finite = unscaled_gradients.finite

        def applied() -> Any:
            with tf.control_dependencies(_to_be_run(apply(unscaled_gradients.gradients))):
                return tf.constant(True)

        done = tf.cond(finite, applied, lambda: tf.constant(False))
        with tf.control_dependencies([done]):
            update = self.update(unscaled_gradients.observation)
        with tf.control_dependencies([] if update is None else [update]):
            return tf.identity(done)


def _to_be_run(result: Any) -> list[Any]:
    """Return what a step must wait for in a graph, from what the caller's function returned; nothing eagerly."""
    if tf.executing_eagerly():
        return []
    parts = [
        part for part in tf.nest.flatten(result) if isinstance(part, (tf.Operation, tf.Tensor, tf.Variable))
    ]
    return [tf.convert_to_tensor(part) if isinstance(part, tf.Variable) else part for part in parts]

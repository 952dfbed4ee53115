"""The loss-scaling optimizer: any Keras optimizer, any law, the same on three backends."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final, Literal, final

from mixte._errors import InputError, LossScaleError
from mixte.keras._conditional import apply_if, stale_trace
from mixte.keras._framework import BACKEND, BaseOptimizer, keras
from mixte.keras._scaler import LossScaler, ScalerState
from mixte.keras._survey import survey, unscale
from mixte.scaling import DynamicScale, FixedScale, LossScaleLaw, law_from_config, law_to_config

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OnSkip = Literal["hold", "advance"]
_ON_SKIP: Final = ("hold", "advance")


@final
@keras.saving.register_keras_serializable(package="mixte")
class LossScaleOptimizer(keras.optimizers.LossScaleOptimizer):
    """Scale the loss, unscale the gradients, and skip the steps whose gradients are not finite.

    A subclass of Keras's own, so that ``Model.compile`` takes it as it is, and a drop-in replacement of it: in
    ``fit``, in a custom ``train_step`` (``loss = self.optimizer.scale_loss(loss)`` before the gradients are
    taken), and in bare loops. What it does besides:

    - Any law of ``mixte.scaling``, with bounds: the scale is never 0 and never infinite. A fixed scale too is
      guarded: a non-finite step is skipped, not applied.
    - The loss is multiplied in float32, and the gradients are divided in float32 by the very scale that
      multiplied the loss. The check is made on the unscaled gradients.
    - Skips are counted by cause, with the scale's history: ``read_state``.
    - ``apply`` returns whether the update was applied.
    - What would train wrongly in silence is an error: a loss that was never scaled, a second scaler around
      the same optimizer, a JAX trace into which the scale would be baked.

    Args:
        inner_optimizer: The optimizer to wrap. If it has a ``loss_scale_factor`` and no law is given, that
            factor becomes a ``FixedScale``.
        law: A law of ``mixte.scaling``, its text (``"dynamic:initial=1024"``), a number (the initial scale of
            a ``DynamicScale``), or a ``LossScaler`` that several optimizers share. By default ``DynamicScale()``:
            from 2**15, doubled after 2000 clean steps, halved at once.
        initial_scale: As Keras's: the initial scale of a ``DynamicScale``. Not together with a law.
        dynamic_growth_steps: As Keras's: its growth interval. Not together with a law.
        iterations_on_skip: What a skipped step does to ``iterations``, and so to learning-rate schedules:
            ``"hold"`` (as Keras 3: only applied steps count) or ``"advance"`` (as tf_keras: all steps count).
            Moments, moving averages and weights are held in both.
        name: Name of the optimizer.

    Raises:
        InputError: If an argument is none of what is allowed.
        LossScaleError: If the optimizer scales the loss already, or is wrapped by another scaler.
    """

    def __init__(
        self,
        inner_optimizer: Any,
        law: LossScaleLaw | LossScaler | str | float | None = None,
        *,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
        iterations_on_skip: OnSkip = "hold",
        name: str | None = None,
    ) -> None:
        _check_inner(inner_optimizer)
        if iterations_on_skip not in _ON_SKIP:
            raise InputError(f"iterations_on_skip is {iterations_on_skip!r}. It must be 'hold' or 'advance'.")
        scaler = _scaler(inner_optimizer, law, initial_scale, dynamic_growth_steps)
        super().__init__(inner_optimizer, name=name or "loss_scale_optimizer")
        self.scaler = scaler
        self.iterations_on_skip = iterations_on_skip
        for variable in scaler.variables:
            self._track_variable(variable)
        self._loss_was_scaled = False
        self._losses_finite: list[tuple[Any, Any]] = []
        _mark_wrapped(inner_optimizer, self)

    @property
    def law(self) -> LossScaleLaw:
        """The loss-scaling law."""
        return self.scaler.law

    @property
    def dynamic_scale(self) -> Any:
        """The scale for the next loss, as a scalar tensor; reading it counts as scaling the loss by hand."""
        self._loss_was_scaled = True
        return self.scaler.scale

    def build(self, var_list: Sequence[Any]) -> None:
        """Create the inner optimizer's variables for the given ones."""
        self.inner_optimizer.build(var_list)
        # Not Keras's loss-scaling build: it would add a second, unused scale.
        BaseOptimizer.build(self, var_list)

    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the scale, in float32 at least.

        Args:
            loss: Floating tensor of any shape.

        Returns:
            The scaled loss: float32, or float64 for a float64 loss.

        Raises:
            LossScaleError: In a JAX trace outside a ``StatelessScope``: the scale of that moment would be
                baked into the compiled program and never change. Use ``stateless_minimize``.
        """
        if stale_trace(loss):
            raise LossScaleError(_BAKED_SCALE)
        self._loss_was_scaled = True
        self._remember_loss(loss)
        return self.scaler.scale_loss(loss)

    def apply(self, grads: Iterable[Any], trainable_variables: Sequence[Any] | None = None) -> Any:
        """Unscale the gradients and apply them, unless one is not finite.

        Args:
            grads: The gradients of the scaled loss, in the order of the variables; None where a variable has no
                part in the loss; sparse ones stay sparse.
            trainable_variables: The variables to update; those that the optimizer was built with by default.

        Returns:
            A scalar bool tensor: whether the update was applied.

        Raises:
            LossScaleError: If the loss was never scaled, if all gradients are None, or in a JAX trace outside a
                ``StatelessScope``.
        """
        gradients = list(grads)
        if any(stale_trace(gradient) for gradient in gradients):
            raise LossScaleError(_STATEFUL_IN_TRACE)
        self._check_scaled()
        variables = self._resolve_variables(trainable_variables)
        if not gradients:
            return keras.ops.convert_to_tensor(True)
        scale = self.scaler.scale
        untouched = [self._overwrite_variable_with_gradient(variable) for variable in variables]
        unscaled = unscale(gradients, scale, untouched=untouched)
        observation = survey(
            unscaled, scale=scale, loss_finite=self._take_losses_finite(), needs=self.law.needs
        )
        self._update(observation.finite, unscaled, variables)
        self.scaler.update(observation)
        return observation.finite

    def unscale(self, grads: Iterable[Any]) -> list[Any]:
        """Return the true gradients in float32, for logging, or to clip them by hand.

        They are for reading: ``apply`` takes the scaled ones and unscales them itself. The inner optimizer's
        ``clipnorm``, ``global_clipnorm`` and ``clipvalue`` act on true gradients already.
        """
        gradients = list(grads)
        return unscale(gradients, self.scaler.scale, untouched=[False] * len(gradients))

    def read_state(self) -> ScalerState:
        """Copy scale, counters and the scale's history to the host. Waits for the device."""
        return self.scaler.read()

    def stateless_apply(
        self, optimizer_variables: Sequence[Any], grads: Sequence[Any], trainable_variables: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """As ``apply``, on values: return the next ``(trainable_variables, optimizer_variables)``.

        Args:
            optimizer_variables: Current values of ``self.variables``.
            grads: The gradients of the loss that was scaled with the same ``optimizer_variables``.
            trainable_variables: Current values of the variables that the optimizer was built with.
        """
        return BaseOptimizer.stateless_apply(self, optimizer_variables, grads, trainable_variables)

    def stateless_scale_loss(self, optimizer_variables: Sequence[Any], loss: Any) -> Any:
        """Scale a loss by the scale in ``optimizer_variables``: for compiled JAX code, where ``scale_loss`` would
        bake in the scale that it saw when it was traced.
        """  # noqa: D205 - one sentence needs two lines
        with keras.StatelessScope(state_mapping=list(zip(self.variables, optimizer_variables, strict=True))):
            return self.scale_loss(loss)

    @property
    def variables(self) -> list[Any]:
        """All state: the optimizer's own, the scaler's, and the inner optimizer's."""
        return self._variables + self.inner_optimizer.variables

    def get_config(self) -> dict[str, Any]:
        """Return what ``from_config`` rebuilds the optimizer from: no state."""
        return {
            "name": self.name,
            "inner_optimizer": keras.saving.serialize_keras_object(self.inner_optimizer),
            "law": law_to_config(self.law),
            "iterations_on_skip": self.iterations_on_skip,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        """Rebuild the optimizer from its own configuration, or from that of Keras's loss-scaling optimizer."""
        config = dict(config)
        inner = keras.saving.deserialize_keras_object(
            config.pop("inner_optimizer"), custom_objects=custom_objects
        )
        law = config.pop("law", None)
        return cls(inner, None if law is None else law_from_config(law), **config)

    def _update(self, finite: Any, gradients: list[Any], variables: list[Any]) -> None:
        inner = self.inner_optimizer
        iterations = inner._iterations  # noqa: SLF001 - `iterations` is divided by the accumulation steps
        apply_if(
            finite,
            lambda: inner.apply(gradients, variables),
            affected=[*variables, *inner.variables],
        )
        if self.iterations_on_skip == "advance":
            iterations.assign_add(keras.ops.cast(keras.ops.logical_not(finite), iterations.dtype))

    def _resolve_variables(self, trainable_variables: Sequence[Any] | None) -> list[Any]:
        if trainable_variables is None:
            if not self.built:
                raise InputError(
                    "apply() was given no variables, and the optimizer is not built. Pass the variables, or call "
                    "optimizer.build(model.trainable_variables) first."
                )
            return list(self._trainable_variables)
        variables = list(trainable_variables)
        if not self.built:
            with keras.name_scope(self.name):
                self.build(variables)
        return variables

    def _check_scaled(self) -> None:
        if not self._loss_was_scaled and self.scaler.scales:
            raise LossScaleError(_NEVER_SCALED)

    def _remember_loss(self, loss: Any) -> None:
        # JAX differentiates a function, whose trace must not leak into the update's: there the loss is unknown.
        if BACKEND != "jax":
            finite = keras.ops.all(keras.ops.isfinite(keras.ops.convert_to_tensor(loss)))
            self._losses_finite.append((_current_graph(), finite))

    def _take_losses_finite(self) -> Any:
        """Return whether all losses scaled since the last update were finite; None where that is unknown."""
        remembered, self._losses_finite = self._losses_finite, []
        here = _current_graph()
        known = [finite for graph, finite in remembered if graph is here]
        if not known:
            return None
        return known[0] if len(known) == 1 else keras.ops.all(keras.ops.stack(known))


_NEVER_SCALED: Final = (
    "this optimizer divides the gradients by the loss scale, but the loss was never multiplied by it: the model "
    "would train at a tiny fraction of its learning rate. In the train_step or the loop, before the gradients "
    "are taken, write: loss = optimizer.scale_loss(loss). To train without loss scaling instead, use "
    "FixedScale(1) (on the command line: --loss-scale none)."
)
_BAKED_SCALE: Final = (
    "scale_loss() was called while JAX traces a function, outside a StatelessScope: the scale of this moment would "
    "be baked into the compiled program, while the gradients are divided by the live one. Use "
    "optimizer.stateless_scale_loss(optimizer_variables, loss) with the variables that you pass to "
    "stateless_apply(), or mixte.keras.stateless_minimize(), which does both."
)
_STATEFUL_IN_TRACE: Final = (
    "apply() was called with gradients that JAX is tracing: its updates would be lost, or leak tracers. Inside "
    "jit use optimizer.stateless_apply(optimizer_variables, gradients, trainable_variables), or "
    "mixte.keras.stateless_minimize(), which also scales the loss."
)


def _current_graph() -> Any:
    if BACKEND != "tensorflow":
        return None
    import tensorflow as tf

    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def _check_inner(inner: Any) -> None:
    if isinstance(inner, keras.optimizers.LossScaleOptimizer):
        raise LossScaleError(
            f"{inner.name!r} scales the loss already; a second scaler around it would divide the gradients twice. "
            "Pass the optimizer inside it: its inner_optimizer."
        )
    if not isinstance(inner, keras.optimizers.Optimizer):
        raise InputError(
            f"a Keras optimizer is needed, received {inner!r} ({type(inner).__name__}). Pass for example "
            "keras.optimizers.Adam(1e-3)."
        )
    reference = getattr(inner, "_mixte_wrapped_by", None)
    owner = reference() if reference is not None else None
    if owner is not None:
        raise LossScaleError(
            f"{inner.name!r} is wrapped by the loss-scaling optimizer {owner.name!r} already. One optimizer has "
            "one scaler: use that one, or make a new inner optimizer."
        )


def _mark_wrapped(inner: Any, owner: Any) -> None:
    object.__setattr__(inner, "_mixte_wrapped_by", weakref.ref(owner))


def _scaler(inner: Any, law: Any, initial_scale: float | None, growth_steps: int | None) -> LossScaler:
    if law is not None and (initial_scale is not None or growth_steps is not None):
        raise InputError(
            "both a law and initial_scale or dynamic_growth_steps were given. The two describe a DynamicScale: "
            "write DynamicScale(initial_scale, growth_interval=dynamic_growth_steps) as the law."
        )
    if isinstance(law, LossScaler):
        return law
    if law is not None:
        return LossScaler(law)
    if initial_scale is not None or growth_steps is not None:
        return LossScaler(
            DynamicScale(
                2.0**15 if initial_scale is None else float(initial_scale),
                growth_interval=2000 if growth_steps is None else growth_steps,
            )
        )
    if inner.loss_scale_factor is not None:
        return LossScaler(FixedScale(float(inner.loss_scale_factor)))
    return LossScaler()

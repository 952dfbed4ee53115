"""The loss-scaling optimizer: any Keras optimizer, any law, the same on three backends."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, final

from mixte._errors import InputError, LossScaleError, MixteWarning
from mixte.keras._checkpoint import Saved, note_of, read_all
from mixte.keras._checkpoint_config import arguments_of
from mixte.keras._checkpoint_tensorflow import TensorflowEdges, outside_of_graphs
from mixte.keras._framework import BaseOptimizer, keras, to_host
from mixte.keras._observing import both
from mixte.keras._ownership import claim, release, scaled_by
from mixte.keras._provenance import LastSkip, initial_note, note, read_note
from mixte.keras._replicas import sum_by_itself
from mixte.keras._scaler import LossScaler, ScalerState, state_variable
from mixte.keras._tracing import here, home, not_converted
from mixte.keras._unscaling import Unscaled, looked_at
from mixte.keras._update import OnSkip, Update, make_if, resolve_variables
from mixte.scaling import (
    DynamicScale,
    FixedScale,
    LossScaleLaw,
    format_law,
    law_to_config,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mixte.scaling import Observation


@final
@keras.saving.register_keras_serializable(package="mixte")
class LossScaleOptimizer(TensorflowEdges, keras.optimizers.LossScaleOptimizer):
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
            Moments, moving averages and weights are held in both. With gradient accumulation, a skipped
            micro-batch leaves the accumulated gradients as they are: ``"hold"`` takes one more micro-batch in
            its place, ``"advance"`` ends the accumulation on time, with one less.
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
        check_free(inner_optimizer)
        if iterations_on_skip not in ("hold", "advance"):
            raise InputError(f"iterations_on_skip is {iterations_on_skip!r}. It must be 'hold' or 'advance'.")
        scaler = _scaler(inner_optimizer, law, initial_scale, dynamic_growth_steps)
        factor = inner_optimizer.loss_scale_factor  # Keras's constructor sets it to None
        super().__init__(inner_optimizer, name=name or "loss_scale_optimizer")
        self._fixed_factor = factor
        self.scaler = scaler
        self.iterations_on_skip: OnSkip = iterations_on_skip
        self.initial_scale = float(scaler.law.initial_state()["scale"])
        self.dynamic_growth_steps = getattr(scaler.law, "growth_interval", None)
        for variable in scaler.variables:
            self._track_variable(variable)
        self._noted = state_variable(initial_note(), "int", "last_skip")  # which tracks it
        self._observed: Observation | None = None
        self._hides_inner = False
        self._loss_scaling = Saved(self)
        self._when_built: tuple[Callable[[], None], ...] = ()
        claim(inner_optimizer, self)

    @property
    def law(self) -> LossScaleLaw:
        """The loss-scaling law."""
        return self.scaler.law

    @property
    def dynamic_scale(self) -> Any:
        """The scale for the next loss, as a scalar tensor; reading it counts as scaling the loss by hand."""
        return self.scaler.scale_for_loss()

    def build(self, var_list: Sequence[Any]) -> None:
        """Create the inner optimizer's variables for the given ones, unless it has them."""
        if not self.inner_optimizer.built:
            self.inner_optimizer.build(var_list)
            claim(self.inner_optimizer, self)  # a MultiOptimizer may know its parts only now
        # Not Keras's loss-scaling build: it would add a second, unused scale.
        BaseOptimizer.build(self, list(var_list))
        waiting, self._when_built = self._when_built, ()
        for act in waiting:
            outside_of_graphs(act)

    def when_built(self, act: Callable[[], None]) -> None:
        """Do something with the optimizer's variables: now, or as soon as there are any."""
        if self.built:
            act()
        else:
            self._when_built = (*self._when_built, act)

    @not_converted
    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the scale, in float32 at least.

        Args:
            loss: Floating tensor of any shape.

        Returns:
            The scaled loss: float32, or float64 for a float64 loss.

        Raises:
            LossScaleError: In a compiled JAX function outside a ``StatelessScope``: the scale of that moment
                would be baked into the program and never change. Use ``stateless_minimize``.
        """
        return self.scaler.scale_loss(loss)

    @not_converted
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
            InputError: If the gradients and the variables differ in number.
        """
        gradients = list(grads)
        if not gradients:
            return keras.ops.convert_to_tensor(True)
        unscaled, update = self._unscaled_update(gradients, trainable_variables)
        observation = self.scaler.observe(unscaled)
        make_if(observation.finite, [update])
        self.scaler.update(observation)
        return keras.ops.convert_to_tensor(observation.finite)

    @not_converted
    def unscale(self, grads: Iterable[Any]) -> list[Any]:
        """Return the true gradients in float32: to log them, or to change them before ``apply_unscaled``.

        The inner optimizer's ``clipnorm``, ``global_clipnorm`` and ``clipvalue`` act on true gradients already,
        with ``apply``. Whether these gradients are finite is noted now: clipping to a range hides an infinity.

        Under a ``tf.distribute`` strategy they are the sums over all replicas, and not to be summed again.

        Raises:
            LossScaleError: If the loss was never scaled, or if all gradients are None.
        """
        unscaled = self.scaler.unscaled(list(grads))
        self._observed = self.scaler.observe(unscaled)
        return unscaled.gradients

    @not_converted
    def apply_unscaled(self, grads: Iterable[Any], trainable_variables: Sequence[Any] | None = None) -> Any:
        """As ``apply``, for gradients that ``unscale`` returned, and that were clipped or changed by hand since.

        The step is skipped if they are not finite, or were not when they were unscaled.

        Example:
            >>> gradients = optimizer.unscale(tape.gradient(scaled_loss, variables))
            >>> optimizer.apply_unscaled([clip(gradient) for gradient in gradients], variables)
        """
        gradients = list(grads)
        variables = resolve_variables(self, gradients, trainable_variables)
        self.scaler.require_scaled()
        changed = looked_at(gradients)
        observation = self._as_unscaled(self.scaler.observe(changed))
        make_if(observation.finite, [self._update(changed, variables)])
        self.scaler.update(observation)
        return keras.ops.convert_to_tensor(observation.finite)

    def read_state(self) -> ScalerState:
        """Copy scale, counters and the scale's history to the host. Waits for the device."""
        return self.scaler.read()

    def stateless_read_state(self, optimizer_variables: Sequence[Any]) -> ScalerState:
        """As ``read_state``, from values of ``self.variables``: for loops that hold them, as in JAX."""
        places = [id(variable) for variable in self._variables]
        floats, integers = (optimizer_variables[places.index(id(each))] for each in self.scaler.variables)
        return self.scaler.decode(to_host(floats), to_host(integers))

    def read_last_skip(self) -> LastSkip | None:
        """Tell which variable had the first gradient that was not finite, in the last step that was skipped.

        Waits for the device. Clean steps pay nothing for it.

        Returns:
            The step and the variable's path; None if no step was skipped.
        """
        return read_note(self._noted, self._trainable_variables)

    def stateless_apply(
        self, optimizer_variables: Sequence[Any], grads: Sequence[Any], trainable_variables: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """As ``apply``, on values: return the next ``(trainable_variables, optimizer_variables)``.

        Not on TensorFlow, as no Keras optimizer there.

        Args:
            optimizer_variables: Current values of ``self.variables``.
            grads: The gradients of the loss that was scaled with the same ``optimizer_variables``.
            trainable_variables: Current values of the variables that the optimizer was built with.
        """
        return keras.optimizers.Optimizer.stateless_apply(self, optimizer_variables, grads, trainable_variables)

    def stateless_scale_loss(self, optimizer_variables: Sequence[Any], loss: Any) -> Any:
        """Scale a loss by the scale in ``optimizer_variables``, where JAX traces and ``scale_loss`` must not."""
        with keras.StatelessScope(state_mapping=list(zip(self.variables, optimizer_variables, strict=True))):
            return self.scale_loss(loss)

    @property
    def variables(self) -> list[Any]:
        """All state: the optimizer's own, the scaler's, and the inner optimizer's."""
        return self._variables + self.inner_optimizer.variables

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Set the values of ``self.variables``, all of them: the scaler's state and the inner optimizer's too.

        Raises:
            InputError: If they are not as many, or not of the same shapes.
        """
        variables = self.variables
        if len(weights) != len(variables):
            raise InputError(
                f"set_weights() was given {len(weights)} values for the {len(variables)} variables of {self.name!r}. "
                "Give one for each of optimizer.variables, of an optimizer of the same kind with the same law, built "
                "for the same variables."
            )
        for variable, weight in zip(variables, weights, strict=True):
            if tuple(variable.shape) != tuple(weight.shape):
                raise InputError(
                    f"set_weights() was given a value of shape {tuple(weight.shape)} for {variable.path!r}, which has "
                    f"shape {tuple(variable.shape)}. State of another law goes from file to file, by name: "
                    "model.save_weights() and model.load_weights()."
                )
        for variable, weight in zip(variables, weights, strict=True):
            variable.assign(weight)

    def save_own_variables(self, store: Any) -> None:
        """Write the inner optimizer's variables, as Keras would save it alone; the rest: see ``_checkpoint``."""
        self.inner_optimizer.save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """Begin to load: Keras calls for the parts that follow."""
        self._loss_scaling.keep(read_all(store))
        self._hides_inner = True

    def __dir__(self) -> Iterable[str]:
        """Name the attributes, through which Keras goes when it loads.

        While it loads, without the inner optimizer: what is saved of that is in the store that this one is given.
        """
        names = super().__dir__()
        return [name for name in names if name != "inner_optimizer"] if self._hides_inner else names

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
        return cls(**arguments_of(config, custom_objects))

    def note_last_skip(self, skip: Sequence[Any] | None) -> None:
        """Note a skip that another process saw: its step, and the path of the variable or None."""
        self._noted.assign(note_of(skip, self._trainable_variables))

    def _unscaled_update(
        self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None
    ) -> tuple[Unscaled, Update]:
        """Return what ``apply`` would look at and do, without doing it: for ``apply_together``."""
        variables = resolve_variables(self, grads, trainable_variables)
        untouched = [self._overwrite_variable_with_gradient(variable) for variable in variables]
        unscaled = self.scaler.unscaled(grads, untouched=untouched)
        return unscaled, self._update(unscaled, variables)

    def _update(self, unscaled: Unscaled, variables: Sequence[Any]) -> Update:
        def to_note() -> Any:
            known = self._trainable_variables_indices
            places = [known.get(self._var_key(variable), -1) for variable in variables]
            return note(unscaled, places, self.scaler.steps + 1, self._noted.dtype)

        return Update(
            optimizer=self.inner_optimizer,
            gradients=unscaled.gradients,
            variables=variables,
            iterations_on_skip=self.iterations_on_skip,
            note=(self._noted, to_note),
        )

    def _as_unscaled(self, changed: Observation) -> Observation:
        """Return the observation made when the gradients were unscaled, but not finite if these are not."""
        original, self._observed = self._observed, None
        if original is None or home(original.finite) is not here():
            return changed
        return both(original, changed)


def check_free(optimizer: Any) -> None:
    """Check that an optimizer is one of Keras's, and that nothing scales its loss yet.

    Raises:
        InputError: If it is no Keras optimizer.
        LossScaleError: If it scales the loss itself, or belongs to another scaler.
    """
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise LossScaleError(
            f"{optimizer.name!r} scales the loss already; a second scaler around it would divide the gradients "
            "twice. Pass the optimizer inside it: its inner_optimizer."
        )
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise InputError(
            f"a Keras optimizer is needed, received {optimizer!r} ({type(optimizer).__name__}). Pass for example "
            "keras.optimizers.Adam(1e-3)."
        )
    owner = scaled_by(optimizer)
    if owner is not None:
        raise LossScaleError(
            f"{optimizer.name!r} is wrapped by the loss-scaling optimizer {owner.name!r} already. One optimizer has "
            "one scaler: use that one, or make a new inner optimizer."
        )


def unwrap(optimizer: LossScaleOptimizer) -> Any:
    """Return the inner optimizer as it was before it was wrapped, free to be used alone."""
    inner = optimizer.inner_optimizer
    inner.loss_scale_factor = optimizer._fixed_factor  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - same file
    release(inner)
    sum_by_itself(inner)
    return inner


def _scaler(inner: Any, law: Any, initial_scale: float | None, growth_steps: int | None) -> LossScaler:
    if law is not None and (initial_scale is not None or growth_steps is not None):
        raise InputError(
            "both a law and initial_scale or dynamic_growth_steps were given. The two describe a DynamicScale: "
            "write DynamicScale(initial_scale, growth_interval=dynamic_growth_steps) as the law."
        )
    if initial_scale is not None or growth_steps is not None:
        law = DynamicScale(
            2.0**15 if initial_scale is None else float(initial_scale),
            growth_interval=2000 if growth_steps is None else growth_steps,
        )
    factor = inner.loss_scale_factor
    if law is None:
        return LossScaler() if factor is None else LossScaler(FixedScale(float(factor)))
    scaler = law if isinstance(law, LossScaler) else LossScaler(law)
    if factor is not None and scaler.law != FixedScale(float(factor)):
        warnings.warn(
            f"{inner.name!r} has loss_scale_factor={factor:g}, which is not used: the law is "
            f"{format_law(scaler.law)}. Give one of the two.",
            category=MixteWarning,
            stacklevel=3,
        )
    return scaler

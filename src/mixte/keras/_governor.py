"""Hold the policies in force, and apply each to the models that are made under it, before they train.

Keras asks for a precision when a layer is made, by a global policy; which layer is an output, or which path it
has, is known only when its model is. So a model made under a policy is governed in steps: the global policy is
the policy's default while it is made, and its rules are applied when it is compiled, first called or trained.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from mixte._errors import MixteWarning
from mixte.keras._apply import AppliedPolicy, apply_before_compilation, warn_of
from mixte.keras._emulation import Emulation, explain, request, start_emulating
from mixte.keras._framework import compute_output_spec, keras
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._ownership import scaled_by
from mixte.keras._scaling import computes_in, warn_of_idle_scaler, with_loss_scaling

if TYPE_CHECKING:
    from collections.abc import Generator

    from mixte.policy import Policy
    from mixte.scaling import LossScaleLaw


class Observer(Protocol):
    """Whoever wants to know what is done to the models: the recorder of a run."""

    def policy_applied(self, model: Any, applied: AppliedPolicy) -> None:
        """A policy was applied to a model, maybe once more."""
        ...


@dataclass(slots=True, kw_only=True)
class Regime:
    """A policy in force, and how its models' losses are scaled.

    Attributes:
        policy: The policy; None to leave every precision to the script, and only watch.
        law: The loss-scaling law that the user chose, or None.
        observer: Whoever wants to know, or None.
        emulation: Whose arithmetic the models are to have; None for the machine's own.
    """

    policy: Policy | None
    law: LossScaleLaw | str | float | None = None
    observer: Observer | None = None
    emulation: Emulation | None = None


class Governor:
    """Knows under which regime each model was made."""

    def __init__(self) -> None:
        self._current: list[Regime] = []
        self._regimes: WeakKeyDictionary[Any, Regime] = WeakKeyDictionary()
        self._pending: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()
        self._applied: WeakKeyDictionary[Any, AppliedPolicy] = WeakKeyDictionary()
        self._building = False
        self._making_parts = False

    def enter(self, regime: Regime) -> None:
        """Put a regime in force for the models that are made from now on."""
        self._current.append(regime)

    def leave(self) -> None:
        """End the last regime, and apply its policy to the models that are built by now."""
        regime = self._current.pop()
        models = [model for model, under in self._regimes.items() if under is regime and model.built]
        # One inside another is governed with it: by itself, its last layer would count as an output.
        inner = {id(part) for model in models for part in model._flatten_layers(include_self=False)}  # noqa: SLF001
        for model in models:
            if id(model) not in inner:
                self.govern(model)

    def model_made(self, model: Any) -> None:
        """Note that a model is being made."""
        if self._current and not self._making_parts:
            self._regimes[model] = self._current[-1]
            self._pending[model] = True

    @contextmanager
    def making_parts(self) -> Generator[None]:
        """Take the models that are made meanwhile for parts of another one, which is governed as a whole."""
        before, self._making_parts = self._making_parts, True
        try:
            yield
        finally:
            self._making_parts = before

    def regime_of(self, model: Any) -> Regime | None:
        """Return the regime that a model was made under, or None."""
        return self._regimes.get(model)

    def models(self) -> list[Any]:
        """Return the models that were made under a regime, and are still there."""
        return list(self._regimes)

    def is_pending(self, model: Any) -> bool:
        """Tell whether a model waits for its policy to be applied."""
        return model in self._pending and not self._building

    def applied_to(self, model: Any) -> AppliedPolicy | None:
        """Return what applying the policy to a model did, if it was applied."""
        return self._applied.get(model)

    def govern(self, model: Any) -> None:
        """Apply the model's policy to it; again, if it has changed since."""
        regime = self._regimes.get(model)
        if regime is None or not model.built:
            return
        for inner in model._flatten_layers():  # noqa: SLF001 - `layers` are the direct ones only
            self._pending.pop(inner, None)
        if regime.policy is not None:
            first = model not in self._applied
            applied = apply_before_compilation(model, regime.policy, law=regime.law)
            if regime.emulation is not None:
                applied = explain(applied, start_emulating(model, regime.emulation))
            self._applied[model] = applied
            if first:
                warn_of(applied)
            if regime.observer is not None:
                regime.observer.policy_applied(model, applied)
        elif regime.emulation is not None:
            start_emulating(model, regime.emulation)
        warn_of_idle_scaler(model)

    def build_then_govern(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], call: Any) -> None:
        """Build a model by a symbolic call on tensors like those of its first call, then apply its policy.

        The first call itself would be too late: a training step compiled around it keeps the precisions it saw.
        """
        if not model.built:
            self._building = True
            try:
                symbols, named = keras.tree.map_structure(_symbol, (args, kwargs))
                compute_output_spec(lambda *a, **k: call(model, *a, **k), *symbols, **named)
            except Exception:  # noqa: BLE001 - a model that cannot be built so is built by its call, and governed after
                return
            finally:
                self._building = False
        self.govern(model)

    def wrap_optimizer(self, model: Any, optimizer: Any) -> Any:
        """Return the optimizer for a model that is being compiled: wrapped if its regime needs that."""
        regime = self._regimes.get(model)
        if regime is None or optimizer is None:
            return optimizer
        if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            _warn_of_foreign_scaler(optimizer, regime)
            return optimizer
        wrapped = scaled_by(optimizer)
        if wrapped is not None and wrapped is getattr(model, "optimizer", None):
            return wrapped  # the model is compiled anew with the optimizer that it had
        if regime.policy is None and regime.law is None and not computes_in(model, "float16"):
            return optimizer
        return with_loss_scaling(keras.optimizers.get(optimizer), model, regime.policy, law=regime.law)

    def decides_scaling_of(self, model: Any) -> bool:
        """Tell whether a policy in force decides if a model's loss is scaled, and not Keras.

        Keras goes by the name of the model's own dtype policy. Only where the script has set that since is the script
        asking for what Keras does.
        """
        regime, applied = self._regimes.get(model), self._applied.get(model)
        if regime is None or regime.policy is None:
            return False
        return applied is None or model.dtype_policy.name == str(applied.decisions[0].precision)

    def check_optimizer(self, optimizer: Any, variables: Any) -> None:
        """Warn if an optimizer without loss scaling updates a model whose gradients flow through float16."""
        first = {id(variable) for variable in list(variables or ())[:1]}
        for model, regime in list(self._regimes.items()):
            if not (model.built and computes_in(model, "float16")):
                continue
            if first & {id(variable) for variable in model.trainable_variables}:
                name = "none" if regime.policy is None else regime.policy.name
                warnings.warn(
                    f"the optimizer {optimizer.name!r} updates the model {model.name!r}, whose layers compute in "
                    f"float16 (policy {name}), without loss scaling: small gradients become zero. Wrap it: "
                    f"mixte.keras.LossScaleOptimizer({type(optimizer).__name__}(...)), and take the gradients of "
                    "optimizer.scale_loss(loss).",
                    category=MixteWarning,
                    stacklevel=4,
                )
                return


GOVERNOR = Governor()


@contextmanager
def use(
    policy: Policy | str,
    *,
    law: LossScaleLaw | str | float | None = None,
    emulate: Emulation | str | None = None,
) -> Generator[Policy]:
    """Make the models that are built inside the ``with`` block run under a policy.

    Layers are made with the policy's default precision, and its rules are applied to each model as soon as its
    layers are known: at the end of the block, when it is compiled, or at its first call. ``compile`` wraps the
    optimizer in a ``LossScaleOptimizer`` where gradients flow through float16, also after the block. The
    global dtype policy is restored at the end, after an exception too.

    Args:
        policy: A policy; or the name of a preset; or the path of a ``policy.toml``.
        law: The loss-scaling law for ``compile``. By default the policy's, else ``DynamicScale()``.
        emulate: The architecture whose arithmetic the models compute in, as for ``mixte.keras.emulate``; or an
            ``Emulation``. None for the machine's own.

    Raises:
        PolicyError: If the policy is unknown, or a rule cannot be applied.
        InputError: If the architecture is unknown, or lacks the policy's format.

    Example:
        >>> with mixte.keras.use("mixed_float16"):
        ...     model = build_model()
        >>> model.compile("adam", loss="mse")
    """
    from mixte.keras._hooks import install

    chosen, emulation = request(policy, emulate)
    before = keras.config.dtype_policy()
    install()
    GOVERNOR.enter(Regime(policy=chosen, law=law, emulation=emulation))
    keras.config.set_dtype_policy(str(chosen.default))
    try:
        yield chosen
    finally:
        keras.config.set_dtype_policy(before)
        GOVERNOR.leave()


def _warn_of_foreign_scaler(optimizer: Any, regime: Regime) -> None:
    """Say that Keras's own scaler stays, and what is missing with it, where a policy or a law was asked for."""
    if isinstance(optimizer, LossScaleOptimizer) or (regime.policy is None and regime.law is None):
        return
    unused = "" if regime.law is None else ", and the law that was asked for is not used"
    warnings.warn(
        f"the script compiles with Keras's own {type(optimizer).__name__}, which is left as it is: skipped steps are "
        f"seen in its scale, but not why they were skipped{unused}. Compile with its inner optimizer instead, and "
        "mixte wraps that.",
        category=MixteWarning,
        stacklevel=4,
    )


def _symbol(value: Any) -> Any:
    """Return a symbolic tensor like an array; anything else as it is."""
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, keras.KerasTensor):
        return keras.KerasTensor(tuple(value.shape), dtype=keras.backend.standardize_dtype(value.dtype))
    return value

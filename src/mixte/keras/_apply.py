"""Apply a policy to a model that exists, in place, so that it can be undone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from mixte._errors import MixteWarning, PolicyError
from mixte.keras._describe import describe_layers
from mixte.keras._framework import keras
from mixte.keras._mendings import mend_keras
from mixte.keras._mismatch import SIXTEEN_BIT, mismatches
from mixte.keras._optimizer import LossScaleOptimizer, unwrap
from mixte.keras._scaling import warn_of_idle_scaler, with_loss_scaling
from mixte.keras._storage import can_store_anew, store_in
from mixte.keras._symbolic import (
    SymbolicDtypes,
    refresh_symbolic_dtypes,
    restore_symbolic_dtypes,
    symbolic_dtypes,
)
from mixte.policy import Decision, Policy, decision_table, load_policy, unmatched_rules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mixte.scaling import LossScaleLaw

_FUNCTIONS = ("train_function", "test_function", "predict_function")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPolicy:
    """What applying a policy did.

    Attributes:
        policy: The policy.
        decisions: One for the model and one for every layer in it, with the rule and the reason.
        warnings: What came to nothing, and what does not fit: rules that select no layer, a wrapper and the layer
            inside it in different precisions, outputs that no layer is known to give.
    """

    policy: Policy
    decisions: tuple[Decision, ...]
    warnings: tuple[str, ...]
    _before: tuple[tuple[Any, Any], ...]
    _symbolic: SymbolicDtypes
    _model: Any
    _wrapped: LossScaleOptimizer | None

    @property
    def changed(self) -> bool:
        """Whether the model runs differently than before."""
        return bool(self._before) or self._wrapped is not None

    def undo(self) -> None:
        """Give every layer the dtype policy back that it had, and the model its optimizer."""
        for layer, dtype_policy in self._before:
            _set_policy(layer, dtype_policy)
        if self._wrapped is not None:
            inner = unwrap(self._wrapped)
            if self._model.optimizer is self._wrapped:  # else it was compiled anew since
                _set_optimizer(self._model, inner)
        forget_compiled(self._model)
        restore_symbolic_dtypes(self._symbolic)


def apply(model: Any, policy: Policy | str, *, law: LossScaleLaw | str | float | None = None) -> AppliedPolicy:
    """Apply a policy to a model in place. Its variables stay as they are.

    Layers get their precision by the policy's rules; what the model has compiled is dropped, so that the next
    call runs in the new precisions. If the model is compiled and gradients now flow through float16, its
    optimizer is wrapped in a ``LossScaleOptimizer``, keeping its state; one that scales its loss already, Keras's
    own included, is left as it is. A model that is compiled only afterwards is compiled as Keras does: give it
    a ``LossScaleOptimizer``, or apply the policy after ``compile``. A built model keeps float32 variables under a
    mixed policy; a policy with other variables is refused for it.

    Args:
        model: A ``keras.Model``, or a ``keras.Layer``, of any kind. One whose layers are created only when it
            is built has to be built.
        policy: A policy; or the name of a preset; or the path of a ``policy.toml``.
        law: The loss-scaling law for a compiled model. By default the policy's, else ``DynamicScale()``.

    Returns:
        The decisions, and ``undo()``.

    Raises:
        PolicyError: If the policy is unknown, or would need variables of another dtype than the model has.

    Warns:
        MixteWarning: If a rule selects no layer, or precisions do not fit together.

    Example:
        >>> applied = mixte.keras.apply(model, "mixed_float16")
        >>> print(mixte.keras.summary(applied))
        >>> applied.undo()
    """
    applied = _apply(model, as_policy(policy), law, may_store_anew=False)
    mend_keras()
    if applied.changed:
        forget_compiled(model)
    warn_of(applied)
    warn_of_idle_scaler(model)
    return applied


def apply_before_compilation(
    model: Any, policy: Policy, *, law: LossScaleLaw | str | float | None = None
) -> AppliedPolicy:
    """As ``apply``, for a model that has compiled nothing yet, or that is being traced right now.

    Its variables, which Keras made in the dtype of the policy's default, are stored in that of each layer.
    """
    return _apply(model, policy, law, may_store_anew=can_store_anew(model))


def _apply(
    model: Any, policy: Policy, law: LossScaleLaw | str | float | None, *, may_store_anew: bool
) -> AppliedPolicy:
    descriptions = describe_layers(model)
    decisions = decision_table(policy, descriptions)
    stored_otherwise = list(_stored_otherwise(decisions))
    if stored_otherwise and not may_store_anew:
        raise _refusal(*stored_otherwise[0])
    store_in(model, [(variable, decision.variable_dtype or "") for decision, variable in stored_otherwise])
    changes = [(_layer(decision), str(decision.precision)) for decision in decisions if _changes(decision)]
    before = tuple((layer, layer.dtype_policy) for layer, _ in changes)
    symbolic = symbolic_dtypes(model) if changes else ()
    for layer, precision in changes:
        _set_policy(layer, precision)
    wrapped = _scale_compiled(model, policy, law)
    if changes:
        refresh_symbolic_dtypes(model)
    notes = [str(unmatched) for unmatched in unmatched_rules(policy, descriptions)]
    notes += mismatches(model, policy, decisions)
    return AppliedPolicy(
        policy=policy,
        decisions=decisions,
        warnings=tuple(notes),
        _before=before,
        _symbolic=symbolic,
        _model=model,
        _wrapped=wrapped,
    )


def as_policy(policy: Policy | str) -> Policy:
    """Make a policy of what a user may give for one: a policy, a preset's name, or the path of a file.

    Raises:
        PolicyError: If there is no such preset or file.
    """
    if isinstance(policy, str):
        from mixte.devices import recommend_precision

        return load_policy(policy, recommendation=recommend_precision)
    if not isinstance(policy, Policy):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's input
        raise PolicyError(
            f"a policy is needed, received {policy!r} ({type(policy).__name__}). Give a mixte.Policy, the name of a "
            "preset such as 'mixed_float16', or the path of a policy.toml."
        )
    return policy


def warn_of(applied: AppliedPolicy) -> None:
    """Warn of all that came to nothing, and of precisions that do not fit together."""
    for text in applied.warnings:
        warnings.warn(text, category=MixteWarning, stacklevel=3)


def _layer(decision: Decision) -> Any:
    return decision.layer.layer


def _changes(decision: Decision) -> bool:
    layer = _layer(decision)
    present = (layer.compute_dtype, layer.variable_dtype)
    return decision.precision is not None and present != (decision.compute_dtype, decision.variable_dtype)


def _set_policy(layer: Any, dtype_policy: Any) -> None:
    # Not by Keras's setter: where the layer has a policy map, it would change the map, for all who share it.
    layer._dtype_policy = keras.dtype_policies.get(dtype_policy)  # noqa: SLF001


def _stored_otherwise(decisions: Sequence[Decision]) -> Iterator[tuple[Decision, Any]]:
    """Find the layers' own floating variables whose dtype is not the one decided on."""
    for decision in decisions:
        layer = _layer(decision)
        for variable in [*layer._trainable_variables, *layer._non_trainable_variables]:  # noqa: SLF001 - without sublayers'
            dtype, wanted = keras.backend.standardize_dtype(variable.dtype), decision.variable_dtype
            if wanted is None or wanted == dtype or not keras.backend.is_float_dtype(dtype):
                continue
            # Statistics of a normalisation, for one, are float32 by their author's will under any policy.
            kept = variable._autocast is False and dtype not in SIXTEEN_BIT  # noqa: SLF001 - not readable in public
            if not kept:
                yield decision, variable


def _refusal(decision: Decision, variable: Any) -> PolicyError:
    dtype = keras.backend.standardize_dtype(variable.dtype)
    return PolicyError(
        f"layer {decision.path or _layer(decision).name!r} is built with {dtype} variables, and the policy wants "
        f"{decision.variable_dtype} ones (rule: {decision.source}). A built model keeps its variables: "
        f"use a mixed policy, or build the model inside mixte.keras.use(policy)."
    )


def _scale_compiled(
    model: Any, policy: Policy, law: LossScaleLaw | str | float | None
) -> LossScaleOptimizer | None:
    """Wrap the optimizer of a compiled model where needed; return the wrapper, or None."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return None
    wrapped = with_loss_scaling(optimizer, model, policy, law=law)
    if wrapped is optimizer:
        return None
    _set_optimizer(model, wrapped)
    return wrapped


def _set_optimizer(model: Any, optimizer: Any) -> None:
    model.optimizer = optimizer
    compiled = getattr(model, "_compile_config", None)
    if compiled is not None:  # what a saved model is compiled with when it is loaded
        compiled.config["optimizer"] = optimizer


def forget_compiled(model: Any) -> None:
    """Drop the functions that a model has compiled: they keep the precisions that they were traced with."""
    for name in _FUNCTIONS:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)

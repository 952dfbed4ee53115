"""Apply a policy to a model that exists, in place, so that it can be undone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from mixte._errors import MixteWarning, PolicyError
from mixte.keras._describe import describe_layers
from mixte.keras._framework import keras
from mixte.keras._scaling import with_loss_scaling
from mixte.keras._symbolic import refresh_symbolic_dtypes
from mixte.policy import Decision, Policy, decision_table, load_policy, unmatched_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.scaling import LossScaleLaw

_FUNCTIONS = ("train_function", "test_function", "predict_function")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPolicy:
    """What applying a policy did.

    Attributes:
        policy: The policy.
        decisions: One for the model and one for every layer in it, with the rule and the reason.
        warnings: What the policy asked for that came to nothing: rules that select no layer, among others.
    """

    policy: Policy
    decisions: tuple[Decision, ...]
    warnings: tuple[str, ...]
    _before: tuple[tuple[Any, Any], ...]
    _model: Any
    _optimizer: Any

    @property
    def changed(self) -> bool:
        """Whether the model runs differently than before."""
        return bool(self._before) or self._optimizer is not None

    def undo(self) -> None:
        """Give every layer the dtype policy back that it had, and the model its optimizer."""
        for layer, dtype_policy in self._before:
            layer.dtype_policy = dtype_policy
        if self._optimizer is not None:
            self._model.optimizer = self._optimizer
        forget_compiled(self._model)
        refresh_symbolic_dtypes(self._model)


def apply(model: Any, policy: Policy | str, *, law: LossScaleLaw | str | float | None = None) -> AppliedPolicy:
    """Apply a policy to a model in place. Its variables stay as they are.

    Layers get their precision by the policy's rules; what the model has compiled is dropped, so that the next
    call runs in the new precisions. If the model is compiled and gradients now flow through float16, its
    optimizer is wrapped in a ``LossScaleOptimizer``, keeping its state. A built model keeps float32 variables
    under a mixed policy; a policy with other variables is refused for it.

    Args:
        model: A ``keras.Model``, or a ``keras.Layer``, of any kind. One whose layers are created only when it
            is built has to be built.
        policy: A policy; or the name of a preset; or the path of a ``policy.toml``.
        law: The loss-scaling law for a compiled model. By default the policy's, else ``DynamicScale()``.

    Returns:
        The decisions, and ``undo()``.

    Raises:
        PolicyError: If the policy is unknown, or would need variables of another dtype than the model has.

    Example:
        >>> applied = mixte.keras.apply(model, "mixed_float16")
        >>> print(mixte.keras.summary(applied))
        >>> applied.undo()
    """
    applied = apply_before_compilation(model, as_policy(policy), law=law)
    if applied.changed:
        forget_compiled(model)
    return applied


def apply_before_compilation(
    model: Any, policy: Policy, *, law: LossScaleLaw | str | float | None = None
) -> AppliedPolicy:
    """As ``apply``, for a model that has compiled nothing yet, or that is being traced right now."""
    descriptions = describe_layers(model)
    decisions = decision_table(policy, descriptions)
    _check_variables(decisions)
    before = tuple(
        (decision.layer.layer, decision.layer.layer.dtype_policy)  # type: ignore[union-attr] - describe_layers sets it
        for decision in decisions
        if _changes(decision)
    )
    for decision in decisions:
        if _changes(decision):
            decision.layer.layer.dtype_policy = str(decision.precision)  # type: ignore[union-attr]
    optimizer = _scale_compiled(model, policy, law)
    if before:
        refresh_symbolic_dtypes(model)
    notes = tuple(str(unmatched) for unmatched in unmatched_rules(policy, descriptions))
    return AppliedPolicy(
        policy=policy, decisions=decisions, warnings=notes, _before=before, _model=model, _optimizer=optimizer
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


def warn_unmatched(applied: AppliedPolicy) -> None:
    """Warn of every rule that selected no layer."""
    for text in applied.warnings:
        warnings.warn(text, category=MixteWarning, stacklevel=3)


def _changes(decision: Decision) -> bool:
    layer: Any = decision.layer.layer
    return decision.precision is not None and layer.dtype_policy.name != str(decision.precision)


def _check_variables(decisions: Sequence[Decision]) -> None:
    for decision in decisions:
        layer: Any = decision.layer.layer
        own = [*layer._trainable_variables, *layer._non_trainable_variables]  # noqa: SLF001 - without sublayers'
        for variable in own:
            dtype = keras.backend.standardize_dtype(variable.dtype)
            floating = keras.backend.is_float_dtype(dtype)
            # Statistics of a normalisation, for one, are float32 by their author's will under any policy.
            kept = variable._autocast is False  # noqa: SLF001 - not readable in public
            if floating and not kept and decision.variable_dtype not in (None, dtype):
                raise PolicyError(
                    f"layer {decision.path or layer.name!r} is built with {dtype} variables, and the policy wants "
                    f"{decision.variable_dtype} ones (rule: {decision.source}). A built model keeps its variables: "
                    f"use a mixed policy, or build the model inside mixte.keras.use(policy)."
                )


def _scale_compiled(model: Any, policy: Policy, law: LossScaleLaw | str | float | None) -> Any:
    """Wrap the optimizer of a compiled model where needed; return the one that it had, or None."""
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        return None
    wrapped = with_loss_scaling(optimizer, model, policy, law=law)
    if wrapped is optimizer:
        return None
    model.optimizer = wrapped
    return optimizer


def forget_compiled(model: Any) -> None:
    """Drop the functions that a model has compiled: they keep the precisions that they were traced with."""
    for name in _FUNCTIONS:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)

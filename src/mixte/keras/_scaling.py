"""Decide whether a model's optimizer must scale the loss, and wrap it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from mixte._errors import MixteWarning
from mixte.keras._framework import keras
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.scaling import DynamicScale, FixedScale, LossScaleLaw, parse_law

if TYPE_CHECKING:
    from mixte.policy import Policy

_WARNED: Final = "_mixte_warned_idle"


def computes_in(model: Any, dtype: str) -> bool:
    """Tell whether any layer of a model computes in a dtype: decided from the layers, not from a policy's name.

    Keras compares the name of the model's own policy, and so misses a policy map, a policy per layer and a
    global float16; and it takes the policy of a functional model, which computes nothing itself, for its layers'.
    """
    return any(
        layer.compute_dtype == dtype
        for layer in model._flatten_layers()  # noqa: SLF001 - `layers` are the direct ones only
        if not isinstance(layer, (keras.layers.InputLayer, keras.Sequential))
        and not hasattr(layer, "_nodes_by_depth")  # a functional model
    )


def with_loss_scaling(
    optimizer: Any, model: Any, policy: Policy | None, *, law: LossScaleLaw | str | float | None = None
) -> Any:
    """Return the optimizer, wrapped if gradients flow through few bits and nothing scales its loss yet.

    Through float16 the loss is scaled. Through bfloat16, which has float32's range, it is not, nor through Keras's
    float8 layers, which scale each tensor themselves: the wrapper then only checks and counts. A non-finite
    gradient would otherwise be applied in silence, and one infinity would stay in a float8 layer's history of
    largest values, 1024 steps long, and spoil its scale as long.

    Args:
        optimizer: A Keras optimizer.
        model: The model it trains. If it is not built, its layers, yet to be made, count as the policy's default.
        policy: The policy in force, or None.
        law: The law that the user chose; by default the policy's, then the inner optimizer's own fixed factor,
            then ``DynamicScale()``.
    """
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return optimizer
    default = None if policy is None or model.built else policy.default.compute_dtype
    float16 = default == "float16" or computes_in(model, "float16")
    chosen = law if law is not None else _law_of(policy)
    if float16:
        if chosen is None and optimizer.loss_scale_factor is None:
            chosen = DynamicScale()
        return LossScaleOptimizer(optimizer, chosen)
    if chosen is not None:
        return LossScaleOptimizer(optimizer, chosen)
    if default == "bfloat16" or computes_in(model, "bfloat16") or _computes_in_float8(model):
        return LossScaleOptimizer(optimizer, None if optimizer.loss_scale_factor else FixedScale(1.0))
    return optimizer


def warn_of_idle_scaler(model: Any) -> None:
    """Warn, once for each optimizer, if a model's optimizer scales the loss and no layer computes in float16.

    Setting ``model.dtype_policy`` after the model was built, for one, has that effect: the layers keep theirs.
    """
    optimizer: Any = getattr(model, "optimizer", None)
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer) or not model.built:
        return
    only_checks = isinstance(optimizer, LossScaleOptimizer) and not optimizer.scaler.scales
    if only_checks or computes_in(model, "float16") or getattr(optimizer, _WARNED, False):
        return
    object.__setattr__(optimizer, _WARNED, True)
    warnings.warn(
        f"the optimizer {optimizer.name!r} scales the loss of the model {model.name!r}, in which no layer computes "
        "in float16: only float16 needs that. If the model was to be trained in float16, its layers were not made "
        "so: apply a policy with mixte.keras.apply(model, 'mixed_float16'), or build it in mixte.keras.use().",
        category=MixteWarning,
        stacklevel=3,
    )


def _computes_in_float8(model: Any) -> bool:
    layers = model._flatten_layers()  # noqa: SLF001 - `layers` are the direct ones only
    return any(layer.dtype_policy.quantization_mode == "float8" for layer in layers)


def _law_of(policy: Policy | None) -> LossScaleLaw | None:
    if policy is None or policy.loss_scale is None:
        return None
    spec = policy.loss_scale
    parameters = ",".join(f"{name}={value}" for name, value in spec.parameters)
    return parse_law(f"{spec.law}:{parameters}" if parameters else spec.law)

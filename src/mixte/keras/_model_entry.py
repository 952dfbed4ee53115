"""A model as the record describes it: its size, and the precision of every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._describe import describe_layers
from mixte.records import LayerPrecision, Model

if TYPE_CHECKING:
    from mixte.keras._apply import AppliedPolicy


def model_entry(model: Any, layers: tuple[LayerPrecision, ...]) -> Model:
    """Describe a model.

    Args:
        model: The model.
        layers: Its layers: ``decided_layers`` or ``scripted_layers``.
    """
    return Model(
        name=model.name,
        parameters=_count(model.variables),
        trainable_parameters=_count(model.trainable_variables),
        layers=layers,
    )


def decided_layers(applied: AppliedPolicy) -> tuple[LayerPrecision, ...]:
    """Return the layers of a model to which a policy was applied, each with the rule and its reason."""
    return tuple(
        _layer(decision.path, decision.class_name, decision.layer.layer, decision.source, decision.reason)
        for decision in applied.decisions
        if decision.path
    )


def scripted_layers(model: Any) -> tuple[LayerPrecision, ...]:
    """Return the layers of a model that the script made without a policy of ours."""
    return tuple(
        _layer(
            description.path,
            description.class_name,
            description.layer,
            "script",
            "as the script made it",
        )
        for description in describe_layers(model)
        if description.path
    )


def _layer(path: str, class_name: str, layer: Any, rule: str, reason: str) -> LayerPrecision:
    own = [*layer._trainable_variables, *layer._non_trainable_variables]  # noqa: SLF001 - without sublayers'
    return LayerPrecision(
        path=path,
        layer_class=class_name,
        variable_dtype=layer.variable_dtype,
        compute_dtype=layer.compute_dtype,
        rule=rule,
        reason=reason,
        parameters=_count(own),
    )


def _count(variables: Any) -> int:
    total = 0
    for variable in variables:
        size = 1
        for length in variable.shape:
            size *= length
        total += size
    return total

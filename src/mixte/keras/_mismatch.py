"""Precisions that do not fit together: where one layer rounds what another was to keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mixte.keras._describe import wraps_layers_of_script
from mixte.keras._framework import keras
from mixte.keras._outputs import dtypes_of_outputs_by_code, has_hidden_outputs, layers_fed_by_inputs
from mixte.policy import Outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mixte.policy import Decision, Policy, Rule

SIXTEEN_BIT: Final = ("float16", "bfloat16")


def mismatches(model: Any, policy: Policy, decisions: Sequence[Decision]) -> list[str]:
    """Return what does not fit in a model whose layers have the precisions decided on, as sentences."""
    return [
        *_wrappers(decisions),
        *_narrowed_inputs(model, decisions),
        *_unguarded_outputs(model, policy, decisions),
    ]


def _wrappers(decisions: Sequence[Decision]) -> Iterable[str]:
    """Find wrappers that compute in another dtype than the layer inside, by the script's own dtype.

    Keras's wrappers keep a dtype to themselves: a layer inside has the one that it was made with.
    """
    warned: set[int] = set()
    for inner in decisions:
        owner = inner.layer.owner
        if owner is None or id(owner) in warned or not _is_wrapper(owner.layer):
            continue
        outer = next(decision for decision in decisions if decision.layer is owner)
        by_script = "script" in (outer.origin, inner.origin)
        dtypes = (_compute_dtype(outer), _compute_dtype(inner))
        if by_script and dtypes[0] != dtypes[1]:
            warned.add(id(owner))
            yield (
                f"{owner.class_name} {owner.path!r} computes in {dtypes[0]}, and the layer inside it, "
                f"{inner.layer.path!r}, in {dtypes[1]}: what goes in and comes out is cast to {dtypes[0]}. In the "
                "script, give both the same dtype; Keras does not pass a wrapper's dtype on."
            )


def _is_wrapper(layer: Any) -> bool:
    return wraps_layers_of_script(layer) or isinstance(layer, keras.layers.Bidirectional)


def _narrowed_inputs(model: Any, decisions: Sequence[Decision]) -> Iterable[str]:
    """Find layers that are to see a subclassed model's raw inputs in float32, which the model casts before."""
    wide = [each for each in decisions if each.compute_dtype == "float32" and each.origin != "default"]
    if not wide or model.compute_dtype not in SIXTEEN_BIT or not isinstance(model, keras.Model):
        return
    fed = {id(layer) for layer in layers_fed_by_inputs(model)}
    for decision in wide:
        if id(decision.layer.layer) in fed:
            yield (
                f"the model {model.name!r} casts its inputs to {model.compute_dtype} before {decision.class_name} "
                f"{decision.path!r} sees them, which computes in float32 ({decision.reason}). Give the model "
                "itself float32, by a rule for the path '/', or make it functional: its layers cast for themselves."
            )


def _unguarded_outputs(model: Any, policy: Policy, decisions: Sequence[Decision]) -> Iterable[str]:
    """Find outputs that the policy wants wide, and that stay as they are because no layer is known to give them."""
    wide = _widest_rule_for_outputs(policy)
    if wide is None or not isinstance(model, keras.Model):
        return
    if has_hidden_outputs(model) and not model.built:
        yield (
            f"the model {model.name!r} is not built: which layers give its outputs, for which the policy has "
            f"{wide.precision} ({wide.reason}), is not known yet, nor are layers that it makes only then. Build it by "
            "a call on a batch, and apply the policy to it again; or make it inside mixte.keras.use(policy)."
        )
    for each in decisions:
        if each.path and not each.layer.is_output:
            continue
        narrow = [dtype for dtype in dtypes_of_outputs_by_code(each.layer.layer) if dtype in SIXTEEN_BIT]
        if narrow:
            named = f"the model {model.name!r}" if not each.path else f"{each.class_name} {each.path!r}"
            yield (
                f"an output of {named} is computed in {narrow[0]} by code in its call(), and not by a layer, to "
                f"which the policy would give {wide.precision} ({wide.reason}). Make a layer of that code, such as "
                "keras.layers.Softmax() or keras.layers.Activation(...), or cast its argument to float32."
            )


def _widest_rule_for_outputs(policy: Policy) -> Rule | None:
    """Return the rule or safeguard that has a wide precision for the outputs, if there is one."""
    rules = [rule for rule in (*policy.rules, *policy.safeguards) if isinstance(rule.select, Outputs)]
    return next((rule for rule in rules if rule.precision.compute_dtype not in SIXTEEN_BIT), None)


def _compute_dtype(decision: Decision) -> str:
    layer: Any = decision.layer.layer
    return layer.compute_dtype

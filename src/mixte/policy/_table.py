"""Decisions for a whole model, and the rules that decided nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mixte.policy._nearest import nearest_name
from mixte.policy._selectors import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPath,
    ByPredicate,
    Outputs,
    specificity,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.policy._decision import Decision
    from mixte.policy._layer import LayerDescription
    from mixte.policy._policy import Policy
    from mixte.policy._rule import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedRule:
    """A rule of the user's that selected no layer.

    Attributes:
        rule: The rule.
        hint: What the model has that is nearest to it, as a sentence; empty where nothing is near.
    """

    rule: Rule
    hint: str

    def __str__(self) -> str:
        hint = f" {self.hint}" if self.hint else ""
        return f"The rule '{self.rule}' selects no layer of the model.{hint}"


def decision_table(policy: Policy, layers: Sequence[LayerDescription]) -> tuple[Decision, ...]:
    """Decide on every layer, in the order given.

    Raises:
        PolicyError: A predicate raised, or returned neither True nor False.
    """
    return tuple(policy.decide(layer) for layer in layers)


def unmatched_rules(policy: Policy, layers: Sequence[LayerDescription]) -> tuple[UnmatchedRule, ...]:
    """Return the policy's own rules that select none of the layers, each with the nearest that it could mean.

    A rule that selects a layer but is beaten there is matched. Safeguards are not looked at.

    Raises:
        PolicyError: A predicate raised, or returned neither True nor False.
    """
    return tuple(
        UnmatchedRule(rule=rule, hint=_hint(rule, layers))
        for rule in policy.rules
        if all(specificity(rule.select, layer) is None for layer in layers)
    )


def _hint(rule: Rule, layers: Sequence[LayerDescription]) -> str:
    match rule.select:
        case ByPath(pattern):
            tails = {tail for layer in layers for tail in _tails(layer.path)}
            nearest = nearest_name(pattern.removeprefix("/"), sorted(tails))
            return f"The nearest path is '{nearest}'." if nearest else ""
        case ByClass(name):
            classes = dict.fromkeys(class_name for layer in layers for class_name in layer.class_names)
            nearest = nearest_name(name, classes)
            return f"The nearest class is {nearest}." if nearest else ""
        case ByActivation(name):
            activations = dict.fromkeys(layer.activation for layer in layers if layer.activation)
            nearest = nearest_name(name, activations)
            return f"The nearest activation is {nearest}." if nearest else ""
        case Outputs() | ActivityRegularized() | ByPredicate():
            return ""


def _tails(path: str) -> list[str]:
    names = path.split("/")
    return ["/".join(names[start:]) for start in range(len(names))]

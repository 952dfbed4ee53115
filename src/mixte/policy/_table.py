"""Decisions for a whole model, and the rules that decided nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
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
    from collections.abc import Iterable, Sequence

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
            return _path_hint(pattern, layers)
        case ByClass(name):
            return _name_hint("class", name, (known for layer in layers for known in layer.class_names))
        case ByActivation(name):
            return _name_hint("activation", name, (layer.activation for layer in layers if layer.activation))
        case Outputs() | ActivityRegularized() | ByPredicate():
            return ""


def _name_hint(kind: str, name: str, known: Iterable[str]) -> str:
    nearest = nearest_name(name, dict.fromkeys(known))
    return f"The nearest {kind} is '{nearest}'." if nearest else ""


def _path_hint(pattern: str, layers: Sequence[LayerDescription]) -> str:
    """Name the parts of the pattern that match no layer's name; else the nearest path as a whole."""
    names = dict.fromkeys(name for layer in layers for name in layer.segments)
    strangers = [
        part
        for part in pattern.split("/")
        if part not in {"", "**"} and not any(fnmatchcase(name, part) for name in names)
    ]
    if strangers:
        nearest = nearest_name(strangers[0], names)
        hint = f"; the nearest is '{nearest}'" if nearest else ""
        return f"No layer is called '{strangers[0]}'{hint}."
    nearest = nearest_name(pattern.removeprefix("/"), dict.fromkeys(layer.path for layer in layers))
    return f"Its names exist, but not in this order; the nearest path is '{nearest}'." if nearest else ""

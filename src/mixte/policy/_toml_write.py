"""Writing a policy as ``policy.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from mixte._errors import PolicyError
from mixte.policy._precision import Precision
from mixte.policy._safeguards import safeguards
from mixte.policy._selectors import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPath,
    ByPredicate,
    Outputs,
    describe_selector,
)
from mixte.policy._toml_read import SCHEMA

if TYPE_CHECKING:
    import os

    from mixte.policy._policy import Policy
    from mixte.policy._rule import Rule
    from mixte.policy._selectors import Selector


def write_policy(policy: Policy, path: str | os.PathLike[str]) -> None:
    """Write a policy to a file that ``read_policy`` reads back as an equal policy.

    Args:
        policy: The policy.
        path: The file; one that is there is replaced.

    Raises:
        PolicyError: The file cannot be written, or the policy cannot be expressed; see ``format_policy``.
    """
    data = format_policy(policy).encode("utf-8")
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise PolicyError(f"cannot write the policy {path}: {error.strerror or error}") from error


def format_policy(policy: Policy) -> str:
    """Return a policy as the text of a ``policy.toml``.

    Raises:
        PolicyError: The policy has what the format cannot express: a predicate, two rules with the same
            selector, safeguards that are no preset's, or text that is not Unicode.
    """
    _check_selectors(policy)
    top: dict[str, object] = {"schema": SCHEMA, "name": policy.name}
    preset = _extended_preset(policy)
    if preset is not None:
        top["extends"] = preset.value
    if preset is not policy.default:
        top["default"] = policy.default.value
    if policy.reason:
        top["reason"] = policy.reason
    # Each table is written by itself: tomli_w would put short rules into one line as inline tables.
    parts = [tomli_w.dumps(top)]
    if policy.loss_scale is not None:
        law = {"law": policy.loss_scale.law, **dict(policy.loss_scale.parameters)}
        parts.append(f"[loss_scale]\n{tomli_w.dumps(law)}")
    parts.extend(f"[[rules]]\n{tomli_w.dumps(_rule_table(rule))}" for rule in policy.rules)
    text = "\n".join(parts)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PolicyError(
            f"policy {policy.name!r} has text that is not Unicode, {text[error.start]!r}; a file cannot hold it"
        ) from error
    return text


def _check_selectors(policy: Policy) -> None:
    seen: set[Selector] = set()
    for rule in policy.rules:
        if isinstance(rule.select, ByPredicate):
            raise PolicyError(
                f"policy {policy.name!r} has the rule '{rule}'; a file cannot hold a Python function: select "
                "by path, class, activation or outputs, or keep this policy in code"
            )
        if rule.select in seen:
            raise PolicyError(
                f"policy {policy.name!r} has two rules for {describe_selector(rule.select)!r}; the later one "
                "always wins: drop the earlier one"
            )
        seen.add(rule.select)


def _extended_preset(policy: Policy) -> Precision | None:
    """Return the preset whose safeguards the policy has: the one with its default if possible."""
    if not policy.safeguards:
        return None
    for preset in (policy.default, *Precision):
        if safeguards(preset) == policy.safeguards:
            return preset
    raise PolicyError(
        f"policy {policy.name!r} has safeguards that are those of no preset; a file can only take a preset's: "
        "give them as rules"
    )


def _rule_table(rule: Rule) -> dict[str, object]:
    return {**_selector_entry(rule.select), "precision": rule.precision.value, "reason": rule.reason}


def _selector_entry(select: Selector) -> dict[str, object]:
    match select:
        case ByPath(pattern):
            return {"path": pattern}
        case ByClass(name):
            return {"class": name}
        case ByActivation(name):
            return {"activation": name}
        case Outputs():
            return {"outputs": True}
        case ActivityRegularized():
            return {"activity_regularizer": True}
        case ByPredicate():
            raise PolicyError(f"a file cannot hold {describe_selector(select)!r}, a Python function")

"""Reading a policy from ``policy.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from mixte._errors import InputError, PolicyError
from mixte.policy._loss_scale import LossScaleSpec, Parameter
from mixte.policy._policy import Policy
from mixte.policy._rule import Rule
from mixte.policy._selectors import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPath,
    Outputs,
    Selector,
    describe_selector,
)
from mixte.policy._toml_document import Table, parse_document

if TYPE_CHECKING:
    import os

    from mixte.policy._presets import Recommendation

SCHEMA: Final = 1
TOP_KEYS: Final = ("schema", "name", "extends", "default", "reason", "loss_scale", "rules")
SELECTOR_KEYS: Final = ("path", "class", "activation", "outputs", "activity_regularizer")
RULE_KEYS: Final = (*SELECTOR_KEYS, "precision", "reason")
ONE_SELECTOR: Final = (
    'a rule selects by exactly one of path = "...", class = "...", activation = "...", outputs = true, '
    "activity_regularizer = true"
)


def read_policy(path: str | os.PathLike[str], *, recommendation: Recommendation | None = None) -> Policy:
    """Read a policy from a file.

    Args:
        path: The file, in the format of the page "Policies" of the documentation. A policy without a
            ``name`` is named after the file.
        recommendation: What ``extends = "auto"`` stands for; see ``Policy.named``.

    Raises:
        PolicyError: The file cannot be read, is not TOML, or says something that a policy cannot: an unknown
            key, precision or preset, a value of the wrong type, a rule with no selector or with two, two rules
            with the same selector. The message names the file, the line and the key.
    """
    file = Path(path)
    try:
        # A byte order mark, which some editors write, is not TOML.
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PolicyError(f"cannot read the policy {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"cannot read the policy {file}: it is not UTF-8 text ({error.reason})") from error
    return parse_policy(text, source=str(file), name=file.stem, recommendation=recommendation)


def parse_policy(
    text: str,
    *,
    source: str = "policy.toml",
    name: str = "policy",
    recommendation: Recommendation | None = None,
) -> Policy:
    """Read a policy from the text of a ``policy.toml``.

    Args:
        text: The document.
        source: The name of the document, for messages.
        name: The policy's name where the document gives none.
        recommendation: What ``extends = "auto"`` stands for; see ``Policy.named``.

    Raises:
        PolicyError: As ``read_policy``.
    """
    document = parse_document(text, source=source)
    _check_schema(document)
    document.check_keys(TOP_KEYS)
    base = _base(document, recommendation)
    own_name = document.get("name", str)
    if own_name is not None and not own_name.strip():
        raise document.error("the name is empty; leave it out to name the policy after the file", "name")
    reason = document.get("reason", str)
    return Policy(
        base.default,
        _rules(document),
        safeguards=base.safeguards,
        loss_scale=_loss_scale(document),
        name=name if own_name is None else own_name,
        reason=base.reason if reason is None else reason,
    )


def _check_schema(document: Table) -> None:
    schema = document.require("schema", int, f"write 'schema = {SCHEMA}' on the first line")
    if schema != SCHEMA:
        raise document.error(f"schema {schema} is not known; this version of mixte reads {SCHEMA}", "schema")


def _base(document: Table, recommendation: Recommendation | None) -> Policy:
    """Return the policy that the file starts from: its default and its safeguards."""
    extends = document.get("extends", str)
    default = document.get("default", str)
    if extends is None and default is None:
        raise document.error(
            "neither 'extends' nor 'default' is there; write extends = \"mixed_float16\" for a preset with its "
            'safe defaults, or default = "float32" for a precision alone'
        )
    base = None
    if extends is not None:
        try:
            base = Policy.named(extends, recommendation=recommendation)
        except InputError as error:
            raise document.error(str(error), "extends") from error
    if default is None:
        return cast("Policy", base)
    try:
        return Policy(default, safeguards=() if base is None else base.safeguards)
    except InputError as error:
        raise document.error(str(error), "default") from error


def _loss_scale(document: Table) -> LossScaleSpec | None:
    if isinstance(document.values.get("loss_scale"), str):
        law = document.require("loss_scale", str, "")
        if not law:
            raise document.error("the law's name is empty; write for example 'dynamic'", "loss_scale")
        return LossScaleSpec(law)
    table = document.table("loss_scale")
    if table is None:
        return None
    law = table.require("law", str, 'write for example law = "dynamic"')
    parameters: dict[str, Parameter] = {}
    for key, value in table.values.items():
        if not isinstance(value, (str, int, float, bool)):
            raise table.error(f"a law's parameter is a number, a string or a boolean, not {value!r}", key)
        if key != "law":
            parameters[key] = value
    try:
        return LossScaleSpec(law, parameters)
    except PolicyError as error:
        raise table.error(str(error), "law") from error


def _rules(document: Table) -> tuple[Rule, ...]:
    rules: list[Rule] = []
    line_by_selector: dict[Selector, int] = {}
    for table in document.tables("rules"):
        rule = _rule(table)
        if rule.select in line_by_selector:
            raise table.error(
                f"the rule on line {line_by_selector[rule.select]} selects the same, "
                f"{describe_selector(rule.select)}; keep one of them"
            )
        line_by_selector[rule.select] = table.lines[table.path]
        rules.append(rule)
    return tuple(rules)


def _rule(table: Table) -> Rule:
    table.check_keys(RULE_KEYS)
    given = [key for key in table.values if key in SELECTOR_KEYS]
    if len(given) != 1:
        found = "none of them" if not given else " and ".join(given)
        raise table.error(f"{ONE_SELECTOR}; found {found}", *given[1:2])
    select = _selector(table, given[0])
    precision = table.require("precision", str, 'write for example precision = "float32"')
    reason = table.require("reason", str, "say in a sentence why, for the summary of a run")
    try:
        return Rule(select, precision, reason)
    except PolicyError as error:
        raise table.error(str(error), "reason") from error
    except InputError as error:
        raise table.error(str(error), "precision") from error


def _selector(table: Table, key: str) -> Selector:
    if key in ("outputs", "activity_regularizer"):
        if not table.require(key, bool, ""):
            raise table.error("false selects nothing; write true, or leave the rule out", key)
        return Outputs() if key == "outputs" else ActivityRegularized()
    value = table.require(key, str, "")
    try:
        match key:
            case "path":
                return ByPath(value)
            case "class":
                return ByClass(value)
            case _:
                return ByActivation(value)
    except PolicyError as error:
        raise table.error(str(error), key) from error

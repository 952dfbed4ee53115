"""The rule table (``rules.toml``) and the engine that applies it to a kernel's name.

A name is decided once: names repeat by the thousand, and the last answers are kept. Every rule first asks for a
plain word, which costs far less than a regular expression, so that a profile with a million different names
stays a matter of seconds.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from importlib import resources
from typing import Literal, cast

from mixte.profiles._name import KernelName, parse
from mixte.profiles._name_dtype import Types, read_types


class Verdict(Enum):
    """On what a kernel did its work."""

    TENSOR_CORE = "tensor_core"
    """Matrix work on Tensor Cores (AMD: matrix cores)."""

    CUDA_CORE = "cuda_core"
    """Matrix or convolution work on CUDA cores (AMD: the vector ALU)."""

    UNKNOWN = "unknown"
    """Could be either: the evidence does not tell."""

    NOT_MATMUL = "not_matmul"
    """No matrix or convolution work: elementwise, reduction, layout, communication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table; the fields are described at the top of ``rules.toml``."""

    id: str
    step: str
    on: Literal["name", "subject", "function"]
    words: tuple[str, ...]
    tokens: str | None
    pattern: str | None
    unless: str | None
    whole: bool
    verdict: Verdict
    family: str
    input: str | None
    accumulate: str | None
    reason: str
    source: str
    matrix_work: bool

    def applies(self, text: str, *, cut: bool) -> bool:
        """Whether the rule applies to the text that `on` selects, which holds one of its words."""
        if self.whole and cut:
            return False
        if self.pattern is not None and not re.search(self.pattern, text):
            return False
        return self.unless is None or not re.search(self.unless, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameVerdict:
    """What a kernel's name says.

    Attributes:
        verdict: On what it ran.
        matrix_work: Whether it multiplies matrices or convolves; None if not even that is known.
        rule: Id of the rule that decided; None if none applied.
        family: The library or generator it comes from, ``"unrecognised"`` if no rule applied.
        input_dtype: Type of the operands, None where the name does not tell.
        accumulate_dtype: Type of the sum, None where the name does not tell.
        reason: Why, in one clause.
    """

    verdict: Verdict
    matrix_work: bool | None
    rule: str | None
    family: str
    input_dtype: str | None
    accumulate_dtype: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTable:
    """All rules, in the order in which they are tried.

    Attributes:
        version: Raised with every change that can change a verdict.
    """

    version: int
    rules: tuple[Rule, ...]

    def first_that_applies(self, name: KernelName) -> Rule | None:
        """Try the rules in order; None if no rule applies."""
        texts = {"name": name.whole, "subject": name.subject, "function": name.function}
        for rule in self.rules:
            text = texts[rule.on]
            # A plain loop: any() over a generator costs ten times the substring searches themselves.
            for word in rule.words:
                if word in text:
                    break
            else:
                if rule.tokens is None or not re.search(rule.tokens, text):
                    continue
            if rule.applies(text, cut=name.cut):
                return rule
        return None


_NOTHING_KNOWN = NameVerdict(
    verdict=Verdict.UNKNOWN,
    matrix_work=None,
    rule=None,
    family="unrecognised",
    input_dtype=None,
    accumulate_dtype=None,
    reason="no rule recognises the name",
)


@cache
def rule_table() -> RuleTable:
    """Load the rule table that is installed with mixte (once)."""
    text = resources.files("mixte.profiles").joinpath("rules.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return RuleTable(version=document["version"], rules=tuple(_rule(row) for row in document["rule"]))


@lru_cache(maxsize=1 << 16)
def classify(name: str) -> NameVerdict:
    """Decide by a kernel's name alone.

    Args:
        name: As a profiler wrote it: demangled, mangled or cut short.

    Returns:
        The verdict of the first rule that applies.

    Example:
        >>> classify("ampere_sgemm_128x64_tn").verdict
        <Verdict.CUDA_CORE: 'cuda_core'>
    """
    parsed = parse(name)
    rule = rule_table().first_that_applies(parsed)
    return _NOTHING_KNOWN if rule is None else _answer(rule, parsed)


def _answer(rule: Rule, name: KernelName) -> NameVerdict:
    input_dtype, accumulate_dtype = _types(rule, name.whole)
    return NameVerdict(
        verdict=rule.verdict,
        matrix_work=rule.matrix_work
        if rule.verdict is Verdict.UNKNOWN
        else rule.verdict is not Verdict.NOT_MATMUL,
        rule=rule.id,
        family=rule.family,
        input_dtype=input_dtype,
        accumulate_dtype=accumulate_dtype,
        reason=rule.reason,
    )


def _types(rule: Rule, whole: str) -> Types:
    read: Types = (None, None)
    for field in (rule.input, rule.accumulate):
        if field is not None and field.startswith("name:"):
            read = read_types(field.removeprefix("name:"), whole)
            break
    input_dtype = read[0] if _is_read(rule.input) else rule.input
    accumulate_dtype = read[1] if _is_read(rule.accumulate) else rule.accumulate
    return input_dtype, accumulate_dtype


def _is_read(field: str | None) -> bool:
    return field is not None and field.startswith("name:")


def _rule(row: dict[str, object]) -> Rule:
    return Rule(
        id=cast("str", row["id"]),
        step=cast("str", row["step"]),
        on=cast('Literal["name", "subject", "function"]', row["on"]),
        words=tuple(cast("list[str]", row["words"])),
        tokens=_any_of(cast("list[str]", row.get("tokens", []))),
        pattern=cast("str | None", row.get("pattern")),
        unless=cast("str | None", row.get("unless")),
        whole=cast("bool", row.get("whole", False)),
        verdict=Verdict(row["verdict"]),
        family=cast("str", row["family"]),
        input=cast("str | None", row.get("input")),
        accumulate=cast("str | None", row.get("accumulate")),
        reason=cast("str", row["reason"]),
        source=cast("str", row["source"]),
        matrix_work=cast("bool", row.get("matrix_work", False)),
    )


def _any_of(tokens: list[str]) -> str | None:
    if not tokens:
        return None
    # Not before the dots of a name cut short: what looks like a word may be the start of a longer one.
    return r"(?<![a-z])(?:" + "|".join(tokens) + r")(?![a-z]|\.\.\.|\u2026)"

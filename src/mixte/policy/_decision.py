"""What a policy decides for one layer, and why: the row of a summary's table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from mixte.policy._layer import LayerDescription
    from mixte.policy._precision import Precision
    from mixte.policy._rule import Rule

Origin: TypeAlias = Literal["rule", "owner", "script", "safeguard", "default"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The precision of one layer with where it comes from.

    Attributes:
        layer: The layer that was decided on.
        precision: What it computes in and stores. None where the script gave the layer a dtype policy that is
            none of these precisions (a quantised one, say): the layer stays as the script made it.
        origin: What decided: ``"rule"`` (one of the policy's own rules), ``"owner"`` (such a rule, for the
            layer that this one is a part of), ``"script"`` (a dtype in the script itself), ``"safeguard"`` (a
            safe default of the preset) or ``"default"`` (the policy's default precision).
        rule: The rule or safeguard that decided; None for ``"script"`` and ``"default"``.
        reason: Why, in a sentence.
        shadowed: The other rules and safeguards that select this layer and were beaten, the strongest first.
    """

    layer: LayerDescription
    precision: Precision | None
    origin: Origin
    rule: Rule | None
    reason: str
    shadowed: tuple[Rule, ...] = ()

    @property
    def path(self) -> str:
        """The layer's path."""
        return self.layer.path

    @property
    def class_name(self) -> str:
        """The name of the layer's own class."""
        return self.layer.class_name

    @property
    def compute_dtype(self) -> str | None:
        """The dtype that the layer computes in; None where the layer stays as the script made it."""
        return None if self.precision is None else self.precision.compute_dtype

    @property
    def variable_dtype(self) -> str | None:
        """The dtype of the layer's variables; None where the layer stays as the script made it."""
        return None if self.precision is None else self.precision.variable_dtype

    @property
    def source(self) -> str:
        """What decided, in a few words: the rule as text, or ``"script"`` or ``"default"``."""
        return self.origin if self.rule is None else str(self.rule)

"""A precision policy: which layer runs in which precision, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mixte._errors import PolicyError
from mixte.policy._decision import Decision
from mixte.policy._loss_scale import LossScaleSpec
from mixte.policy._precision import Precision
from mixte.policy._presets import preset_default, resolve_auto
from mixte.policy._safeguards import safeguards as safeguards_for
from mixte.policy._selectors import Specificity, specificity, with_owners

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixte.policy._layer import LayerDescription
    from mixte.policy._presets import Recommendation
    from mixte.policy._rule import Rule

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True, init=False)
class Policy:
    """Which layer runs in which precision, and why.

    For one layer, ``decide`` takes, in this order: the most specific of ``rules`` that selects it (of equally
    specific ones the later); the dtype that the script itself gave to the layer; the most specific of
    ``safeguards``; ``default``. There is one exception, made so that a broad rule does not undo a safe default
    by accident: a safeguard that is more specific than the rule and asks for a wider precision keeps it. A
    safeguard never narrows a precision. The page "Policies" of the documentation derives the order.

    Attributes:
        default: The precision of every layer that nothing else selects.
        rules: The user's rules, in order.
        safeguards: The preset's safe defaults, in order.
        loss_scale: The loss-scaling law to use; None leaves the choice to the trainer, which scales the loss
            wherever gradients flow in float16 and nowhere else.
        name: What the policy is called in records and tables.
        reason: Why this policy was chosen; empty where nobody said.

    Raises:
        InputError: No precision has the name given as ``default``.

    Example:
        >>> policy = Policy.mixed("float16").with_rules(Rule(ByPath("head/**"), "float32", "overflows"))
        >>> policy.decide(LayerDescription(path="head/dense", class_names=("Dense", "Layer"))).compute_dtype
        'float32'
    """

    default: Precision
    rules: tuple[Rule, ...]
    safeguards: tuple[Rule, ...]
    loss_scale: LossScaleSpec | None
    name: str
    reason: str

    def __init__(
        self,
        default: Precision | str,
        rules: Iterable[Rule] = (),
        *,
        safeguards: Iterable[Rule] = (),
        loss_scale: LossScaleSpec | str | None = None,
        name: str | None = None,
        reason: str = "",
    ) -> None:
        precision = Precision.named(default)
        if name is not None and not name.strip():
            raise PolicyError("a policy's name is empty; leave it out to name the policy after its default")
        # The class is frozen: its own constructor is the one place that sets the fields.
        object.__setattr__(self, "default", precision)
        object.__setattr__(self, "rules", tuple(rules))
        object.__setattr__(self, "safeguards", tuple(safeguards))
        scale = LossScaleSpec(loss_scale) if isinstance(loss_scale, str) else loss_scale
        object.__setattr__(self, "loss_scale", scale)
        object.__setattr__(self, "name", precision.value if name is None else name)
        object.__setattr__(self, "reason", reason)

    @classmethod
    def named(cls, name: str, *, recommendation: Recommendation | None = None) -> Policy:
        """Return the preset with a name.

        Args:
            name: ``"float32"``, ``"float64"``, ``"mixed_float16"``, ``"mixed_bfloat16"``, ``"float16"``,
                ``"bfloat16"`` or ``"auto"``.
            recommendation: What ``"auto"`` stands for here: the name of another preset and the reason, or a
                function that returns them, such as ``mixte.devices.recommend_precision``. The reason becomes
                the policy's.

        Raises:
            PolicyError: No preset has that name (the message suggests the nearest), or ``"auto"`` is asked for
                without a recommendation.
        """
        if name == AUTO:
            chosen, reason = resolve_auto(recommendation)
            return replace(cls.named(chosen), reason=reason)
        default = preset_default(name)
        return cls(default, safeguards=safeguards_for(default), name=name)

    @classmethod
    def mixed(cls, dtype: str) -> Policy:
        """Return the preset that computes in a 16-bit dtype and keeps float32 variables.

        Args:
            dtype: ``"float16"`` or ``"bfloat16"``.

        Raises:
            PolicyError: Another dtype; only these two have 16 bits.
        """
        if dtype not in ("float16", "bfloat16"):
            raise PolicyError(
                f"no mixed policy computes in {dtype!r}; the 16-bit dtypes are 'float16' and 'bfloat16'"
            )
        return cls.named(f"mixed_{dtype}")

    def with_rules(self, *rules: Rule) -> Policy:
        """Return this policy with more rules after its own."""
        return replace(self, rules=(*self.rules, *rules))

    def decide(self, layer: LayerDescription) -> Decision:
        """Decide on the precision of a layer.

        Args:
            layer: The layer's description.

        Returns:
            The precision with what decided and the rules that were beaten. Never ambiguous: see the class.

        Raises:
            PolicyError: A predicate raised, or returned neither True nor False.
        """
        rules = _strongest_first(self.rules, layer)
        safeguards = _strongest_first(self.safeguards, layer)
        everything = tuple(rule for _, rule in (*rules, *safeguards))
        chosen = self._without_safeguards(layer, rules)
        for strength, safeguard in safeguards:
            outranked = chosen.origin == "rule" and rules[0][0] >= strength
            if not outranked and _widens(safeguard, chosen):
                chosen = _guarded(layer, safeguard)
                break
        return replace(chosen, shadowed=tuple(rule for rule in everything if rule is not chosen.rule))

    def _without_safeguards(self, layer: LayerDescription, rules: list[tuple[Specificity, Rule]]) -> Decision:
        if rules:
            rule = rules[0][1]
            return Decision(layer=layer, precision=rule.precision, origin="rule", rule=rule, reason=rule.reason)
        for owner in with_owners(layer)[1:]:
            inherited = _strongest_first(self.rules, owner)
            if inherited:
                rule = inherited[0][1]
                reason = f"part of {owner.path}: {rule.reason}"
                return Decision(layer=layer, precision=rule.precision, origin="owner", rule=rule, reason=reason)
        if layer.dtype_set_by_user is not None:
            return _as_the_script_says(layer, layer.dtype_set_by_user)
        reason = self.reason or f"the default of policy {self.name}"
        return Decision(layer=layer, precision=self.default, origin="default", rule=None, reason=reason)


def _strongest_first(rules: tuple[Rule, ...], layer: LayerDescription) -> list[tuple[Specificity, Rule]]:
    selecting = [
        (strength, position, rule)
        for position, rule in enumerate(rules)
        if (strength := specificity(rule.select, layer)) is not None
    ]
    selecting.sort(key=lambda entry: entry[:2], reverse=True)
    return [(strength, rule) for strength, _, rule in selecting]


def _widens(safeguard: Rule, chosen: Decision) -> bool:
    # The script's author knew this layer; a safe default is for layers that nobody thought about.
    if chosen.origin == "script" or chosen.precision is None:
        return False
    return safeguard.precision.is_wider_than(chosen.precision)


def _guarded(layer: LayerDescription, safeguard: Rule) -> Decision:
    return Decision(
        layer=layer,
        precision=safeguard.precision,
        origin="safeguard",
        rule=safeguard,
        reason=safeguard.reason,
    )


def _as_the_script_says(layer: LayerDescription, dtype: str) -> Decision:
    if dtype in Precision.__members__:
        reason = f"the script sets dtype={dtype!r} on this layer"
        return Decision(
            layer=layer, precision=Precision.named(dtype), origin="script", rule=None, reason=reason
        )
    reason = (
        f"the script sets dtype={dtype!r} on this layer, which is none of {', '.join(Precision)}: left alone"
    )
    return Decision(layer=layer, precision=None, origin="script", rule=None, reason=reason)

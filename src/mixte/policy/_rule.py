"""One rule of a policy: which layers, in which precision, and why."""

from __future__ import annotations

from dataclasses import dataclass

from mixte._errors import PolicyError
from mixte.policy._precision import Precision
from mixte.policy._selectors import Selector, describe_selector


@dataclass(frozen=True, slots=True, init=False)
class Rule:
    """Which layers run in which precision, and why.

    Attributes:
        select: Which layers.
        precision: What they compute in and store.
        reason: Why, for the summary of a run: one sentence, not empty.

    Raises:
        InputError: No precision has the name given.
        PolicyError: The reason is empty.

    Example:
        >>> Rule(ByPath("head/**"), "float32", "its variances overflow float16").precision
        <Precision.float32: 'float32'>
    """

    select: Selector
    precision: Precision
    reason: str

    def __init__(self, select: Selector, precision: Precision | str, reason: str) -> None:
        if not reason.strip():
            raise PolicyError(
                f"the rule for {describe_selector(select)!r} has no reason; say in a sentence why its layers "
                f"run in {precision}"
            )
        # The class is frozen: its own constructor is the one place that sets the fields.
        object.__setattr__(self, "select", select)
        object.__setattr__(self, "precision", Precision.named(precision))
        object.__setattr__(self, "reason", reason)

    def __str__(self) -> str:
        return f"{describe_selector(self.select)} -> {self.precision}"

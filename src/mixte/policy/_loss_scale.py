"""What a policy says about loss scaling: a law by name with its parameters, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mixte._errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Mapping

Parameter: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True, init=False)
class LossScaleSpec:
    """A loss-scaling law by name, with its parameters. ``mixte.scaling`` knows the laws and checks both.

    Attributes:
        law: The law's name, for example ``"dynamic"``.
        parameters: The law's parameters by name, sorted by name, for example ``(("initial", 32768),)``.

    Raises:
        PolicyError: The law has no name, or a parameter is called ``law``.
    """

    law: str
    parameters: tuple[tuple[str, Parameter], ...]

    def __init__(self, law: str, parameters: Mapping[str, Parameter] | None = None) -> None:
        if not law:
            raise PolicyError(
                "a loss-scaling law is given by its name, for example 'dynamic'; the name is empty"
            )
        if parameters and "law" in parameters:
            raise PolicyError(
                "a parameter of a loss-scaling law cannot be called 'law': that is the law's name"
            )
        # The class is frozen: its own constructor is the one place that sets the fields.
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "parameters", tuple(sorted((parameters or {}).items())))

    def __str__(self) -> str:
        return ", ".join([self.law, *(f"{name}={value}" for name, value in self.parameters)])

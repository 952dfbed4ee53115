"""The presets by name, and what ``auto`` stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mixte._errors import PolicyError
from mixte.policy._nearest import did_you_mean
from mixte.policy._precision import Precision

Recommendation: TypeAlias = tuple[str, str] | Callable[[], tuple[str, str]]
"""A preset's name and why it is recommended here, or a function that returns them."""

PRESET_NAMES: Final = (*(precision.value for precision in Precision), "auto")


def preset_default(name: str) -> Precision:
    """Return the default precision of the preset with a name.

    Raises:
        PolicyError: No preset has that name; the message suggests the nearest.
    """
    if name not in Precision.__members__:
        raise PolicyError(
            f"no policy is called {name!r}.{did_you_mean(name, PRESET_NAMES)} "
            f"The presets are {', '.join(PRESET_NAMES)}."
        )
    return Precision.named(name)


def resolve_auto(recommendation: Recommendation | None) -> tuple[str, str]:
    """Return the preset that ``auto`` stands for, and why.

    Raises:
        PolicyError: There is no recommendation, or it recommends ``auto`` itself or an unknown preset.
    """
    if recommendation is None:
        raise PolicyError(
            "policy 'auto' depends on the device; pass recommendation=mixte.devices.recommend_precision, "
            "or name a preset"
        )
    chosen, reason = recommendation() if callable(recommendation) else recommendation
    if chosen not in Precision.__members__:
        raise PolicyError(
            f"the recommendation for policy 'auto' is {chosen!r}, which is no precision; "
            f"it must be one of {', '.join(Precision)}"
        )
    return chosen, f"auto chose {chosen}: {reason}"

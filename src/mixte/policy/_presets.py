"""The presets: their default precision, and the safe defaults that come with the 16-bit ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from mixte._errors import PolicyError
from mixte.policy._nearest import did_you_mean
from mixte.policy._precision import Precision
from mixte.policy._rule import Rule
from mixte.policy._selectors import ActivityRegularized, ByActivation, ByClass, Outputs

Recommendation: TypeAlias = tuple[str, str] | Callable[[], tuple[str, str]]
"""A preset's name and why it is recommended here, or a function that returns them."""

PRESET_NAMES: Final = (*(precision.value for precision in Precision), "auto")


def bfloat16_safeguards() -> tuple[Rule, ...]:
    """Return the safe defaults of a policy that computes in bfloat16."""
    return (
        Rule(Outputs(), "float32", "the loss and the metrics start from the model's outputs"),
        Rule(ByClass("Softmax"), "float32", "16 bits round probabilities"),
        Rule(ByActivation("softmax"), "float32", "16 bits round probabilities"),
        Rule(ByActivation("log_softmax"), "float32", "16 bits round log-probabilities"),
    )


def float16_safeguards() -> tuple[Rule, ...]:
    """Return the safe defaults of a policy that computes in float16."""
    return (
        *bfloat16_safeguards(),
        Rule(
            ActivityRegularized(), "float32", "the penalty sums squares of activations: above 65504 it is inf"
        ),
        Rule(ByClass("ActivityRegularization"), "float32", "its penalty is computed from its output"),
        Rule(ByClass("UnitNormalization"), "float32", "it sums squares: inf from |x| = 256 in float16"),
        Rule(ByClass("Dot"), "float32", "a dot product of long vectors passes 65504"),
        Rule(ByClass("SpectralNormalization"), "float32", "the power iteration belongs on the float32 weight"),
    )


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


def preset_safeguards(name: str) -> tuple[Rule, ...]:
    """Return the safe defaults of the preset with a name: none for float32 and float64."""
    match preset_default(name).compute_dtype:
        case "float16":
            return float16_safeguards()
        case "bfloat16":
            return bfloat16_safeguards()
        case _:
            return ()


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
    preset_default(chosen)
    return chosen, f"auto chose {chosen}: {reason}"

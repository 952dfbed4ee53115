"""Checking the parameters of a law when it is made: what was received, what is allowed, what to do."""

from __future__ import annotations

from math import isfinite
from numbers import Integral, Real
from typing import Any

from mixte._errors import InputError
from mixte.scaling._bounds import FLOAT32_MAX, FLOAT32_TINY

_INT32_MAX = 2**31 - 1


def require_scales(law: object) -> None:
    """Check ``min_scale <= initial_scale <= max_scale``, normal float32 numbers, and store them as float."""
    names = ("min_scale", "initial_scale", "max_scale")
    low, initial, high = (require_scale(law, name) for name in names)
    if not low <= initial <= high:
        raise InputError(
            f"{_who(law)}: initial_scale is {initial:g}, but min_scale is {low:g} and max_scale is {high:g}. "
            "It must lie between them: change initial_scale or move the bound."
        )


def require_scale(law: object, name: str) -> float:
    """Check that a field is a positive normal float32 number, store it as float and return it."""
    return require_number(law, name, at_least=FLOAT32_TINY, at_most=FLOAT32_MAX)


def require_factors(law: object) -> None:
    """Check ``growth_factor > 1 > backoff_factor > 0`` and store both as float."""
    require_number(law, "growth_factor", above=1.0, at_most=FLOAT32_MAX)
    require_number(law, "backoff_factor", at_least=FLOAT32_TINY, below=1.0)


def require_number(
    law: object,
    name: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> float:
    """Check that a field is a finite real number within the limits, store it as float and return it."""
    value: Any = getattr(law, name)
    limits = [
        f"{word} {limit:g}"
        for word, limit in (("at least", at_least), ("above", above), ("at most", at_most), ("below", below))
        if limit is not None
    ]
    allowed = "a finite number, " + " and ".join(limits)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _refused(law, name, value, allowed)
    number = float(value)
    if (
        not isfinite(number)
        or (at_least is not None and number < at_least)
        or (above is not None and number <= above)
        or (at_most is not None and number > at_most)
        or (below is not None and number >= below)
    ):
        raise _refused(law, name, value, allowed)
    object.__setattr__(law, name, number)  # the dataclass is frozen; this runs inside its construction
    return number


def require_count(law: object, name: str, *, at_least: int = 1) -> int:
    """Check that a field is a whole number that int32 holds, store it as int and return it."""
    value: Any = getattr(law, name)
    if isinstance(value, bool) or not isinstance(value, Integral) or not at_least <= int(value) < _INT32_MAX:
        raise _refused(law, name, value, f"a whole number of at least {at_least} (and below 2**31 - 1)")
    object.__setattr__(law, name, int(value))
    return int(value)


def require_choice(law: object, name: str, choices: tuple[str, ...]) -> None:
    """Check that a field is one of the given words."""
    value: Any = getattr(law, name)
    if value not in choices:
        raise _refused(law, name, value, "one of " + ", ".join(repr(choice) for choice in choices))


def _who(law: object) -> str:
    return type(law).__name__


def _refused(law: object, name: str, value: object, allowed: str) -> InputError:
    return InputError(f"{_who(law)}: {name} is {value!r}. It must be {allowed}.")

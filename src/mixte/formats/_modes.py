"""How a value is rounded, and what becomes of one that is too large."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from mixte._errors import InputError

if TYPE_CHECKING:
    from mixte.formats._float import FloatFormat

Rounding: TypeAlias = Literal[
    "nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative", "stochastic"
]
"""How a value between two neighbours of a format is rounded.

- ``"nearest_even"``: to the nearer one, a tie to the one with an even code. What every framework's cast does.
- ``"nearest_away"``: to the nearer one, a tie to the one of larger magnitude (``cvt.rna.tf32`` of PTX).
- ``"toward_zero"``, ``"toward_positive"``, ``"toward_negative"``: to the one on that side.
- ``"stochastic"``: to the one of larger magnitude with a probability equal to the distance from the other, in
  units of the gap between them. Unbiased, up to the resolution of the random numbers (2**-32 of the gap for
  a float32 array, 2**-53 for a float64 array).
"""

Overflow: TypeAlias = Literal["infinity", "nan", "saturate"]
"""What becomes of an infinity, and of a finite value that rounds beyond the largest finite number.

A finite value that is rounded toward zero, or toward the side on which the finite numbers lie, never rounds
beyond: it becomes the largest finite number under every rule (IEEE 754-2019, 7.4).
"""

Subnormals: TypeAlias = Literal["keep", "flush"]
"""Whether a result below the smallest normal number is kept, or replaced by a zero of its sign."""


def check_rounding(rounding: str) -> Rounding:
    """Return the rounding mode, or raise the InputError that lists them."""
    for known in get_args(Rounding):
        if rounding == known:
            return known
    raise InputError(f"unknown rounding '{rounding}'. It is one of: {', '.join(get_args(Rounding))}.")


def check_subnormals(subnormals: str) -> Subnormals:
    """Return the treatment of subnormals, or raise the InputError that lists them."""
    for known in get_args(Subnormals):
        if subnormals == known:
            return known
    raise InputError(f"unknown treatment of subnormals '{subnormals}'. It is one of: keep, flush.")


def default_overflow(fmt: FloatFormat) -> Overflow:
    """What the format's own cast does: infinity where it has one, else NaN, else saturation.

    That is how ml_dtypes converts, and with it JAX and TensorFlow. Other libraries saturate float8_e4m3fn,
    which is why every function here takes the rule as an argument.
    """
    if fmt.has_infinity:
        return "infinity"
    return "nan" if fmt.has_nan else "saturate"


def check_overflow(fmt: FloatFormat, overflow: str | None) -> Overflow:
    """Return the overflow rule, the format's own for None.

    Raises:
        InputError: The rule is unknown, or asks for a value that the format does not have.
    """
    allowed = [
        rule
        for rule, available in (("infinity", fmt.has_infinity), ("nan", fmt.has_nan), ("saturate", True))
        if available
    ]
    if overflow is None:
        return default_overflow(fmt)
    for rule in get_args(Overflow):
        if overflow == rule:
            if rule in allowed:
                return rule
            raise InputError(
                f"{fmt.name} has no {'NaN' if rule == 'nan' else rule}: overflow can be {' or '.join(allowed)}."
            )
    raise InputError(f"unknown overflow rule '{overflow}'. For {fmt.name} it is {' or '.join(allowed)}.")

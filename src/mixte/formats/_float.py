"""A binary floating-point format as a frozen record of parameters; every limit is derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Specials: TypeAlias = Literal["ieee", "fn", "fnuz", "finite", "fnu"]
"""Which codes are not numbers.

- ``"ieee"``: the largest exponent field holds the infinities (mantissa 0) and NaN (any other mantissa).
- ``"fn"``: no infinities; only the code with exponent and mantissa all ones is NaN, one for each sign.
- ``"fnuz"``: no infinities and no negative zero; the code that would be negative zero is the only NaN.
- ``"finite"``: every code is a number.
- ``"fnu"``: unsigned powers of two, without zero and infinity; the code of all ones is NaN.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatFormat:
    """A floating-point format of radix 2.

    A code is ``sign | exponent field | mantissa field``. A normal number is
    ``(-1)**sign * 2**(field - bias) * (1 + mantissa / 2**mantissa_bits)``; with an exponent field of 0 it is
    subnormal: ``(-1)**sign * 2**emin * mantissa / 2**mantissa_bits``.

    Attributes:
        name: The format's name, spelled as its standard and the array libraries spell it.
        exponent_bits: Width of the exponent field.
        mantissa_bits: Width of the mantissa field: the fraction bits that are stored.
        bias: What is subtracted from the exponent field.
        specials: Which codes are infinities, NaN and negative zero.
        source: The standard or paper that defines the format.

    Example:
        >>> from mixte.formats import FLOAT16
        >>> FLOAT16.max, FLOAT16.min_subnormal == 2.0**-24
        (65504.0, True)
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: Specials
    source: str

    def __str__(self) -> str:
        return self.name

    @property
    def is_signed(self) -> bool:
        """True if the format has a sign bit."""
        return self.specials != "fnu"

    @property
    def bits(self) -> int:
        """Width of a code."""
        return int(self.is_signed) + self.exponent_bits + self.mantissa_bits

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number."""
        return -self.bias if self.specials == "fnu" else 1 - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number."""
        reserved = 1 if self.specials in {"ieee", "fnu"} else 0
        return 2**self.exponent_bits - 1 - reserved - self.bias

    @property
    def max(self) -> float:
        """The largest finite number."""
        largest_mantissa = 2**self.mantissa_bits - (2 if self.specials == "fn" else 1)
        return float(2.0**self.emax * (1 + largest_mantissa / 2**self.mantissa_bits))

    @property
    def min(self) -> float:
        """The smallest finite number: ``-max``, or the smallest power of two where there is no sign."""
        return -self.max if self.is_signed else self.min_normal

    @property
    def min_normal(self) -> float:
        """The smallest positive normal number, 2**emin."""
        return 2.0**self.emin

    @property
    def min_subnormal(self) -> float | None:
        """The smallest positive subnormal number, or None in a format without subnormals."""
        return None if self.specials == "fnu" else 2.0 ** (self.emin - self.mantissa_bits)

    @property
    def smallest(self) -> float:
        """The smallest positive number."""
        return self.min_normal if self.min_subnormal is None else self.min_subnormal

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number."""
        return 2.0**-self.mantissa_bits

    @property
    def has_zero(self) -> bool:
        """True if the format has a zero."""
        return self.specials != "fnu"

    @property
    def has_negative_zero(self) -> bool:
        """True if the format tells -0 from +0."""
        return self.specials in {"ieee", "fn", "finite"}

    @property
    def has_infinity(self) -> bool:
        """True if the format has infinities."""
        return self.specials == "ieee"

    @property
    def has_nan(self) -> bool:
        """True if the format has at least one NaN."""
        return self.specials != "finite"

    @property
    def nan_codes(self) -> tuple[range, ...]:
        """The codes that are NaN, as ranges in ascending order; empty in a format without NaN."""
        sign = 1 << (self.bits - 1)
        match self.specials:
            case "ieee":
                infinity = (2**self.exponent_bits - 1) << self.mantissa_bits
                return (range(infinity + 1, sign), range(sign + infinity + 1, 2 * sign))
            case "fn":
                return (range(sign - 1, sign), range(2 * sign - 1, 2 * sign))
            case "fnuz":
                return (range(sign, sign + 1),)
            case "fnu":
                return (range(2 * sign - 1, 2 * sign),)
            case "finite":
                return ()

    @property
    def overflow_boundary(self) -> float:
        """The magnitude half a unit in the last place beyond ``max``.

        Rounding to nearest, a larger magnitude overflows and a smaller one does not; whether this very
        magnitude does is ``overflow_boundary_overflows``.
        """
        return self.max + 2.0 ** (self.emax - self.mantissa_bits - 1)

    @property
    def overflow_boundary_overflows(self) -> bool:
        """True if ``overflow_boundary`` itself overflows when it is rounded to nearest even.

        It is a tie between ``max`` and the number that would follow: it goes to the even one. Float16 has
        an odd largest mantissa, so 65520 overflows; float8_e4m3fn has an even one, so 464 becomes 448.
        """
        if self.specials == "fnu":  # no mantissa: the parity is that of the exponent field, 0xFE
            return False
        return self.specials != "fn"

    @property
    def zero_boundary(self) -> float | None:
        """The largest magnitude that becomes 0 when it is rounded to nearest even: half the smallest number.

        None in a format without zero.
        """
        return None if self.min_subnormal is None else self.min_subnormal / 2

"""What one dot-product unit of a Tensor Core does, as a record of parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Conversion: TypeAlias = Literal["float32_toward_zero", "e8m13_toward_zero", "float16_nearest_even"]
"""How the exact sum of the aligned terms becomes the result of a block.

- ``"float32_toward_zero"``: truncated to 23 fraction bits of its own exponent, gradual underflow to 2**-149.
- ``"e8m13_toward_zero"``: the same with 13 fraction bits, kept as a float32.
- ``"float16_nearest_even"``: one rounding to float16, subnormals kept.
"""

Evidence: TypeAlias = Literal["recorded", "published"]
"""``"recorded"``: reproduces every recorded result of real hardware that the tests have.
``"published"``: follows a published model; no public recording to check it against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DotUnit:
    """The rules by which one instruction computes d = c + a_1 b_1 + ... + a_L b_L, block after block.

    Within a block every product is exact and not renormalised: its exponent is the sum of the exponents of
    its factors. The largest exponent E among the non-zero products and c, but at least ``exponent_floor``,
    aligns all: each term is truncated toward zero to a multiple of 2**(E - fraction_bits), the terms are added
    exactly, and the sum is converted. d of one block is c of the next.

    Attributes:
        instruction: The instruction, as PTX or the vendor calls it.
        block: L, products per block.
        fraction_bits: F, fraction bits kept below E.
        conversion: How the sum becomes the result.
        exponent_floor: The smallest E, or None.
        emin: The exponent of a subnormal operand, for each operand; its own format's, unless the unit converts
            the operand first.
        adds_c_last: The unit is two float16 instructions that share out every 32 products in pairs, start from
            zero, and add c at the end with one rounding to nearest even.
        group: Products that are summed exactly before they are scaled and aligned, as one term whose exponent
            is that of the scales; 1 if every product is a term.
        evidence: What the rules have been checked against.
        source: Where they come from.
    """

    instruction: str
    block: int
    fraction_bits: int
    conversion: Conversion
    exponent_floor: int | None
    emin: tuple[int, int]
    adds_c_last: bool = False
    group: int = 1
    evidence: Evidence
    source: str

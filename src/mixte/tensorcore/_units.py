"""Which units each architecture has: block length, fraction bits, conversion and exponent floor of each.

NVIDIA does not publish these numbers; they were found by probing. Sources:

- KM: Khattak and Mikaitis, Accurate models of NVIDIA Tensor Cores, ACM TACO 23(3), 2026, arXiv 2512.07004,
  table II.
- XIE: Xie et al., MMA-Sim, arXiv 2511.10909, tables 3 to 5.
- MMAEMU: the measurements documented with the package mmaemu 0.1.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from mixte._errors import InputError
from mixte.formats import BLOCK_FORMATS, FORMATS
from mixte.tensorcore._unit import Conversion, DotUnit, Evidence

Architecture: TypeAlias = Literal["volta", "turing", "ampere", "ada", "hopper", "blackwell"]
Accumulate: TypeAlias = Literal["float32", "float16"]

ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One line of the table: the units of some architectures for some formats, by accumulator."""

    archs: tuple[Architecture, ...]
    inputs: tuple[str, ...]
    mixes: bool = False  # whether A and B may be of two of the formats
    instruction: str
    block: int
    fraction_bits: int
    conversion: Conversion = "float32_toward_zero"  # with a float32 accumulator
    floor: int | None
    evidence: Evidence
    floor16: int | None = None
    evidence16: Evidence | None = None  # None: no float16 accumulator
    on_float16_unit: bool = False
    group: int = 1
    source: str


_KM = "arXiv 2512.07004, table II"
_XIE = "arXiv 2511.10909, tables 3 to 5"
_MMAEMU = "measurements of mmaemu 0.1.0; arXiv 2512.07004, table II"

_FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_NARROW = (*_FLOAT8, "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
_MX = ("mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4")

# In order of preference: the first row that fits is an architecture's own instruction for the formats.
# fmt: off
_TABLE: tuple[_Row, ...] = (
    _Row(archs=("volta",), inputs=("float16",), instruction="mma", block=4, fraction_bits=23,
         floor=None, evidence="recorded", floor16=-19, evidence16="recorded", source=_KM),
    # Nobody has published Turing's exponent floor: Ampere's is taken.
    _Row(archs=("turing",), inputs=("float16",), instruction="mma", block=8, fraction_bits=24,
         floor=-132, evidence="published", floor16=-20, evidence16="published", source=_XIE),
    _Row(archs=("ampere", "ada"), inputs=("float16",), instruction="mma", block=8, fraction_bits=24,
         floor=-132, evidence="recorded", floor16=-20, evidence16="recorded", source=_KM),
    _Row(archs=("ampere", "ada"), inputs=("bfloat16",), instruction="mma", block=8, fraction_bits=24,
         floor=-132, evidence="recorded", source=_KM),
    _Row(archs=("ampere", "ada"), inputs=("tf32",), instruction="mma", block=4, fraction_bits=24,
         floor=-132, evidence="recorded", source=_KM),
    _Row(archs=("hopper", "blackwell"), inputs=("float16",), instruction="mma", block=16, fraction_bits=25,
         floor=-133, evidence="recorded", floor16=-21, evidence16="recorded", source=_KM),
    _Row(archs=("hopper", "blackwell"), inputs=("bfloat16",), instruction="mma", block=16, fraction_bits=25,
         floor=-133, evidence="recorded", source=_KM),
    # The recordings for tf32 have K = 4 and so do not show a length of 8.
    _Row(archs=("hopper", "blackwell"), inputs=("tf32",), instruction="mma", block=8, fraction_bits=25,
         floor=-133, evidence="published", source=_XIE),
    _Row(archs=("hopper", "blackwell"), inputs=("tf32",), instruction="wmma", block=4, fraction_bits=25,
         floor=-133, evidence="recorded", source=_KM),
    _Row(archs=("ada",), inputs=_FLOAT8, mixes=True, instruction="mma.sync", block=16, fraction_bits=13,
         conversion="e8m13_toward_zero", floor=-132, evidence="recorded", floor16=-132, evidence16="recorded",
         source=_MMAEMU),
    _Row(archs=("hopper",), inputs=_FLOAT8, mixes=True, instruction="wgmma", block=32, fraction_bits=13,
         conversion="e8m13_toward_zero", floor=-132, evidence="recorded", floor16=-132, evidence16="published",
         source=_MMAEMU),
    _Row(archs=("blackwell",), inputs=_NARROW, mixes=True, instruction="tcgen05", block=32, fraction_bits=25,
         floor=-133, evidence="published", floor16=-133, evidence16="published", source=_XIE),
    # The data-centre parts run the float8 mma.sync on the float16 unit.
    _Row(archs=("hopper", "blackwell"), inputs=_FLOAT8, mixes=True, instruction="mma.sync", block=16,
         fraction_bits=25, floor=-133, evidence="recorded", floor16=-21, evidence16="recorded",
         on_float16_unit=True, source=_KM),
    _Row(archs=("blackwell",), inputs=("nvfp4", "mxfp4"), instruction="mxf4nvf4", block=64, fraction_bits=35,
         floor=None, evidence="published", group=16, source=_XIE),
    _Row(archs=("blackwell",), inputs=_MX, mixes=True, instruction="mxf8f6f4", block=32, fraction_bits=25,
         floor=-133, evidence="published", source=_XIE),
)
# fmt: on


def dot_unit(
    arch: str,
    input_a: str,
    input_b: str | None = None,
    *,
    accumulate: str = "float32",
    instruction: str | None = None,
) -> DotUnit:
    """Return the rules by which an architecture multiplies these formats.

    Args:
        arch: One of ``ARCHITECTURES``.
        input_a: The format of A: a number format, or a block format on Blackwell.
        input_b: The format of B, if it is another: the 8-bit formats, and on Blackwell all of 8 bits and
            fewer, can be mixed.
        accumulate: ``"float32"`` or ``"float16"``, the format of C and D.
        instruction: Which instruction, where an architecture has several for the same formats; its own by
            default. Hopper and Blackwell: ``"mma.sync"`` for float8, ``"wmma"`` for tf32. Blackwell:
            ``"mxf8f6f4"`` for mxfp4.

    Raises:
        InputError: An architecture, format or instruction that does not exist, with what exists.

    Example:
        >>> dot_unit("volta", "float16").fraction_bits
        23
    """
    found, a, b = _check_arch(arch), input_a, input_b or input_a
    _check_format(found, a)
    _check_format(found, b)
    if accumulate not in get_args(Accumulate):
        raise InputError(f"cannot accumulate in '{accumulate}'. It is one of: float32, float16.")
    rows = [
        row
        for row in _TABLE
        if found in row.archs and a in row.inputs and b in row.inputs and (row.mixes or a == b)
    ]
    if not rows:
        raise InputError(f"the Tensor Cores of {found} do not multiply {a} by {b}: use one format for both.")
    if accumulate == "float16":
        rows = [row for row in rows if row.evidence16 is not None]
    if not rows:
        raise InputError(f"the Tensor Cores of {found} accumulate {a} in float32 only, not in float16.")
    for row in rows:
        if instruction in {None, row.instruction}:
            return _unit(row, (a, b), half=accumulate == "float16")
    raise InputError(
        f"{found} has no instruction '{instruction}' for {a} with a {accumulate} accumulator. "
        f"It has: {', '.join(row.instruction for row in rows)}."
    )


def inputs_of(arch: str) -> tuple[str, ...]:
    """Return the names of the formats that the Tensor Cores of an architecture multiply, widest first.

    Raises:
        InputError: An unknown architecture.
    """
    found = _check_arch(arch)
    names = {name for row in _TABLE if found in row.archs for name in row.inputs}
    return tuple(name for name in (*FORMATS, *BLOCK_FORMATS) if name in names)


def _check_arch(arch: str) -> Architecture:
    for known in ARCHITECTURES:
        if arch == known:
            return known
    raise InputError(
        f"unknown architecture '{arch}'. The architectures are: {', '.join(ARCHITECTURES)} "
        "(V100 is volta, T4 turing, A100 ampere, L4 and L40S ada, H100 and H200 hopper, B200 blackwell)."
    )


def _check_format(arch: Architecture, name: str) -> None:
    has = inputs_of(arch)
    if name in has:
        return
    if name not in FORMATS and name not in BLOCK_FORMATS:
        raise InputError(f"unknown format '{name}'. The Tensor Cores of {arch} multiply: {', '.join(has)}.")
    owners = [other for other in ARCHITECTURES if name in inputs_of(other)]
    where = f"{', '.join(owners)} can" if owners else "no architecture can"
    raise InputError(
        f"the Tensor Cores of {arch} do not multiply {name} ({where}). They multiply: {', '.join(has)}."
    )


def _unit(row: _Row, pair: tuple[str, str], *, half: bool) -> DotUnit:
    formats = ("float16", "float16") if row.on_float16_unit else pair
    evidence = row.evidence16 if half and row.evidence16 else row.evidence
    return DotUnit(
        instruction=row.instruction,
        block=row.block,
        fraction_bits=row.fraction_bits,
        conversion="float16_nearest_even" if half else row.conversion,
        exponent_floor=row.floor16 if half else row.floor,
        emin=(_emin(formats[0]), _emin(formats[1])),
        adds_c_last=row.on_float16_unit,
        group=row.group,
        evidence=evidence,
        source=row.source,
    )


def _emin(name: str) -> int:
    return (BLOCK_FORMATS[name].element if name in BLOCK_FORMATS else FORMATS[name]).emin

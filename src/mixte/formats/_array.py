"""Rounding arrays, block by block so that the passes stay in the cache.

Two branch-free definitions, both easy to write down in any framework that can reinterpret a float's bits.
``u`` is the bit pattern of x in the carrier (float32 or float64), which stores ``shift`` more mantissa bits
than the format.

- *By scaling*, for a format with subnormals of its own: let e be the exponent of x, but at least emin. In units
  of 2**(e - mantissa_bits) the numbers of the format around x are the integers, so x is scaled, rounded to an
  integer, and scaled back. Both scalings are by powers of two and exact.
- *By bits*, for a format with the carrier's exponent range, or without subnormals: add to u what the mode
  asks for below bit ``shift`` (for nearest even: half a unit minus one, plus bit ``shift`` of u), then clear
  the lowest ``shift`` bits. A carry into the exponent is right: the next number after the largest mantissa
  is the next power of two.

Then magnitudes beyond the largest finite number are replaced by what the overflow rule says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mixte._errors import InputError
from mixte.formats._modes import check_overflow, check_rounding, check_subnormals
from mixte.formats._table import FORMATS, float_format

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from mixte.formats._float import FloatFormat
    from mixte.formats._modes import Overflow, Rounding, Subnormals

_BLOCK_BYTES = 131072  # four such buffers stay in a 1 MiB second-level cache; fewer bytes cost more calls

Floats: TypeAlias = "NDArray[np.floating[Any]]"
Codes: TypeAlias = "NDArray[np.unsignedinteger[Any]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Carrier:
    """The IEEE format that holds the values: its layout, and the integers of its width."""

    dtype: np.dtype[Any]
    unsigned: np.dtype[Any]
    exponent_bits: int
    mantissa_bits: int

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent_bits - 1) - 1

    @property
    def emin(self) -> int:
        return 1 - self.bias

    @property
    def exponent_mask(self) -> np.unsignedinteger[Any]:
        return self.unsigned.type((2**self.exponent_bits - 1) << self.mantissa_bits)

    def exponent_field(self, exponent: int) -> np.unsignedinteger[Any]:
        """The bit pattern of 2**exponent, a normal number."""
        return self.unsigned.type((exponent + self.bias) << self.mantissa_bits)


_FLOAT32 = _Carrier(dtype=np.dtype(np.float32), unsigned=np.dtype(np.uint32), exponent_bits=8, mantissa_bits=23)
_FLOAT64 = _Carrier(
    dtype=np.dtype(np.float64), unsigned=np.dtype(np.uint64), exponent_bits=11, mantissa_bits=52
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Everything about one conversion that does not depend on the data."""

    fmt: FloatFormat
    carrier: _Carrier
    rounding: Rounding
    overflow: Overflow
    flush: bool
    generator: np.random.Generator | None

    @property
    def shift(self) -> int:
        return self.carrier.mantissa_bits - self.fmt.mantissa_bits

    @property
    def by_scaling(self) -> bool:
        return self.fmt.min_subnormal is not None and self.fmt.emin > self.carrier.emin

    @property
    def keeps_every_value(self) -> bool:
        """Whether the format holds every value of the carrier, so that there is nothing to do."""
        wide = self.shift <= 0 and self.fmt.emin <= self.carrier.emin
        return wide and self.overflow == "infinity" and not self.flush


def round_to(
    x: ArrayLike,
    fmt: FloatFormat | str,
    *,
    rounding: Rounding = "nearest_even",
    overflow: Overflow | None = None,
    subnormals: Subnormals = "keep",
    generator: np.random.Generator | None = None,
    out: Floats | None = None,
) -> Floats:
    """Round every element to a format, in one rounding whatever the dtype of the input.

    Args:
        x: Array of any shape. float32 and float64 are taken as they are; float16 and the narrow types of
            ml_dtypes are widened to float32, integers and Python numbers to float64 (which must hold them
            exactly).
        fmt: The format, or its name.
        rounding: The rounding mode.
        overflow: What becomes of an infinity, and of a value that rounds beyond the largest finite number:
            ``"infinity"``, ``"nan"`` or ``"saturate"``. If None, what the format's own cast does: infinity
            where it has one, else NaN, else saturation.
        subnormals: ``"flush"`` replaces results below the smallest normal number by a zero of their sign.
        generator: The source of randomness; needed by, and only by, ``"stochastic"``. One 32-bit number is
            drawn for each float32 element and one 64-bit number for each float64 element (and for every
            element of ``float8_e8m0fnu``), in the order in which the elements lie in memory.
        out: Where to write the result; may be ``x`` itself. Same shape, and the dtype of the result.

    Returns:
        The rounded values as float32, or float64 for float64 input. ``x`` itself if no element can change
        and ``out`` is None.

    Special values: NaN stays NaN, also in a format that has none (``float6``, ``float4``): a hidden NaN would
    be worse than one that cannot be encoded. -0 stays -0 where the format has it and becomes +0 where it has
    not. ``float8_e8m0fnu`` has no zero and no sign: zero and negative numbers become NaN, and a positive
    number below 2**-127 becomes 2**-127.

    Raises:
        InputError: An unknown format or mode, an overflow rule that the format does not allow, a missing or
            superfluous generator, an ``out`` that does not fit, or an array that is not real or too wide.

    Example:
        >>> import numpy as np
        >>> round_to(np.float32([1e-8, 0.1, 65520.0]), "float16").tolist()
        [0.0, 0.0999755859375, inf]
    """
    fmt, rounding = float_format(fmt), check_rounding(rounding)
    _check_generator(rounding, generator)
    values = as_floats(x)
    plan = _Plan(
        fmt=fmt,
        carrier=_FLOAT64 if values.dtype == np.float64 else _FLOAT32,
        rounding=rounding,
        overflow=check_overflow(fmt, overflow),
        flush=check_subnormals(subnormals) == "flush",
        generator=generator,
    )
    if out is not None:
        _check_out(out, values)
    if plan.keeps_every_value:
        return _copied(values, out)
    if not fmt.is_signed and plan.carrier is _FLOAT32:
        return _copied(_round_in_float64(values, plan), out)
    result = np.empty_like(values) if out is None else out
    _round_blocks(values, result, plan)
    return result


def _check_generator(rounding: Rounding, generator: np.random.Generator | None) -> None:
    if rounding == "stochastic" and generator is None:
        raise InputError(
            "stochastic rounding needs a source of randomness: pass generator=numpy.random.default_rng(seed)."
        )
    if rounding != "stochastic" and generator is not None:
        raise InputError(f"rounding '{rounding}' draws nothing: leave generator out, or use 'stochastic'.")


def as_floats(x: ArrayLike) -> Floats:
    """Return x as float32 or float64 of the machine's byte order, without a copy where it is one of them."""
    values = np.asarray(x)
    dtype: np.dtype[Any] = values.dtype
    if dtype == np.float32 or dtype == np.float64:  # noqa: PLR1714 - `in` hashes, and byte orders differ there
        return values.astype(dtype.newbyteorder("="), copy=False)
    if dtype == np.float16 or dtype.name in FORMATS:
        return widened(values, np.float32)
    if dtype.kind in "iub":
        if values.size and max(abs(int(values.max())), abs(int(values.min()))) > 2**53:
            raise InputError("integers beyond 2**53 in magnitude are not exact in float64: convert them first.")
        return values.astype(np.float64)
    raise InputError(
        f"cannot round an array of dtype {dtype}: it must hold integers or real numbers of at most 64 bits."
    )


def widened(values: NDArray[Any], dtype: type[np.float32 | np.float64]) -> Floats:
    """Convert to a type that holds every value; a signalling NaN becomes a quiet one without a warning."""
    with np.errstate(invalid="ignore"):
        return values.astype(dtype)


def _check_out(out: Floats, values: Floats) -> None:
    if out.shape != values.shape or out.dtype != values.dtype:
        raise InputError(
            f"out has shape {out.shape} and dtype {out.dtype}; "
            f"the result has shape {values.shape} and dtype {values.dtype}."
        )


def _copied(values: Floats, out: Floats | None) -> Floats:
    if out is None:
        return values
    np.copyto(out, values)
    return out


def _round_in_float64(values: Floats, plan: _Plan) -> Floats:
    """Round float32 to float8_e8m0fnu, whose smallest number is a subnormal float32, through float64."""
    wide = widened(values, np.float64)
    _round_blocks(wide, wide, replace(plan, carrier=_FLOAT64))
    return wide.astype(np.float32)


def _round_blocks(values: Floats, result: Floats, plan: _Plan) -> None:
    """Round block by block; an array that is not contiguous goes through one flat copy."""
    same_layout = values.flags.forc and result.flags.forc and values.strides == result.strides
    source = values.ravel(order="K" if same_layout else "C")
    target = result.ravel(order="K") if same_layout else np.empty_like(source)
    step = _BLOCK_BYTES // plan.carrier.dtype.itemsize
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, source.size, step):
            block = slice(start, start + step)
            target[block] = _round_block(source[block], plan)
    if not same_layout:
        np.copyto(result, target.reshape(values.shape))


def _round_block(x: Floats, plan: _Plan) -> Floats:
    """Return one contiguous block, rounded."""
    fmt, scalar = plan.fmt, plan.carrier.dtype.type
    draws = _draw(x.size, plan)
    rounded = _round_by_scaling(x, draws, plan) if plan.by_scaling else _round_by_bits(x, draws, plan)
    largest = scalar(fmt.max)
    if not (x.max() <= largest and x.min() >= -largest):  # NaN compares false
        _patch_large(x, rounded, plan)
    if not fmt.is_signed:
        np.maximum(rounded, scalar(fmt.smallest), out=rounded)
        np.copyto(rounded, scalar(np.nan), where=~(x > 0))
    if plan.flush:
        np.multiply(rounded, scalar(0), out=rounded, where=np.abs(rounded) < scalar(fmt.min_normal))
    if not fmt.has_negative_zero:
        rounded += scalar(0)  # -0 + 0 is +0
    return rounded


def _draw(size: int, plan: _Plan) -> Codes | None:
    """One random integer for each element, as wide as the carrier, or None."""
    if plan.generator is None:
        return None
    width = plan.carrier.unsigned.itemsize
    return np.frombuffer(plan.generator.bytes(size * width), plan.carrier.unsigned)


def _round_by_scaling(x: Floats, draws: Codes | None, plan: _Plan) -> Floats:
    """Scale so that the numbers of the format around x are the integers; round; scale back.

    Infinities come out as anything, and so do NaN.
    """
    carrier, fmt = plan.carrier, plan.fmt
    one, unsigned = carrier.exponent_field(0), carrier.unsigned.type
    e = x.view(carrier.unsigned) & carrier.exponent_mask
    np.maximum(e, carrier.exponent_field(fmt.emin), out=e)
    e -= unsigned(fmt.mantissa_bits << carrier.mantissa_bits)  # the gap, 2**(e - mantissa_bits)
    reciprocal = one + one - e  # twice the bias, minus the exponent field
    y = x * reciprocal.view(carrier.dtype)
    _to_integers(y, draws, plan.rounding)
    y *= e.view(carrier.dtype)
    return y


def _to_integers(y: Floats, draws: Codes | None, rounding: Rounding) -> None:
    """Round to integers in place, keeping the sign of zero."""
    match rounding:
        case "nearest_even":
            np.rint(y, out=y)
        case "toward_zero":
            np.trunc(y, out=y)
        case "toward_positive":
            np.ceil(y, out=y)
        case "toward_negative":
            np.floor(y, out=y)
        case "nearest_away" | "stochastic":
            below = np.trunc(y)
            fraction = np.abs(y - below)
            away = fraction >= (0.5 if draws is None else _complement(draws))
            np.add(below, np.copysign(away.astype(y.dtype), y), out=y)


def _complement(draws: Codes) -> Floats:
    """1 - draw for draws as numbers in [0, 1), exact in float64: from 32 bits, or the upper 53 of 64."""
    if draws.dtype.itemsize == np.dtype(np.uint32).itemsize:
        return 1.0 - draws * 2.0**-32
    return 1.0 - (draws >> np.uint64(11)) * 2.0**-53


def _round_by_bits(x: Floats, draws: Codes | None, plan: _Plan) -> Floats:
    """Add below the last kept bit what the mode asks for, then cut. NaN comes out as anything."""
    carrier = plan.carrier
    unsigned = carrier.unsigned.type
    u = x.view(carrier.unsigned)
    shift, low = unsigned(plan.shift), unsigned((1 << plan.shift) - 1)
    if plan.shift == 0:
        return x.copy()
    match plan.rounding:
        case "nearest_even":
            t = u >> shift
            t &= unsigned(1)
            t += low >> unsigned(1)
            t += u
        case "nearest_away":
            t = u + unsigned(1 << (plan.shift - 1))
        case "toward_zero":
            t = u
        case "toward_positive" | "toward_negative":
            t = u >> unsigned(carrier.bits - 1)  # the sign: whose magnitude is to grow, gets all ones below
            t ^= unsigned(plan.rounding == "toward_positive")
            t *= low
            t += u
        case "stochastic":
            t = u if draws is None else u + (draws >> unsigned(carrier.bits - plan.shift))
    return (t & ~low).view(carrier.dtype)


def _patch_large(x: Floats, rounded: Floats, plan: _Plan) -> None:
    """Apply the overflow rule, and put back the infinities and NaN."""
    scalar, largest = plan.carrier.dtype.type, plan.carrier.dtype.type(plan.fmt.max)
    if plan.overflow == "saturate":
        np.clip(rounded, -largest, largest, out=rounded)
        np.copyto(rounded, np.copysign(largest, x), where=np.isinf(x))
    else:
        beyond = (np.abs(rounded) > largest) | np.isinf(x)
        stays_finite = _stays_finite(x, plan.rounding)
        replacement = np.copysign(scalar(np.inf), x) if plan.overflow == "infinity" else scalar(np.nan)
        np.copyto(rounded, replacement, where=beyond & ~stays_finite)
        np.copyto(rounded, np.copysign(largest, x), where=beyond & stays_finite)
    np.copyto(rounded, scalar(np.nan), where=np.isnan(x))


def _stays_finite(x: Floats, rounding: Rounding) -> NDArray[np.bool_]:
    """Where the mode rounds toward the side on which the finite numbers lie."""
    match rounding:
        case "toward_zero":
            return np.isfinite(x)
        case "toward_positive":
            return np.isfinite(x) & (x < 0)
        case "toward_negative":
            return np.isfinite(x) & (x > 0)
        case _:
            return np.zeros(x.shape, np.bool_)

"""The formats that this project knows by name."""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

from mixte._errors import InputError
from mixte.formats._float import FloatFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

_IEEE = "IEEE 754-2019"
_OFP8 = "OCP 8-bit Floating Point Specification (OFP8) 1.0"
_MX = "OCP Microscaling Formats (MX) Specification 1.0"
_NOUNE = "Noune et al., 8-bit numerical formats for deep neural networks, arXiv 2206.02915"
_P3109 = "IEEE-like 8-bit format, as ml_dtypes and MLIR define it"

FLOAT32 = FloatFormat(
    name="float32", exponent_bits=8, mantissa_bits=23, bias=127, specials="ieee", source=_IEEE
)
TF32 = FloatFormat(
    name="tf32",
    exponent_bits=8,
    mantissa_bits=10,
    bias=127,
    specials="ieee",
    source="NVIDIA A100 Tensor Core GPU Architecture, 2020",
)
FLOAT16 = FloatFormat(name="float16", exponent_bits=5, mantissa_bits=10, bias=15, specials="ieee", source=_IEEE)
BFLOAT16 = FloatFormat(
    name="bfloat16",
    exponent_bits=8,
    mantissa_bits=7,
    bias=127,
    specials="ieee",
    source="Intel, BFLOAT16 - Hardware Numerics Definition, 2018",
)
FLOAT8_E5M2 = FloatFormat(
    name="float8_e5m2", exponent_bits=5, mantissa_bits=2, bias=15, specials="ieee", source=_OFP8
)
FLOAT8_E4M3FN = FloatFormat(
    name="float8_e4m3fn", exponent_bits=4, mantissa_bits=3, bias=7, specials="fn", source=_OFP8
)
FLOAT8_E5M2FNUZ = FloatFormat(
    name="float8_e5m2fnuz", exponent_bits=5, mantissa_bits=2, bias=16, specials="fnuz", source=_NOUNE
)
FLOAT8_E4M3FNUZ = FloatFormat(
    name="float8_e4m3fnuz", exponent_bits=4, mantissa_bits=3, bias=8, specials="fnuz", source=_NOUNE
)
FLOAT8_E4M3B11FNUZ = FloatFormat(
    name="float8_e4m3b11fnuz",
    exponent_bits=4,
    mantissa_bits=3,
    bias=11,
    specials="fnuz",
    source="Sun et al., Hybrid 8-bit floating point training and inference, NeurIPS 2019",
)
FLOAT8_E4M3 = FloatFormat(
    name="float8_e4m3", exponent_bits=4, mantissa_bits=3, bias=7, specials="ieee", source=_P3109
)
FLOAT8_E3M4 = FloatFormat(
    name="float8_e3m4", exponent_bits=3, mantissa_bits=4, bias=3, specials="ieee", source=_P3109
)
FLOAT8_E8M0FNU = FloatFormat(
    name="float8_e8m0fnu", exponent_bits=8, mantissa_bits=0, bias=127, specials="fnu", source=_MX
)
FLOAT6_E2M3FN = FloatFormat(
    name="float6_e2m3fn", exponent_bits=2, mantissa_bits=3, bias=1, specials="finite", source=_MX
)
FLOAT6_E3M2FN = FloatFormat(
    name="float6_e3m2fn", exponent_bits=3, mantissa_bits=2, bias=3, specials="finite", source=_MX
)
FLOAT4_E2M1FN = FloatFormat(
    name="float4_e2m1fn", exponent_bits=2, mantissa_bits=1, bias=1, specials="finite", source=_MX
)

FORMATS: Mapping[str, FloatFormat] = MappingProxyType(
    {
        fmt.name: fmt
        for fmt in (
            FLOAT32,
            TF32,
            FLOAT16,
            BFLOAT16,
            FLOAT8_E5M2,
            FLOAT8_E4M3FN,
            FLOAT8_E5M2FNUZ,
            FLOAT8_E4M3FNUZ,
            FLOAT8_E4M3B11FNUZ,
            FLOAT8_E4M3,
            FLOAT8_E3M4,
            FLOAT8_E8M0FNU,
            FLOAT6_E2M3FN,
            FLOAT6_E3M2FN,
            FLOAT4_E2M1FN,
        )
    }
)
"""Every number format by its name, widest first."""


def float_format(name: str | FloatFormat) -> FloatFormat:
    """Return the format of that name.

    Args:
        name: A key of ``FORMATS``, or a ``FloatFormat``, which is returned as it is.

    Raises:
        InputError: There is no format of that name.

    Example:
        >>> float_format("bfloat16").epsilon
        0.0078125
    """
    if isinstance(name, FloatFormat):
        return name
    try:
        return FORMATS[name]
    except KeyError:
        near = get_close_matches(name, FORMATS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise InputError(
            f"unknown number format '{name}'.{hint} The formats are: {', '.join(FORMATS)}."
        ) from None

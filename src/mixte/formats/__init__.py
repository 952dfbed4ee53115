"""Number formats as records of parameters, and rounding to them.

Needs numpy only. Every limit is derived from a format's parameters, every rounding is exact, and what becomes
of a value that is too large is an argument.
"""

from mixte.formats._array import round_to as round_to
from mixte.formats._block import (
    BLOCK_FORMATS as BLOCK_FORMATS,
    MXFP4 as MXFP4,
    MXFP6_E2M3 as MXFP6_E2M3,
    MXFP6_E3M2 as MXFP6_E3M2,
    MXFP8_E4M3 as MXFP8_E4M3,
    MXFP8_E5M2 as MXFP8_E5M2,
    NVFP4 as NVFP4,
    BlockFormat as BlockFormat,
    BlockScaled as BlockScaled,
    block_format as block_format,
    to_blocks as to_blocks,
)
from mixte.formats._codes import decode as decode, encode as encode, is_member as is_member
from mixte.formats._float import FloatFormat as FloatFormat, Specials as Specials
from mixte.formats._modes import Overflow as Overflow, Rounding as Rounding, Subnormals as Subnormals
from mixte.formats._ranges import (
    MagnitudeRanges as MagnitudeRanges,
    magnitude_ranges as magnitude_ranges,
)
from mixte.formats._scalar import round_scalar as round_scalar
from mixte.formats._table import (
    BFLOAT16 as BFLOAT16,
    FLOAT4_E2M1FN as FLOAT4_E2M1FN,
    FLOAT6_E2M3FN as FLOAT6_E2M3FN,
    FLOAT6_E3M2FN as FLOAT6_E3M2FN,
    FLOAT8_E3M4 as FLOAT8_E3M4,
    FLOAT8_E4M3 as FLOAT8_E4M3,
    FLOAT8_E4M3B11FNUZ as FLOAT8_E4M3B11FNUZ,
    FLOAT8_E4M3FN as FLOAT8_E4M3FN,
    FLOAT8_E4M3FNUZ as FLOAT8_E4M3FNUZ,
    FLOAT8_E5M2 as FLOAT8_E5M2,
    FLOAT8_E5M2FNUZ as FLOAT8_E5M2FNUZ,
    FLOAT8_E8M0FNU as FLOAT8_E8M0FNU,
    FLOAT16 as FLOAT16,
    FLOAT32 as FLOAT32,
    FORMATS as FORMATS,
    TF32 as TF32,
    float_format as float_format,
)

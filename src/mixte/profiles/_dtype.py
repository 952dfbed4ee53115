"""One spelling for the data types that profilers, frameworks and kernel names write in many."""

from __future__ import annotations

_SPELLINGS = {
    "float64": ("double", "fp64", "f64", "c10::double", "torch.float64", "dt_double"),
    "float32": ("float", "fp32", "f32", "single", "torch.float32", "dt_float"),
    "tf32": ("tensorfloat32", "tfloat32_t", "cutlass::tfloat32_t"),
    "float16": (
        *("half", "fp16", "f16", "__half", "half_t", "c10::half", "at::half", "torch.float16", "dt_half"),
        *("cutlass::half_t", "eigen::half"),
    ),
    "bfloat16": (
        *(
            "bf16",
            "__nv_bfloat16",
            "nv_bfloat16",
            "bfloat16_t",
            "c10::bfloat16",
            "at::bfloat16",
            "torch.bfloat16",
        ),
        *("dt_bfloat16", "cutlass::bfloat16_t", "__hip_bfloat16", "std::bfloat16_t", "hip_bfloat16"),
    ),
    "float8_e4m3fn": (
        *("e4m3", "f8e4m3fn", "__nv_fp8_e4m3", "c10::float8_e4m3fn", "torch.float8_e4m3fn", "float_e4m3_t"),
        *("cutlass::float_e4m3_t", "float8e4m3fn", "e4m3fn"),
    ),
    "float8_e5m2": (
        *("e5m2", "f8e5m2", "__nv_fp8_e5m2", "c10::float8_e5m2", "torch.float8_e5m2", "float_e5m2_t"),
        *("cutlass::float_e5m2_t", "float8e5m2"),
    ),
    "float8_e4m3fnuz": ("f8e4m3fnuz", "c10::float8_e4m3fnuz", "torch.float8_e4m3fnuz"),
    "float8_e5m2fnuz": ("f8e5m2fnuz", "c10::float8_e5m2fnuz", "torch.float8_e5m2fnuz"),
    "float4_e2m1fn": ("e2m1", "fp4", "mxfp4", "nvfp4", "f4e2m1fn", "__nv_fp4_e2m1", "float4_e2m1fn_x2"),
    "int8": ("i8", "s8", "signed char", "int8_t", "char", "qint8", "c10::qint8", "dt_int8"),
    "uint8": ("u8", "unsigned char", "uint8_t", "byte", "dt_uint8"),
    "int16": ("i16", "s16", "short", "short int", "dt_int16"),
    "int32": ("i32", "s32", "int", "dt_int32"),
    "int64": ("i64", "s64", "long", "long int", "long long", "dt_int64"),
    "bool": ("pred", "torch.bool", "dt_bool"),
    "complex64": ("c64", "c10::complex<float>", "dt_complex64"),
    "complex128": ("c128", "c10::complex<double>", "dt_complex128"),
}
_BY_SPELLING = {spelling: dtype for dtype, spellings in _SPELLINGS.items() for spelling in (dtype, *spellings)}


def spell(text: str) -> str | None:
    """Give the data type that a profiler or framework wrote in mixte's spelling.

    Args:
        text: For example ``"c10::Half"``, ``"float"``, ``"bf16"``, ``"DT_HALF"`` or ``"const float"``.

    Returns:
        ``"float16"``, ``"float32"`` and so on; None for the empty string and for what is no known data type
        (``"Scalar"``, ``"TensorList"``).

    Example:
        >>> spell("c10::BFloat16")
        'bfloat16'
    """
    return _BY_SPELLING.get(text.strip().lower().removeprefix("const ").rstrip("*& "))

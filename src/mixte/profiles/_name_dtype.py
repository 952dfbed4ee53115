"""Read the data types out of a kernel's name: one reader per naming scheme, called by the rule that knows it.

A reader takes the lower-case name and returns ``(input, accumulate)``; None where the name does not tell, as in
one that the profiler cut short. Types are spelled as `mixte.profiles._dtype.spell` does; two different operand
types are joined with ``x``, as in ``float4_e2m1fn x float8_e4m3fn``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixte.profiles._dtype import spell

if TYPE_CHECKING:
    from collections.abc import Callable

Types = tuple[str | None, str | None]

_TYPE = r"tf32|bf16|f16|f32|f64|[iu]8|[iu]4|i32|s32|s8|u32|e4m3|e5m2|e2m1"
# Spellings of a type anywhere in a name, the longest first. A lone `float` is usually the accumulator or
# a scale, so it counts only where nothing narrower stands in the name.
_ANYWHERE = re.compile(
    r"(?P<tf32>tf32|tfloat32)|(?P<bfloat16>bf16|bfloat16|bhalf|df16b)"
    r"|(?P<float4_e2m1fn>e2m1|fp4|mxf4|nvfp4)|(?P<float8_e4m3fn>e4m3|(?<![a-z])fp8|f8e4|float8)"
    r"|(?P<float8_e5m2>e5m2|f8e5)|(?P<float16>(?<![a-z])f?f?p?(?<=p)16|(?<![a-z0-9])f16|half|df16_|float16)"
    r"|(?P<int8>int8|(?<![a-z0-9])[is]8(?![a-z0-9])|signed char)"
    r"|(?P<float64>double|fp64|(?<![a-z0-9])f64)|(?P<float32>float(?![0-9_a-z]|\d)|fp32|(?<![a-z0-9])f32)"
)
_SHAPE_TAG = re.compile(
    r"(?:(?P<before>bf16|fp16|f16|int8|s8|tf32)_)?(?<![a-z0-9])(?P<a>[shidcz])"
    r"(?P<shape>884|1688|16816|8816|8832|16832|16864|161616|321616|83216)(?P<rest>\w*)"
)
_WIDE = {"float32", "float64"}
# In a mangled name S8_ stands for something named before (Itanium C++ ABI, 5.1.10), not for an 8-bit type.
_SUBSTITUTION = re.compile(r"s[0-9a-z]?_")


def read_types(reader: str, name: str) -> Types:
    """Read operand and accumulator type from a name.

    Args:
        reader: One of `READERS`.
        name: The whole name in lower case.
    """
    return READERS[reader](name)


def _shape_tag(name: str) -> Types:
    """`[type_]<a><shape><op>[_type]`; a accumulates: s float32, h float16, i int32, d float64, c/z complex."""
    match = _SHAPE_TAG.search(name)
    if match is None:
        return _anywhere(name)
    letter = match["a"]
    if letter == "h":
        return "float16", "float16"
    if letter == "d":
        return "float64", "float64"
    if letter == "i":
        after = re.search(r"_(s8|u8|s4|u4|b1)(?:_|$)", match["rest"])
        return (spell(after[1]) if after else None) or "int8", "int32"
    if letter in "cz":
        return ("complex64" if letter == "c" else "complex128"), None
    return _single_precision_tag(name, match), "float32"


def _single_precision_tag(name: str, match: re.Match[str]) -> str | None:
    """An `s` tag names the accumulator; the operands stand before or after it, or are TF32 by their absence."""
    if match["before"]:
        return spell(match["before"])
    if not match["rest"]:
        return None  # cut right after the shape
    if after := re.search(r"(?:gemm|cudnn|[fd]prop|[dw]grad)\w*?_(bf16|fp?16|tf32|f16)(?:_|$)", match["rest"]):
        return spell(after[1])
    # m8n8k4 exists for float16 only (PTX ISA, mma); on Volta and Turing so does every 1688.
    if match["shape"] == "884" or "volta" in name or "turing" in name:
        return "float16"
    return "tf32" if match["shape"] == "1688" else None


def _xmma(name: str) -> Types:
    """`xmma_<op>_<AC>_<XY>_<Z>`: X multiplies, Y accumulates; a first-layer kernel has its operands in AC."""
    if match := re.search(rf"first_layer_({_TYPE})", name):
        return spell(match[1]), None
    match = re.search(rf"xmma_[a-z_0-9]{{0,80}}?_(?:{_TYPE})+_({_TYPE})({_TYPE})?", name)
    if match is None:
        return _anywhere(name)
    return spell(match[1]), spell(match[2]) if match[2] else None


def _nvjet(name: str) -> Types:
    """`nvjet_[smNN_]<abc>_`: operands, accumulator and output, as letters (read from use, not documented)."""
    if "tf32" in name:
        return "tf32", "float32"
    letters = {"h": "float16", "t": "bfloat16", "s": "float32", "q": "float8_e4m3fn", "d": "float64"}
    match = re.search(r"nvjet_(?:sm\d+[a-z]?_)?([a-z])[a-z]{0,3}?([a-z])[a-z](?:_|$)", name)
    return (letters.get(match[1]), letters.get(match[2])) if match else (None, None)


def _mma(name: str) -> Types:
    """Instruction families: imma is integer, dmma float64, `hmma_fp32_traits` float16 with a float32 sum."""
    if re.search(r"(?<![a-z])imma", name):
        return "int8", "int32"
    if re.search(r"(?<![a-z])dmma", name):
        return "float64", "float64"
    found = _operand(name)
    if found[0] is None and (match := re.search(r"hmma_fp(16|32)_traits", name)):
        return "float16", f"float{match[1]}"
    return found


def _operand(name: str) -> Types:
    """The first type in the name that NVIDIA's Tensor Cores multiply: float32 can only be the sum."""
    found = _anywhere(name)
    return (None, None) if found[0] == "float32" else found


def _tensile(name: str) -> Types:
    """`Cijk_A.._B.._<types>_`, the operand's letter first: B bfloat16, H float16, S float32, D float64."""
    match = re.search(r"cijk_a[a-z]+_b[a-z]+_(i8|f8|b8|4xi8|[bhsd])", name)
    letters = {"b": "bfloat16", "h": "float16", "s": "float32", "d": "float64", "i8": "int8", "4xi8": "int8"}
    letters |= {"f8": "float8_e4m3fnuz", "b8": "float8_e5m2fnuz"}
    return (letters.get(match[1]) if match else None), None


def _ck(name: str) -> Types:
    """Composable Kernel's mangled argument codes: t stores bfloat16, DF16_ is float16; else words."""
    if re.search(r"(?:df16_){2}", name):
        return "float16", None
    if name.startswith("_z") and re.search(r"[ie_]t{2,4}f[a-z]", name):
        return "bfloat16", None
    return _anywhere(name)


def _trtllm(name: str) -> Types:
    """`bmm_<C>_<A><B>_<accumulator>_` and `fmhaSm.._Qkv<type>O<type>`."""
    if match := re.search(r"qkv(e4m3|e5m2|bfloat16|fp16|float16)", name):
        return spell(match[1].replace("fp16", "float16")), None
    operand = r"(?:mx|nv)?(e4m3|e2m1|e5m2|bfloat16|fp16|fp32)"
    if match := re.search(rf"(?:bmm|gemm\w*?)_{operand}_{operand}(?:{operand})?_(fp32|fp16)?", name):
        types = [spell(kind) for kind in match.groups()[1:3] if kind]
        joined = " x ".join(dict.fromkeys(kind for kind in types if kind))
        return joined or None, spell(match[4]) if match[4] else None
    return _anywhere(name)


def _simt(name: str) -> Types:
    """`volta_fp16_sgemm_fp16_..`: a half word names the data; the arithmetic is the tag's."""
    if re.search(r"(?<![a-z])hgemm|hcudnn", name):
        return "float16", "float16"
    if re.search(r"(?<![a-z])d(?:gemm|cudnn)", name):
        return "float64", "float64"
    if re.search(r"(?<![a-z])igemm", name):
        return "int8", "int32"
    if re.search(r"(?<![a-z0-9])(?:fp16|__half|half)", name):
        return "float16", "float32"
    if re.search(r"(?<![a-z0-9])(?:bf16|__nv_bfloat16)", name):
        return "bfloat16", "float32"
    return "float32", "float32"


def _complex(name: str) -> Types:
    kind = "complex128" if re.search(r"(?<![a-z])(?:g|fermi)?zgemm", name) else "complex64"
    return kind, kind


def _first_type(name: str) -> Types:
    """The first operand type among the template arguments: `gemv2T_kernel_val<int, int, __half, ...>`.

    A later half or bfloat16 wins over a leading float: cuBLAS writes the compute type first in some kernels.
    """
    found = _anywhere(name)
    if found[0] is None and re.search(r"(?<![a-z])float2(?![a-z0-9])", name):
        return "complex64", "complex64"
    if found[0] is None and re.search(r"(?<![a-z])s(?:cudnn|gemm)", name):
        return "float32", "float32"
    return found


def _anywhere(name: str) -> Types:
    """The first narrow type in the name, or float32 or float64 if that is all there is."""
    text = _SUBSTITUTION.sub("_", name) if name.startswith("_z") else name
    found = [match.lastgroup for match in _ANYWHERE.finditer(text) if match.lastgroup]
    narrow = [kind for kind in found if kind not in _WIDE]
    return (narrow[0] if narrow else found[0] if found else None), None


READERS: dict[str, Callable[[str], Types]] = {
    "any": _anywhere,
    "ck": _ck,
    "complex": _complex,
    "first-type": _first_type,
    "mma": _mma,
    "nvjet": _nvjet,
    "operand": _operand,
    "shape-tag": _shape_tag,
    "simt": _simt,
    "tensile": _tensile,
    "trtllm": _trtllm,
    "xmma": _xmma,
}

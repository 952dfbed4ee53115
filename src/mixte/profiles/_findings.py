"""Why matrix work misses the Tensor Cores, from types, layout, alignment in names, op and device."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mixte.profiles._advice import ADVICE
from mixte.profiles._decide import Basis
from mixte.profiles._hardware import Absent, compute_capability, tensor_cores, vendor
from mixte.profiles._name import parse
from mixte.profiles._rules import Verdict, classify
from mixte.profiles._totals import op_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixte.profiles._model import Gpu
    from mixte.profiles._verdict import JudgedKernel, ProfileVerdict

_MEMORY_BOUND_RULES = frozenset({"gemv", "old-cublas-core", "dot", "decode-attention-dot"})
_ALGORITHM_RULES = frozenset({"winograd", "fft-convolution", "complex-gemm"})
_CONVOLUTION = re.compile(r"conv|cudnn|[fd]prop|[dw]grad|winograd|fft2d", re.IGNORECASE)
_UNALIGNED = re.compile(r"_align[12](?!\d)")
_INT8_SHAPE = re.compile(r"(?<![a-z0-9])i16832")
_AMPERE_OR_LATER = re.compile(r"(?<![a-z0-9])(?:ampere_|sm(?:80|86|89|90|100|120)_|cutlass_8\d_|nvjet)")
_HALF = frozenset({"float16", "bfloat16"})

# Below this share, a finding about time that does reach Tensor Cores, or never could, is noise.
_WORTH_A_WORD = 0.01
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One reason, with the time it stands for.

    Attributes:
        code: Stable name of the reason.
        share: Of GPU kernel time (or launches), 0 to 1.
        what: What the profile shows, continuing "12.3 % of the time ...".
        advice: What to do.
        kernels: The heaviest kernels it concerns, by name.
        ops: The heaviest ops it concerns, with the shapes of their inputs where recorded; empty if unknown.
    """

    code: str
    share: float
    what: str
    advice: str
    kernels: tuple[str, ...]
    ops: tuple[str, ...]


def find(verdict: ProfileVerdict) -> tuple[Finding, ...]:
    """Collect the reasons that a profile supports, the weightiest first.

    Args:
        verdict: A judged profile.

    Returns:
        Nothing where there are no kernels, or where everything is as it should be.
    """
    if verdict.shares is None:
        return ()
    if verdict.shares.of_matrix_work is None:
        return (_finding("no-matrix-work", verdict.kernels, verdict.total),)
    by_code: defaultdict[str, list[JudgedKernel]] = defaultdict(list)
    tf32_in_convolutions_only = _tf32_in_convolutions_only(verdict.kernels)
    for row in verdict.kernels:
        if row.decision.contradiction is not None:
            by_code["contradiction"].append(row)
        if (code := _code(row, tf32_in_convolutions=tf32_in_convolutions_only is not None)) is not None:
            by_code[code].append(row)
    if _AMPERE_OR_LATER.search(" ".join({row.kernel.name for row in by_code["float32"]})):
        by_code["float32-without-tf32"] += by_code.pop("float32")
    findings = [
        _finding(code, rows, verdict.total, tf32_in_convolutions_only=tf32_in_convolutions_only)
        for code, rows in by_code.items()
        if rows
    ]
    quiet = {"unaligned", "layout", "int8-old-path", "unrecognised"}
    kept = (one for one in findings if one.share >= _WORTH_A_WORD or (one.code not in quiet and one.share > 0))
    return tuple(sorted(kept, key=lambda one: -one.share))


def _code(row: JudgedKernel, *, tf32_in_convolutions: bool) -> str | None:
    match row.decision.verdict:
        case Verdict.TENSOR_CORE:
            return _code_of_tensor_core(row)
        case Verdict.CUDA_CORE:
            return _code_of_cuda_core(row, tf32_in_convolutions=tf32_in_convolutions)
        case Verdict.UNKNOWN:
            if parse(row.kernel.name).cut:
                return "cut-names"
            return "unrecognised" if row.decision.rule in {None, "unnamed"} else "undecided"
        case Verdict.NOT_MATMUL:
            return "layout" if row.decision.rule == "layout" else None


def _code_of_tensor_core(row: JudgedKernel) -> str | None:
    name = row.kernel.name.lower()
    if _UNALIGNED.search(name):
        return "unaligned"
    capability = compute_capability(row.gpu) if row.gpu is not None else None
    if _INT8_SHAPE.search(name) and capability is not None and capability >= (10, 0):
        return "int8-old-path"
    return None


def _code_of_cuda_core(row: JudgedKernel, *, tf32_in_convolutions: bool) -> str:
    decision = row.decision
    if decision.basis is Basis.HARDWARE or isinstance(tensor_cores(row.gpu), Absent):
        return "no-tensor-cores"
    if decision.rule in _MEMORY_BOUND_RULES:
        return "memory-bound"
    if decision.family in {"tensile", "miopen", "composable kernel"}:
        return "vector-alu"
    dtype = _data_type(row)
    capability = compute_capability(row.gpu) if row.gpu is not None else None
    algorithm = decision.rule in _ALGORITHM_RULES
    if dtype in _HALF:
        if dtype == "bfloat16" and capability is not None and capability < (8, 0):
            return "bfloat16-before-ampere"
        return "algorithm" if algorithm else "half-on-cuda-cores"
    if dtype == "float64":
        return "float64"
    if algorithm and (dtype != "float32" or (tf32_in_convolutions and capability != (7, 0))):
        return "algorithm"
    if dtype == "float32":
        return _code_of_float32(capability, row.gpu)
    return "algorithm" if algorithm else "cuda-cores"


def _code_of_float32(capability: tuple[int, int] | None, gpu: Gpu | None) -> str:
    if gpu is not None and vendor(gpu) == "amd":
        return "vector-alu"
    if capability is None:
        return "float32"
    return "float32-without-tf32" if capability >= (8, 0) else "float32-before-ampere"


def _data_type(row: JudgedKernel) -> str | None:
    """The op's inputs tell the type of the data; the name only that of the arithmetic."""
    types = set(row.kernel.input_dtypes or ()) & (_HALF | {"float32", "float64"})
    return next(iter(types)) if len(types) == 1 else row.decision.dtype


def _tf32_in_convolutions_only(rows: Iterable[JudgedKernel]) -> bool | None:
    """Whether all TF32 kernels of the profile are convolutions; None if it has none in convolutions."""
    names = {row.kernel.name for row in rows if row.decision.verdict is Verdict.TENSOR_CORE}
    in_tf32 = [name for name in names if classify(name).input_dtype == "tf32"]
    in_convolutions = [bool(_CONVOLUTION.search(name)) for name in in_tf32]
    return all(in_convolutions) if any(in_convolutions) else None


def _finding(
    code: str, rows: Iterable[JudgedKernel], total: int, *, tf32_in_convolutions_only: bool | None = None
) -> Finding:
    heaviest = sorted(rows, key=lambda row: -row.weight)
    advice = ADVICE[code]
    detail = _detail(code, heaviest, total, tf32_in_convolutions_only=tf32_in_convolutions_only)
    return Finding(
        code=code,
        share=sum(row.weight for row in heaviest) / total,
        what=advice.what.format(gpu=_gpu_text(heaviest), detail=detail),
        advice=advice.advice,
        kernels=tuple(dict.fromkeys(row.kernel.name for row in heaviest))[:_EXAMPLES],
        ops=tuple(dict.fromkeys(text for row in heaviest if (text := op_text(row)) is not None))[:_EXAMPLES],
    )


def _detail(code: str, rows: list[JudgedKernel], total: int, *, tf32_in_convolutions_only: bool | None) -> str:
    match code:
        case "contradiction":
            return rows[0].decision.contradiction or ""
        case "float32-without-tf32" | "float32" if tf32_in_convolutions_only:
            return "; TF32 is on for convolutions here, not for matmuls (PyTorch's default)"
        case "half-on-cuda-cores" if rows[0].gpu is None:
            return " (the file does not name the GPU, which may have no Tensor Cores)"
        case "unaligned" if sizes := _unaligned_sizes(rows):
            return f"; inner sizes such as {', '.join(map(str, sizes))}"
        case "undecided":
            yes = sum(row.weight for row in rows if row.decision.likely is Verdict.TENSOR_CORE) / total
            no = sum(row.weight for row in rows if row.decision.likely is Verdict.CUDA_CORE) / total
            families = ", ".join(dict.fromkeys(row.decision.family for row in rows))
            parts = [f"{yes:.1%} probably yes"] * (yes > 0) + [f"{no:.1%} probably not"] * (no > 0)
            return f" ({families}" + "".join(f"; {part}" for part in parts) + ")"
        case _:
            return ""


def _unaligned_sizes(rows: list[JudgedKernel]) -> list[int]:
    """Inner sizes of the ops' matrices that are no multiples of 8, those of the heaviest kernels first."""
    shapes = (shape for row in rows for shape in row.kernel.input_shapes or ())
    sizes = dict.fromkeys(size for shape in shapes for size in shape[-2:] if len(shape) >= 2 and size % 8)
    return list(sizes)[:_EXAMPLES]


def _gpu_text(rows: list[JudgedKernel]) -> str:
    gpu = rows[0].gpu
    if gpu is None:
        return "the GPU"
    capability = compute_capability(gpu)
    number = f"compute capability {capability[0]}.{capability[1]}" if capability is not None else None
    return gpu.name or number or "the GPU"

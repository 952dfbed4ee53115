"""Hardware counters: the only proof of what a kernel ran on (sources: docs/how-it-works/verify.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mixte.profiles._dtype import spell

if TYPE_CHECKING:
    from collections.abc import Mapping

# nvprof's utilisation levels, Nsight Compute's and CUPTI's tensor pipe and FMA counters, AMD's MFMA counters.
_EVIDENCE = re.compile(
    r"tensor_(?:precision|int)_fu_utilization"
    r"|sm(?:sp)?__(?:inst_executed_pipe|pipe|ops_path)_tensor"
    r"|sm(?:sp)?__sass_thread_inst_executed_op_[hfd](?:fma|add|mul)_pred_on"
    r"|SQ_INSTS_(?:VALU_)?MFMA"
    r"|SQ_VALU_MFMA_BUSY_CYCLES"
)
_TENSOR_PIPE = re.compile(r"sm(?:sp)?__inst_executed_pipe_tensor\.sum$")
_TENSOR_PIPE_FAMILY = re.compile(r"sm(?:sp)?__(?:inst_executed_)?pipe_tensor_op_([a-z]+)")
_TENSOR_PIPE_CYCLES = re.compile(r"sm(?:sp)?__pipe_tensor_cycles_active\.")
_TENSOR_OPS_BY_TYPE = re.compile(r"sm(?:sp)?__ops_path_tensor_src_([a-z0-9]+)")
_TENSOR_OPS_BY_FAMILY = re.compile(r"sm(?:sp)?__ops_path_tensor_op_([a-z]+)")
_THREAD_OPS = re.compile(r"sm(?:sp)?__sass_thread_inst_executed_op_([hfd](?:fma|add|mul))_pred_on\.sum$")
_MFMA_TYPE = re.compile(r"SQ_INSTS_VALU_MFMA_(?:MOPS_)?([A-Z]+\d+)")

# Real Tensor Core kernels execute 16 (wmma) to 384 (s16816) tensor instructions per warp, kernels that only use
# packed half arithmetic on the same pipe at most 5; 8 parts them. Fused attention over mostly empty blocks has
# 1 to 5, but executes no packed half instruction at all.
_TENSOR_INSTRUCTIONS_PER_WARP = 8.0
_THREADS_PER_WARP = 32

# A matrix product on CUDA cores is a chain of multiply-adds per output: in a real trace 26 to 1315 of them for
# each other floating-point operation. Elementwise kernels reached 8 and Tensor Core kernels executed none;
# 16 parts them.
_MULTIPLY_ADDS_PER_OTHER_OPERATION = 16.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What counters prove.

    Attributes:
        tensor_cores: Whether the kernel used them.
        dtype: Operand type, where the counter tells.
        reason: The counter and its value.
        matrix_work: True where the counters alone show a matrix product; None where they do not tell.
    """

    tensor_cores: bool
    reason: str
    dtype: str | None = None
    matrix_work: bool | None = None


def is_evidence(metric: str) -> bool:
    """Whether a hardware counter says something about Tensor Cores or matrix cores.

    Args:
        metric: The profiler's own name, for example ``"sm__inst_executed_pipe_tensor.sum"``.
    """
    return _EVIDENCE.match(metric) is not None


def prove(
    counters: Mapping[str, float], threads: int | None, compute_capability: tuple[int, int] | None
) -> Proof | None:
    """Decide by hardware counters.

    Args:
        counters: Value for one launch by the profiler's metric name.
        threads: Threads per launch; None if unknown.
        compute_capability: Of an NVIDIA GPU; None if unknown.

    Returns:
        None if the counters collected do not decide.
    """
    return (
        _by_nvprof_level(counters)
        or _by_mfma(counters)
        or _by_instruction_family(counters, compute_capability)
        or _by_operand_type(counters)
        or _by_tensor_pipe(counters, threads)
        or _by_tensor_cycles(counters)
        or _by_multiply_adds(counters)
    )


def _by_nvprof_level(counters: Mapping[str, float]) -> Proof | None:
    """Levels of nvprof, Idle (0) to Max (10), of the unit itself; half_precision_fu is another unit."""
    half = counters.get("tensor_precision_fu_utilization")
    integer = counters.get("tensor_int_fu_utilization")
    if half:
        return Proof(tensor_cores=True, reason=f"counter tensor_precision_fu_utilization is {half:g} of 10")
    if integer:
        return Proof(
            tensor_cores=True, dtype="int8", reason=f"counter tensor_int_fu_utilization is {integer:g} of 10"
        )
    if half is None:
        return None
    return Proof(tensor_cores=False, reason="counter tensor_precision_fu_utilization is Idle (0)")


def _by_mfma(counters: Mapping[str, float]) -> Proof | None:
    mfma = {name: value for name, value in counters.items() if name.startswith("SQ_") and "MFMA" in name}
    if not mfma:
        return None
    busy = {name: value for name, value in mfma.items() if value > 0}
    if not busy:
        return Proof(tensor_cores=False, reason="all MFMA counters are 0")
    name, value = max(busy.items(), key=lambda item: (_MFMA_TYPE.match(item[0]) is not None, item[1]))
    typed = _MFMA_TYPE.match(name)
    dtype = spell(typed[1]) if typed else None
    return Proof(tensor_cores=True, dtype=dtype, reason=f"counter {name} is {value:,.0f}")


def _by_instruction_family(
    counters: Mapping[str, float], compute_capability: tuple[int, int] | None
) -> Proof | None:
    families: dict[str, tuple[str, float]] = {}
    for name, value in counters.items():
        match = _TENSOR_PIPE_FAMILY.match(name) or _TENSOR_OPS_BY_FAMILY.match(name)
        if match is not None:
            families[match[1]] = max(
                families.get(match[1], (name, 0.0)), (name, value), key=lambda pair: pair[1]
            )
    if not families:
        return None
    family, (name, value) = max(families.items(), key=lambda item: item[1][1])
    if value > 0:
        dtype = {"imma": "int8", "dmma": "float64"}.get(family)
        return Proof(tensor_cores=True, dtype=dtype, reason=f"counter {name} is {value:,.0f}")
    # Hopper's wgmma counts as gmma while hmma stays at 0, so zeros prove nothing without it.
    complete = "gmma" in families or (compute_capability is not None and compute_capability < (9, 0))
    if "hmma" in families and complete:
        return Proof(tensor_cores=False, reason="tensor instruction counters of all families are 0")
    return None


def _by_operand_type(counters: Mapping[str, float]) -> Proof | None:
    """Only a count above 0 decides: the types collected may not be all."""
    typed = [
        (value, name, match[1])
        for name, value in counters.items()
        if value > 0 and (match := _TENSOR_OPS_BY_TYPE.match(name))
    ]
    if not typed:
        return None
    value, name, operand = max(typed)
    dtype = "float8_e4m3fn" if operand == "fp8" else spell(operand)
    return Proof(tensor_cores=True, dtype=dtype, reason=f"counter {name} is {value:,.0f}")


def _by_tensor_pipe(counters: Mapping[str, float], threads: int | None) -> Proof | None:
    """The tensor pipe also executes packed half arithmetic (HFMA), on the A100 in many ordinary kernels."""
    found = [(name, value) for name, value in counters.items() if _TENSOR_PIPE.match(name)]
    if not found:
        return None
    name, instructions = found[0]
    if instructions == 0:
        return Proof(tensor_cores=False, reason=f"counter {name} is 0")
    packed_half = _thread_operations(counters).get("hfma")
    if packed_half == 0:
        return Proof(tensor_cores=True, reason=f"counter {name} is {instructions:,.0f}, without packed half")
    per_warp = None
    if threads:
        own = instructions - (packed_half or 0.0) / _THREADS_PER_WARP
        per_warp = own / (threads / _THREADS_PER_WARP)
    if per_warp is not None and per_warp >= _TENSOR_INSTRUCTIONS_PER_WARP:
        return Proof(tensor_cores=True, reason=f"counter {name}: {per_warp:.0f} matrix instructions per warp")
    if packed_half is None:
        return None
    return Proof(tensor_cores=False, reason=f"counter {name} counts packed half arithmetic only")


def _by_tensor_cycles(counters: Mapping[str, float]) -> Proof | None:
    """Utilisation of the tensor pipe, with the same caution."""
    found = [(name, value) for name, value in counters.items() if _TENSOR_PIPE_CYCLES.match(name)]
    if not found:
        return None
    name, active = found[0]
    if active == 0:
        return Proof(tensor_cores=False, reason=f"counter {name} is 0")
    if _thread_operations(counters).get("hfma") == 0:
        return Proof(tensor_cores=True, reason=f"counter {name} is {active:g}, without packed half")
    return None


def _by_multiply_adds(counters: Mapping[str, float]) -> Proof | None:
    operations = _thread_operations(counters)
    multiply_adds = operations.pop("ffma", 0.0) + operations.pop("dfma", 0.0)
    others = sum(operations.values())
    if multiply_adds and multiply_adds >= _MULTIPLY_ADDS_PER_OTHER_OPERATION * max(others, 1.0):
        return Proof(
            tensor_cores=False,
            matrix_work=True,
            reason=f"counters: {multiply_adds:,.0f} float32 multiply-adds on CUDA cores, {others:,.0f} others",
        )
    return None


def _thread_operations(counters: Mapping[str, float]) -> dict[str, float]:
    """Thread-level operation counts by ``hfma``, ``ffma`` and so on."""
    return {match[1]: value for name, value in counters.items() if (match := _THREAD_OPS.match(name))}

"""One kernel's verdict: counters beat names, names beat guesses, and hardware sets the frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from mixte.profiles._counters import Proof, prove
from mixte.profiles._hardware import (
    Absent,
    Present,
    TensorCores,
    Undetermined,
    compute_capability,
    tensor_cores,
)
from mixte.profiles._rules import NameVerdict, Verdict, classify

if TYPE_CHECKING:
    from mixte.profiles._model import Gpu, Kernel

# Types of operands that no CUDA-core GEMM of a library is written for, or only for tiny sizes.
_NARROW = frozenset(
    {"float16", "bfloat16", "int8", "uint8"}
    | {"float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float4_e2m1fn"}
)
_WIDE = frozenset({"float32", "float64", "complex64", "complex128"})

# Operators that multiply matrices or convolve, as PyTorch, XLA and JAX, TensorFlow and Keras name them.
_MATRIX_OP = re.compile(
    r"(?<![a-z])(?:b|add|badd)?mm(?![a-z])|baddbmm|matmul|linear(?!i)|conv(?!ert)|einsum|tensordot"
    r"|(?<![a-z])dot(?![a-z])|dot_general|xladot|attention|gemm|lstm|(?<![a-z])gru|cudnn_?rnn",
    re.IGNORECASE,
)


class Basis(Enum):
    """What a verdict rests on, from proof to reading."""

    COUNTERS = "counters"
    HARDWARE = "hardware"
    NAME = "name"
    PROFILER = "profiler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict for one row of a profile.

    Attributes:
        verdict: On what the kernel ran.
        basis: What that rests on. ``HARDWARE`` with ``CUDA_CORE``: Tensor Cores are impossible on this GPU.
        reason: Why, in one clause.
        likely: For `Verdict.UNKNOWN`: what types and hardware make likely, ``TENSOR_CORE`` or ``CUDA_CORE``;
            None if nothing does. The time stays unknown all the same.
        dtype: Operand type, from counters, the name or the op's inputs; None if none tells.
        accumulate_dtype: Type of the sum, where the name tells.
        family: Library or generator.
        rule: Id of the name rule; None if no rule recognised the name.
        contradiction: Two pieces of evidence that exclude each other, as a sentence; else None.
    """

    verdict: Verdict
    basis: Basis
    reason: str
    family: str
    likely: Verdict | None = None
    dtype: str | None = None
    accumulate_dtype: str | None = None
    rule: str | None = None
    contradiction: str | None = None


def decide(kernel: Kernel, gpu: Gpu | None, *, tf32_seen: bool) -> Decision:
    """Decide on what a kernel ran.

    Args:
        kernel: A row of a profile.
        gpu: The GPU it ran on; None if the profile does not tell.
        tf32_seen: Whether any kernel of the profile multiplies in TF32, so that float32 data prove little.
    """
    name = classify(kernel.name)
    hardware = tensor_cores(gpu)
    proof = _proof(kernel, gpu)
    if proof is not None:
        decision = _by_proof(name, proof)
    elif isinstance(hardware, Absent):
        decision = _impossible(name, hardware)
    elif name.verdict is Verdict.UNKNOWN and kernel.statement is not None:
        decision = _by_statement(kernel, name)
    else:
        decision = _by_name(name, hardware)
    return _with_types_of_the_op(decision, kernel, name, hardware, tf32_seen=tf32_seen)


def is_matrix_op(op: str | None) -> bool:
    """Whether a framework's operator multiplies matrices or convolves."""
    return op is not None and _MATRIX_OP.search(op.replace("::", "/").rpartition("/")[2]) is not None


def _proof(kernel: Kernel, gpu: Gpu | None) -> Proof | None:
    if not kernel.counters:
        return None
    capability = compute_capability(gpu) if gpu is not None else None
    return prove(kernel.counters, kernel.threads_per_launch, capability)


def _by_proof(name: NameVerdict, proof: Proof) -> Decision:
    if proof.tensor_cores:
        verdict = Verdict.TENSOR_CORE
    elif name.matrix_work or proof.matrix_work:
        verdict = Verdict.CUDA_CORE
    else:
        verdict = Verdict.NOT_MATMUL
    contradiction = None
    if proof.tensor_cores and name.verdict in {Verdict.CUDA_CORE, Verdict.NOT_MATMUL}:
        contradiction = f"the name says no ({name.reason}), but {proof.reason}"
    elif not proof.tensor_cores and name.verdict is Verdict.TENSOR_CORE:
        contradiction = f"the name says yes ({name.reason}), but {proof.reason}"
    return Decision(
        verdict=verdict,
        basis=Basis.COUNTERS,
        reason=proof.reason,
        family=name.family,
        dtype=proof.dtype or name.input_dtype,
        accumulate_dtype=name.accumulate_dtype,
        rule=name.rule,
        contradiction=contradiction,
    )


def _impossible(name: NameVerdict, hardware: Absent) -> Decision:
    match name.verdict:
        case Verdict.TENSOR_CORE | Verdict.UNKNOWN:
            says_yes = name.verdict is Verdict.TENSOR_CORE
            return replace(
                _named(name),
                verdict=Verdict.CUDA_CORE,
                basis=Basis.HARDWARE,
                reason=f"impossible: {hardware.reason}",
                contradiction=f"the name says yes ({name.reason}), but {hardware.reason}" if says_yes else None,
            )
        case Verdict.CUDA_CORE | Verdict.NOT_MATMUL:
            return _named(name)


def _by_statement(kernel: Kernel, name: NameVerdict) -> Decision:
    statement = kernel.statement
    uses = statement.uses_tensor_cores if statement is not None else None
    if uses is None:
        return _named(name)
    if uses:
        verdict = Verdict.TENSOR_CORE
    elif name.matrix_work or (statement is not None and statement.eligible):
        verdict = Verdict.CUDA_CORE
    else:
        verdict = Verdict.NOT_MATMUL
    said = "uses" if uses else "does not use"
    return replace(
        _named(name),
        verdict=verdict,
        basis=Basis.PROFILER,
        reason=f"the profiler says that it {said} Tensor Cores",
    )


def _by_name(name: NameVerdict, hardware: TensorCores) -> Decision:
    decision = _named(name)
    if name.verdict is not Verdict.TENSOR_CORE:
        return decision
    match hardware:
        case Present(dtypes=dtypes):
            if dtypes is None or name.input_dtype is None or _known(name.input_dtype) <= dtypes:
                return decision
            lacking = f"this GPU's Tensor Cores do not multiply {name.input_dtype}"
            return replace(
                decision,
                verdict=Verdict.UNKNOWN,
                basis=Basis.HARDWARE,
                reason=f"{lacking}, which the name claims",
                contradiction=f"the name says yes ({name.reason}), but {lacking}",
            )
        case Absent() | Undetermined():
            return decision


def _known(joined: str) -> frozenset[str]:
    return frozenset(joined.split(" x "))


def _named(name: NameVerdict) -> Decision:
    return Decision(
        verdict=name.verdict,
        basis=Basis.NAME,
        reason=name.reason,
        family=name.family,
        dtype=name.input_dtype,
        accumulate_dtype=name.accumulate_dtype,
        rule=name.rule,
    )


def _with_types_of_the_op(
    decision: Decision, kernel: Kernel, name: NameVerdict, hardware: TensorCores, *, tf32_seen: bool
) -> Decision:
    """Add what the op's inputs tell: the type where the name has none, and what is likely where unknown."""
    if decision.verdict is Verdict.NOT_MATMUL:
        return decision
    types = {dtype for dtype in kernel.input_dtypes or () if dtype in _NARROW or dtype in _WIDE}
    if decision.dtype is None and len(types) == 1:
        decision = replace(decision, dtype=next(iter(types)))
    if decision.verdict is not Verdict.UNKNOWN or decision.contradiction is not None:
        return decision
    if not name.matrix_work and not is_matrix_op(kernel.op):
        return decision
    if not types and name.input_dtype is not None:
        types = set(_known(name.input_dtype))
    if types and types <= _WIDE and not tf32_seen and name.family != "nvjet":
        return replace(
            decision,
            likely=Verdict.CUDA_CORE,
            reason=f"{decision.reason}; wide operands and no TF32: probably not",
        )
    if types and types <= _NARROW and isinstance(hardware, Present):
        return replace(
            decision, likely=Verdict.TENSOR_CORE, reason=f"{decision.reason}; narrow operands: probably yes"
        )
    return decision

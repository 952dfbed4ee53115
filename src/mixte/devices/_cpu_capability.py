"""What a CPU does with each precision, in its instructions and in training.

Measured by this project: one step of small convolutional networks under Keras 3, in milliseconds.

- Conditions not recorded: float32 207; mixed_float16 1100 to 2700 (TensorFlow), 4000 (PyTorch).
- A Xeon (family 6, model 207) with avx512_fp16, avx512_bf16 and amx_bf16, two cores shared with other work, two
  convolutions, batch 32, Keras 3.15.1, fastest of 5 to 40 alternated steps:

  ================ ======= ============== =============
  backend          float32 mixed_bfloat16 mixed_float16
  ================ ======= ============== =============
  TensorFlow 2.21  9.8     6.9            1991
  PyTorch 2.13     70      49 (see below) 2333
  JAX 0.10.2       56      66             74 (float32 beside it: 62)
  ================ ======= ============== =============

  On PyTorch the medians of float32 and mixed_bfloat16, 168 and 182, show no gain: taken as no clear difference.

So the float16 instructions of a CPU do not help the training kernels of today's frameworks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.devices._verdict import Capability, Precision, Verdict

if TYPE_CHECKING:
    from mixte.devices._cpu import Cpu

_MEASURE = "Measure it: mixte compare."
_ELSEWHERE = "Train in float32, or in mixed_float16 on a GPU with Tensor Cores."


def cpu_precisions(cpu: Cpu) -> tuple[Capability, ...]:
    """Judge every precision on a CPU."""
    return (
        Capability(subject="float32", verdict=Verdict.FAST, reason="native vector arithmetic"),
        _absent_unless(cpu, "tf32", "amx_tf32", "TF32 is a mode of Tensor Cores; this CPU has none"),
        _float16(cpu),
        _bfloat16(cpu),
        _absent_unless(cpu, "float8", "amx_fp8", "this CPU has no float8 arithmetic"),
    )


def cpu_policies(cpu: Cpu) -> tuple[Capability, ...]:
    """Judge the mixed-precision policies on a CPU."""
    return _mixed_float16(cpu), _mixed_bfloat16(cpu)


def _absent_unless(cpu: Cpu, precision: Precision, flag: str, reason: str) -> Capability:
    if cpu.flags is not None and flag in cpu.flags:
        return Capability(
            subject=precision,
            verdict=Verdict.UNKNOWN,
            reason=f"the CPU has {flag}; no framework is known to train with it",
            advice=_MEASURE,
        )
    return Capability(subject=precision, verdict=Verdict.IMPOSSIBLE, reason=reason)


def _float16(cpu: Cpu) -> Capability:
    if cpu.flags is None:
        return _no_flags(cpu, "float16")
    flags = cpu.float16_flags()
    if flags:
        return Capability(
            subject="float16",
            verdict=Verdict.FAST,
            reason=f"native arithmetic ({', '.join(flags)}), which training kernels hardly use: see mixed_float16",
        )
    return Capability(
        subject="float16",
        verdict=Verdict.SLOW,
        reason="no float16 arithmetic (neither avx512_fp16 nor amx_fp16, on Arm fphp and asimdhp): every operation "
        "converts to float32 and back",
    )


def _bfloat16(cpu: Cpu) -> Capability:
    if cpu.flags is None:
        return _no_flags(cpu, "bfloat16")
    flags = cpu.bfloat16_flags()
    if flags:
        return Capability(
            subject="bfloat16", verdict=Verdict.FAST, reason=f"native matrix products ({', '.join(flags)})"
        )
    return Capability(
        subject="bfloat16",
        verdict=Verdict.SLOW,
        reason="no bfloat16 arithmetic (neither avx512_bf16 nor amx_bf16, on Arm bf16): every operation converts to "
        "float32 and back",
    )


def _mixed_float16(cpu: Cpu) -> Capability:
    flags = cpu.float16_flags()
    if "avx512_fp16" in flags and "amx_fp16" not in flags:
        return Capability(
            subject="mixed_float16",
            verdict=Verdict.SLOW,
            reason="in spite of avx512_fp16 a small CNN trained about 30 (PyTorch) and 200 (TensorFlow) times slower "
            "than in float32, on JAX 1.2 times",
            advice=_ELSEWHERE,
        )
    if flags or cpu.flags is None:
        return Capability(
            subject="mixed_float16",
            verdict=Verdict.UNKNOWN,
            reason=_unmeasured(flags) if flags else _flags_unreadable(cpu),
            advice=f"{_MEASURE} Expect it to be slower than float32.",
        )
    return Capability(
        subject="mixed_float16",
        verdict=Verdict.SLOW,
        reason="no float16 arithmetic: a small CNN trained 5 to 13 (TensorFlow) and 19 (PyTorch) times slower than "
        "in float32",
        advice=_ELSEWHERE,
    )


def _mixed_bfloat16(cpu: Cpu) -> Capability:
    if cpu.flags is None:
        return Capability(
            subject="mixed_bfloat16", verdict=Verdict.UNKNOWN, reason=_flags_unreadable(cpu), advice=_MEASURE
        )
    if "amx_bf16" in cpu.flags:
        return Capability(
            subject="mixed_bfloat16",
            verdict=Verdict.UNKNOWN,
            reason="depends on the framework: with amx_bf16 a small CNN trained 1.4 times as fast as in float32 on "
            "TensorFlow, 0.8 times on JAX, without a clear difference on PyTorch",
            advice=_MEASURE,
        )
    flags = cpu.bfloat16_flags()
    if flags:
        return Capability(
            subject="mixed_bfloat16", verdict=Verdict.UNKNOWN, reason=_unmeasured(flags), advice=_MEASURE
        )
    return Capability(
        subject="mixed_bfloat16",
        verdict=Verdict.SLOW,
        reason="no bfloat16 arithmetic: every operation converts to float32 and back",
        advice="Train in float32.",
    )


def _no_flags(cpu: Cpu, precision: Precision) -> Capability:
    return Capability(
        subject=precision, verdict=Verdict.UNKNOWN, reason=_flags_unreadable(cpu), advice=_MEASURE
    )


def _flags_unreadable(cpu: Cpu) -> str:
    return f"the instruction sets of this {cpu.machine or 'CPU'} could not be read"


def _unmeasured(flags: tuple[str, ...]) -> str:
    return f"the CPU has {', '.join(flags)}; no training with it was measured"

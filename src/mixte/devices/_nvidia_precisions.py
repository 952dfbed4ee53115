"""What the arithmetic of an NVIDIA GPU does with each precision.

Float16 vector rates: CUDA C++ Programming Guide, throughput of native arithmetic instructions (results per clock
and multiprocessor, float16 against float32): 5.3 256/128, 6.0 128/64, 6.1 2/128, 6.2 256/128, 7.x 128/64, none
below 5.3. Emulated bfloat16: matrix products measured on P40, P100, V100, T4 and RTX 2080 Ti reach 0.52 to 0.73
of the float32 rate (zzc0721/torch-performance-test-data, commit 9d828276).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mixte.devices._device import ComputeCapability, ComputeUnit
from mixte.devices._rates import on_paper
from mixte.devices._tensor_cores import (
    BFLOAT16_SINCE,
    FLOAT8_SINCE,
    NEWEST_KNOWN_MAJOR,
    TENSOR_CORES_SINCE,
    TF32_SINCE,
    has_tensor_cores,
)
from mixte.devices._verdict import PRECISIONS, Capability, Precision, Verdict

if TYPE_CHECKING:
    from mixte.devices._device import Device

EMULATED_BFLOAT16: Final = "matrix products were measured at 0.5 to 0.7 of the float32 speed"

_FLOAT16_ARITHMETIC_SINCE: Final = ComputeCapability(5, 3)
_FLOAT16_AT_ONE_64TH: Final = ComputeCapability(6, 1)


def nvidia_precisions(device: Device) -> tuple[Capability, ...]:
    """Judge every precision on an NVIDIA GPU."""
    capability = device.compute_capability
    if capability is None:
        return _unknown("its compute capability is not known")
    if capability.major > NEWEST_KNOWN_MAJOR:
        return _unknown(f"compute capability {capability} is newer than this version of mixte knows")
    return (
        _float32(device, capability),
        _tf32(device, capability),
        _float16(device, capability),
        _bfloat16(device, capability),
        _float8(device, capability),
    )


def _unknown(reason: str) -> tuple[Capability, ...]:
    native = Capability(subject="float32", verdict=Verdict.FAST, reason="native on the CUDA cores")
    others: tuple[Precision, ...] = PRECISIONS[1:]
    return (
        native,
        *(
            Capability(subject=one, verdict=Verdict.UNKNOWN, reason=reason, advice="Measure it: mixte compare.")
            for one in others
        ),
    )


def _float32(device: Device, capability: ComputeCapability) -> Capability:
    advice = (
        "Say whether a float32 baseline used TF32: TensorFlow does for matrix products and convolutions, PyTorch "
        "for convolutions, unless it is switched off."
    )
    return Capability(
        subject="float32",
        verdict=Verdict.FAST,
        reason=f"native on the CUDA cores{on_paper(device, 'float32', ComputeUnit.VECTOR)}",
        advice=advice if capability >= TF32_SINCE else None,
    )


def _tf32(device: Device, capability: ComputeCapability) -> Capability:
    if capability < TF32_SINCE:
        return Capability(
            subject="tf32",
            verdict=Verdict.IMPOSSIBLE,
            reason=f"TF32 exists from compute capability {TF32_SINCE} on, this is {capability}: float32 products "
            "stay float32",
        )
    return Capability(
        subject="tf32",
        verdict=Verdict.FAST,
        reason="Tensor Cores multiply float32 data rounded to 10 mantissa bits"
        + on_paper(device, "tf32", ComputeUnit.MATRIX),
    )


def _float16(device: Device, capability: ComputeCapability) -> Capability:
    if has_tensor_cores(device):
        reason = f"Tensor Cores{on_paper(device, 'float16', ComputeUnit.MATRIX)} with float32 accumulation"
        return Capability(subject="float16", verdict=Verdict.FAST, reason=reason)
    if capability < _FLOAT16_ARITHMETIC_SINCE:
        return Capability(
            subject="float16",
            verdict=Verdict.SLOW,
            reason=f"no float16 arithmetic before compute capability {_FLOAT16_ARITHMETIC_SINCE}, this is "
            f"{capability}: numbers are stored in 16 bits and computed in float32",
            advice="Use float32.",
        )
    if capability == _FLOAT16_AT_ONE_64TH:
        return Capability(
            subject="float16",
            verdict=Verdict.SLOW,
            reason="compute capability 6.1 has no Tensor Cores and computes float16 at 1/64 of the float32 rate",
            advice="Use float32.",
        )
    return Capability(
        subject="float16",
        verdict=Verdict.FAST,
        reason=f"vector arithmetic at twice the float32 rate{on_paper(device, 'float16', ComputeUnit.VECTOR)}, but "
        f"{no_tensor_cores(capability)}",
    )


def _bfloat16(device: Device, capability: ComputeCapability) -> Capability:
    if capability >= BFLOAT16_SINCE:
        reason = f"Tensor Cores{on_paper(device, 'bfloat16', ComputeUnit.MATRIX)}, with the range of float32"
        return Capability(subject="bfloat16", verdict=Verdict.FAST, reason=reason)
    return Capability(
        subject="bfloat16",
        verdict=Verdict.SLOW,
        reason=f"no bfloat16 arithmetic before compute capability {BFLOAT16_SINCE}, this is {capability}: emulated, "
        f"{EMULATED_BFLOAT16}",
        advice="Use float16." if has_tensor_cores(device) else "Use float32.",
    )


def _float8(device: Device, capability: ComputeCapability) -> Capability:
    if capability < FLOAT8_SINCE:
        return Capability(
            subject="float8",
            verdict=Verdict.IMPOSSIBLE,
            reason=f"float8 exists from compute capability {FLOAT8_SINCE} on, this is {capability}",
        )
    return Capability(
        subject="float8",
        verdict=Verdict.FAST,
        reason=f"Tensor Cores{on_paper(device, 'float8', ComputeUnit.MATRIX)}",
        advice="Verify with a profile that matrix products run in float8 (mixte verify): a framework may only round "
        "to float8 and multiply in 16 bits.",
    )


def no_tensor_cores(capability: ComputeCapability) -> str:
    """Say why a GPU without Tensor Cores has none."""
    if capability < TENSOR_CORES_SINCE:
        return (
            f"no Tensor Cores: they exist from compute capability {TENSOR_CORES_SINCE} on, this is {capability}"
        )
    return f"no Tensor Cores: this chip has none, although its compute capability is {capability}"

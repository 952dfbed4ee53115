"""What a mixed-precision policy gains in training on an NVIDIA GPU.

Measured gains: ``mixed_training`` of the device table. GTX 16xx: 2 to 4 times slower under mixed_float16
(tensorflow/tensorflow#44191). Compute capability 6.1: from 4 times slower (open-mmlab/mmdetection#3526, P40) to
1.2 times as fast (published runs on a GTX 1080 Ti, where libraries compute in float32).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mixte.devices._device import ComputeCapability
from mixte.devices._nvidia_precisions import EMULATED_BFLOAT16, no_tensor_cores
from mixte.devices._rates import times_float32
from mixte.devices._tensor_cores import BFLOAT16_SINCE, NEWEST_KNOWN_MAJOR, TENSOR_CORES_SINCE, has_tensor_cores
from mixte.devices._verdict import Capability, PolicyName, Verdict

if TYPE_CHECKING:
    from mixte.devices._device import Device, MixedTraining, NumberFormat

_FLOAT16_AT_ONE_64TH: Final = ComputeCapability(6, 1)


def nvidia_policies(device: Device) -> tuple[Capability, ...]:
    """Judge the mixed-precision policies on an NVIDIA GPU."""
    capability = device.compute_capability
    if capability is None:
        reason = "its compute capability is not known"
    elif capability.major > NEWEST_KNOWN_MAJOR:
        reason = f"compute capability {capability} is newer than this version of mixte knows"
    else:
        return _mixed_float16(device, capability), _mixed_bfloat16(device, capability)
    return tuple(_unknown(name, reason) for name in ("mixed_float16", "mixed_bfloat16"))


def _unknown(name: PolicyName, reason: str) -> Capability:
    return Capability(subject=name, verdict=Verdict.UNKNOWN, reason=reason, advice="Measure it: mixte compare.")


def _mixed_float16(device: Device, capability: ComputeCapability) -> Capability:
    if not has_tensor_cores(device):
        return Capability(
            subject="mixed_float16",
            verdict=Verdict.SLOW,
            reason=_without_tensor_cores(device, capability),
            advice="Use float32.",
        )
    loss_scaling = "It needs loss scaling, which mixte adds."
    if capability >= BFLOAT16_SINCE:
        loss_scaling += " mixed_bfloat16 needs none."
    small = "Small models and small batches gain little or lose."
    return Capability(
        subject="mixed_float16",
        verdict=Verdict.FAST,
        reason=_with_tensor_cores(device, "float16"),
        advice=f"{loss_scaling} {small}",
    )


def _mixed_bfloat16(device: Device, capability: ComputeCapability) -> Capability:
    if capability >= BFLOAT16_SINCE:
        return Capability(
            subject="mixed_bfloat16",
            verdict=Verdict.FAST,
            reason=f"{_with_tensor_cores(device, 'bfloat16')}; no loss scaling needed",
        )
    better = "mixed_float16" if has_tensor_cores(device) else "float32"
    return Capability(
        subject="mixed_bfloat16",
        verdict=Verdict.SLOW,
        reason=f"bfloat16 is emulated before compute capability {BFLOAT16_SINCE}, this is {capability}: "
        f"{EMULATED_BFLOAT16}",
        advice=f"Use {better}.",
    )


def _with_tensor_cores(device: Device, number_format: NumberFormat) -> str:
    if device.mixed_training is not None:
        return f"Tensor Cores; {_published(device.mixed_training)}"
    times = times_float32(device, number_format)
    rate = "" if times is None else f", at {times}"
    return f"Tensor Cores do the matrix products{rate}"


def _without_tensor_cores(device: Device, capability: ComputeCapability) -> str:
    none = no_tensor_cores(capability)
    if capability >= TENSOR_CORES_SINCE:
        return f"{none}; trainings were reported 2 to 4 times slower than in float32"
    if device.mixed_training is not None:
        return f"{none}; {_published(device.mixed_training)}"
    if capability == _FLOAT16_AT_ONE_64TH:
        return f"{none}; trainings were reported from 4 times slower than in float32 to as fast"
    return f"{none}; training libraries compute in float32 here"


def _published(training: MixedTraining) -> str:
    baseline = {"tf32": "TF32"}.get(training.baseline, training.baseline)
    if training.pairs < 5 and training.range is not None:
        low, high = training.range
        return f"published trainings ran {low:.2f} to {high:.2f} times as fast as in {baseline}"
    return f"published trainings ran {training.median:.1f} times as fast as in {baseline} (median of {training.pairs})"

"""What AMD accelerators and TPUs do with each precision: what the device table knows, and nothing else.

Sources: Google, "Improve your model's performance with bfloat16" (float32 operands of matrix products are
rounded to bfloat16 by default); AMD, "MI200 MFMA behavior specifics" in the documentation of MIOpen (float16 and
bfloat16 subnormals are flushed to zero).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.devices._device import ComputeUnit
from mixte.devices._rates import on_paper, times_float32
from mixte.devices._verdict import Capability, PolicyName, Precision, Verdict

if TYPE_CHECKING:
    from mixte.devices._device import Device

_TPU = "Google"


def other_precisions(device: Device) -> tuple[Capability, ...]:
    """Judge every precision on an accelerator that is not NVIDIA's."""
    tf32 = (
        Capability(subject="tf32", verdict=Verdict.IMPOSSIBLE, reason="a TPU has no such mode")
        if device.vendor == _TPU
        else _matrix_precision(device, "tf32")
    )
    return (
        _float32(device),
        tf32,
        _matrix_precision(device, "float16"),
        _matrix_precision(device, "bfloat16"),
        _matrix_precision(device, "float8"),
    )


def other_policies(device: Device) -> tuple[Capability, ...]:
    """Judge the mixed-precision policies on an accelerator that is not NVIDIA's."""
    return _policy(device, "mixed_float16", "float16"), _policy(device, "mixed_bfloat16", "bfloat16")


def _float32(device: Device) -> Capability:
    if device.vendor == _TPU:
        return Capability(
            subject="float32",
            verdict=Verdict.FAST,
            reason="vector arithmetic is float32, but matrix products round their operands to bfloat16 by default",
            advice="Ask for precision 'highest' where a product must be computed in float32.",
        )
    return Capability(
        subject="float32",
        verdict=Verdict.FAST,
        reason=f"native on the stream processors{on_paper(device, 'float32', ComputeUnit.VECTOR)}",
    )


def _matrix_precision(device: Device, precision: Precision) -> Capability:
    if _known(device, precision):
        rate = on_paper(device, precision, ComputeUnit.MATRIX)
        return Capability(subject=precision, verdict=Verdict.FAST, reason=f"{_units(device)}{rate}")
    return Capability(
        subject=precision,
        verdict=Verdict.UNKNOWN,
        reason=f"no checked source gives a {precision} rate for this device",
        advice=_instead(device, precision),
    )


def _policy(device: Device, name: PolicyName, precision: Precision) -> Capability:
    if not _known(device, precision):
        return Capability(
            subject=name,
            verdict=Verdict.UNKNOWN,
            reason=f"no checked source gives a {precision} rate for this device",
            advice=_instead(device, precision),
        )
    times = times_float32(device, precision)
    rate = "" if times is None else f", at {times}"
    return Capability(
        subject=name,
        verdict=Verdict.FAST,
        reason=f"{_units(device)} do the matrix products{rate}",
        advice=_subnormals(device, name),
    )


def _known(device: Device, precision: Precision) -> bool:
    return device.peak(precision, unit=ComputeUnit.MATRIX) is not None


def _units(device: Device) -> str:
    return "matrix units" if device.vendor == _TPU else "matrix cores"


def _instead(device: Device, precision: Precision) -> str:
    if precision != "bfloat16" and _known(device, "bfloat16"):
        return "Use bfloat16."
    return "Measure it: mixte compare."


def _subnormals(device: Device, name: PolicyName) -> str | None:
    if device.architecture == "CDNA 2" and name == "mixed_float16":
        return "The matrix cores of the MI200 series flush float16 numbers below 2**-14 to zero: prefer mixed_bfloat16."
    return "It needs loss scaling, which mixte adds." if name == "mixed_float16" else None

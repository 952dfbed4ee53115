"""A GPU of this machine, and what asking the driver for the GPUs can come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mixte.devices._device import ComputeCapability, Device
from mixte.devices._names import match_driver_name
from mixte.devices._tensor_cores import architecture_of

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalGpu:
    """One GPU that the driver reports.

    Attributes:
        index: The driver's number for it.
        device: What kind it is: the entry of the device table, or what the driver says where there is none.
        memory_bytes: Memory that the driver manages, a little less than the nameplate size.
        mig_enabled: Whether it is split into instances (MIG); None if it cannot be, or does not say.
    """

    index: int
    device: Device
    memory_bytes: int | None = None
    mig_enabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverAnswered:
    """The driver lists its GPUs.

    Attributes:
        driver_version: For example ``"550.54.15"``.
        gpus: In the driver's order; may be empty.
        via: What was asked: ``"nvidia-smi"`` or ``"NVML"``.
    """

    driver_version: str | None
    gpus: Sequence[LocalGpu]
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverSilent:
    """There is a driver, or part of one, and it gives no list of GPUs.

    Attributes:
        reason: What it says instead, in one sentence without a full stop.
        advice: What to do, in full sentences.
    """

    reason: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverAbsent:
    """No NVIDIA driver was found on this machine.

    Attributes:
        reason: What was looked for, in one sentence without a full stop.
    """

    reason: str


DriverAnswer = DriverAnswered | DriverSilent | DriverAbsent


def describe_gpu(name: str, capability: ComputeCapability | None) -> Device:
    """Return the known device with the name that the driver prints, or a description of one that is not known.

    Args:
        name: As the driver prints it.
        capability: As the driver reports it; old drivers do not.
    """
    known = match_driver_name(name)
    if known is not None and capability in {None, known.compute_capability}:
        return known
    return Device(
        name=name,
        vendor="NVIDIA",
        architecture=None if capability is None else architecture_of(capability),
        compute_capability=capability,
    )

"""Which NVIDIA GPUs have Tensor Cores, and since when which operand types.

Sources: NVIDIA CUDA C++ Programming Guide, "Compute Capabilities"; for the exceptions at 7.5, the reviews of the
chip TU116 (TechPowerUp, GTX 1660 Ti, February 2019), which has float16 vector units in their place. Which other
boards hold TU116 or TU117 (MX450, MX550, T400 to T1200, T2000, CMP 30HX) is general knowledge.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mixte.devices._device import ComputeCapability

if TYPE_CHECKING:
    from mixte.devices._device import Device

TENSOR_CORES_SINCE: Final = ComputeCapability(7, 0)
BFLOAT16_SINCE: Final = ComputeCapability(8, 0)
TF32_SINCE: Final = ComputeCapability(8, 0)
FLOAT8_SINCE: Final = ComputeCapability(8, 9)

NEWEST_KNOWN_MAJOR: Final = 12
"""What a later compute capability can do is not known to this version."""

_TURING: Final = ComputeCapability(7, 5)

# Compute capability 7.5 without Tensor Cores: chips TU116 (GTX 1660 and 1650 Super) and TU117 (the others).
_TURING_WITHOUT: Final = re.compile(
    r"\b(?:GTX 16\d0|MX[45]50|CMP 30HX|(?:Quadro )?T(?:400|500|550|600|1000|1200)|Quadro T2000)\b"
)

# (first compute capability, generation); the last that is not above the device's applies.
_ARCHITECTURES: Final = (
    (ComputeCapability(3, 0), "Kepler"),
    (ComputeCapability(5, 0), "Maxwell"),
    (ComputeCapability(6, 0), "Pascal"),
    (ComputeCapability(7, 0), "Volta"),
    (ComputeCapability(7, 5), "Turing"),
    (ComputeCapability(8, 0), "Ampere"),
    (ComputeCapability(8, 9), "Ada Lovelace"),
    (ComputeCapability(9, 0), "Hopper"),
    (ComputeCapability(10, 0), "Blackwell"),
)


def has_tensor_cores(device: Device) -> bool | None:
    """Tell whether an NVIDIA GPU has Tensor Cores; None if that is not known."""
    if device.tensor_cores is not None:
        return device.tensor_cores.value > 0
    capability = device.compute_capability
    if capability is None or capability.major > NEWEST_KNOWN_MAJOR:
        return None
    if capability == _TURING and _TURING_WITHOUT.search(device.name):
        return False
    return capability >= TENSOR_CORES_SINCE


def architecture_of(capability: ComputeCapability) -> str | None:
    """Return the generation of a compute capability, or None if it is older or newer than the known ones."""
    if capability.major > NEWEST_KNOWN_MAJOR:
        return None
    names = [name for since, name in _ARCHITECTURES if capability >= since]
    return names[-1] if names else None

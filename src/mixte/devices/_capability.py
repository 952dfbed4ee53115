"""Judge what a device can do: every precision and every mixed-precision policy, each with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.devices._cpu import Cpu
from mixte.devices._cpu_capability import cpu_policies, cpu_precisions
from mixte.devices._matrix_units import other_policies, other_precisions
from mixte.devices._nvidia_policies import nvidia_policies
from mixte.devices._nvidia_precisions import nvidia_precisions

if TYPE_CHECKING:
    from mixte.devices._device import Device
    from mixte.devices._verdict import Capability


def judge(device: Device | Cpu) -> tuple[Capability, ...]:
    """Judge every precision and policy on a device.

    Args:
        device: An accelerator, known (``find_device``) or only described, or a CPU.

    Returns:
        One capability for each of ``PRECISIONS``, then one for each of ``POLICIES``, in that order.

    Example:
        >>> from mixte.devices import find_device, judge
        >>> [str(one.verdict.value) for one in judge(find_device("V100"))]
        ['fast', 'impossible', 'fast', 'slow', 'impossible', 'fast', 'slow']
    """
    if isinstance(device, Cpu):
        return cpu_precisions(device) + cpu_policies(device)
    if device.vendor == "NVIDIA":
        return nvidia_precisions(device) + nvidia_policies(device)
    return other_precisions(device) + other_policies(device)

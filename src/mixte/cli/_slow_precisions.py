"""Say beforehand if this machine computes slowly, or not at all, in what a policy asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.devices import POLICIES, Cpu, Verdict, inspect_machine, judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.devices import Device
    from mixte.policy import Policy


def slow_precisions(policy: Policy, devices: Sequence[Device | Cpu] | None = None) -> list[str]:
    """Return a sentence for each kind of device that a policy does not suit, with the measured factors.

    Args:
        policy: The policy.
        devices: Those that the training would run on. By default the GPUs of this machine, or else its CPU.
    """
    dtypes = {policy.default.compute_dtype, *(rule.precision.compute_dtype for rule in policy.rules)}
    wanted = [name for name in POLICIES if name.removeprefix("mixed_") in dtypes]
    if not wanted:
        return []
    if devices is None:
        machine = inspect_machine()
        devices = [gpu.device for gpu in machine.visible_gpus] or [machine.cpu]
    found: list[str] = []
    for device in devices:
        for capability in judge(device):
            if capability.subject in wanted and capability.verdict in (Verdict.SLOW, Verdict.IMPOSSIBLE):
                advice = f" {capability.advice}" if capability.advice else ""
                found.append(
                    f"{capability.subject} is {capability.verdict.value} on {_name(device)}: "
                    f"{capability.reason}.{advice}"
                )
    return [*dict.fromkeys(found)]


def _name(device: Device | Cpu) -> str:
    if isinstance(device, Cpu):
        return f"this CPU ({device.name})" if device.name else "this CPU"
    return device.name

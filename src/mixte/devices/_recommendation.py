"""Which policy to train with on given devices: what policy ``auto`` chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mixte._errors import InputError
from mixte.devices._capability import judge
from mixte.devices._cpu import Cpu
from mixte.devices._verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.devices._device import Device
    from mixte.devices._verdict import Capability, PolicyName


class Recommendation(NamedTuple):
    """A policy and why it is recommended. A pair, so that it unpacks.

    Attributes:
        policy_name: ``"mixed_bfloat16"``, ``"mixed_float16"`` or ``"float32"``.
        reason: Why, without a full stop at the end.
    """

    policy_name: str
    reason: str


def recommend_precision(devices: Sequence[Device | Cpu] | None = None) -> Recommendation:
    """Recommend the policy to train with.

    A policy is recommended only if training gains from it on every device; then bfloat16 comes before float16,
    because it needs no loss scaling. CPUs are left aside as soon as there is an accelerator.

    Args:
        devices: The devices of the training. None: those of this machine, which are then looked up.

    Raises:
        InputError: There is no device in ``devices``.

    Example:
        >>> from mixte.devices import find_device, recommend_precision
        >>> recommend_precision([find_device("T4")]).policy_name
        'mixed_float16'
    """
    if devices is None:
        from mixte.devices._machine import inspect_machine  # noqa: PLC0415 - only here does the machine matter

        devices = inspect_machine().devices
    if not devices:
        raise InputError("no device to recommend a precision for; give at least one GPU or CPU")
    accelerators = [device for device in devices if not isinstance(device, Cpu)]
    considered = accelerators or list(devices)
    bfloat16 = [_of(device, "mixed_bfloat16") for device in considered]
    float16 = [_of(device, "mixed_float16") for device in considered]
    if _all_fast(bfloat16):
        return Recommendation("mixed_bfloat16", f"{_where(considered)}: {bfloat16[0].reason}")
    if _all_fast(float16):
        obstacle = _first_obstacle(bfloat16)
        held_back = _no_gain(considered[bfloat16.index(obstacle)], obstacle)
        return Recommendation("mixed_float16", f"{_where(considered)}: {float16[0].reason}. {held_back}")
    return Recommendation("float32", _why_float32(considered, float16, bfloat16))


def _why_float32(
    devices: Sequence[Device | Cpu], float16: Sequence[Capability], bfloat16: Sequence[Capability]
) -> str:
    """Name what keeps each policy back, the second only where it adds something."""
    obstacle, other = _first_obstacle(float16), _first_obstacle(bfloat16)
    reason = _no_gain(devices[float16.index(obstacle)], obstacle)
    same_device = float16.index(obstacle) == bfloat16.index(other)
    if same_device and (other.verdict is not Verdict.UNKNOWN or other.reason == obstacle.reason):
        return reason
    return f"{reason}. {_no_gain(devices[bfloat16.index(other)], other)}"


def _no_gain(device: Device | Cpu, capability: Capability) -> str:
    known = "is not known to gain" if capability.verdict is Verdict.UNKNOWN else "does not pay"
    return f"On {_label(device)}, {capability.subject} {known}: {capability.reason}"


def _of(device: Device | Cpu, policy: PolicyName) -> Capability:
    return next(one for one in judge(device) if one.subject == policy)


def _all_fast(capabilities: Sequence[Capability]) -> bool:
    return all(one.verdict is Verdict.FAST for one in capabilities)


def _first_obstacle(capabilities: Sequence[Capability]) -> Capability:
    return next(one for one in capabilities if one.verdict is not Verdict.FAST)


def _where(devices: Sequence[Device | Cpu]) -> str:
    return ", ".join(dict.fromkeys(_label(device) for device in devices))


def _label(device: Device | Cpu) -> str:
    return "this CPU" if isinstance(device, Cpu) else device.name

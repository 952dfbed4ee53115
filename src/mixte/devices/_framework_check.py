"""Ask each installed framework, in a process of its own, which devices it sees."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from mixte.devices._command import Finished, NotFound, TimedOut, run_command

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mixte.devices._command import RunCommand
    from mixte.devices._frameworks import Framework

TIMEOUT_S: Final = 120.0
"""Loading a framework from a cold disk, and starting CUDA on a machine with many GPUs, can take a minute."""

_MARK: Final = "mixte-devices:"  # frameworks print much else

_PROGRAMS: Final = {
    "tensorflow": """
import tensorflow as tf
devices = []
for device in tf.config.list_physical_devices():
    details = tf.config.experimental.get_device_details(device) if device.device_type == "GPU" else {}
    devices.append([device.device_type.lower(), details.get("device_name") or device.name])
""",
    "jax": """
import jax
devices = [[device.platform, device.device_kind] for device in jax.devices()]
""",
    "torch": """
import torch
devices = [["gpu", torch.cuda.get_device_name(index)] for index in range(torch.cuda.device_count())]
if torch.backends.mps.is_available():
    devices.append(["mps", "Apple GPU"])
devices.append(["cpu", "cpu"])
""",
}

# Quiet, and without taking the GPU's memory from programs that run on it.
_ENVIRONMENT: Final = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenDevice:
    """A device as a framework names it.

    Attributes:
        kind: ``"cpu"``, ``"gpu"``, ``"tpu"`` or another word of the framework's.
        name: Its name.
    """

    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkSees:
    """The framework loads, and sees these devices.

    Attributes:
        framework: Its name.
        devices: In its order.
    """

    framework: str
    devices: tuple[SeenDevice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkFails:
    """The framework does not load, or does not answer.

    Attributes:
        framework: Its name.
        reason: What it says, in one line.
    """

    framework: str
    reason: str


FrameworkCheck = FrameworkSees | FrameworkFails


def check_frameworks(
    frameworks: Iterable[Framework],
    *,
    run: RunCommand = run_command,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> tuple[FrameworkCheck, ...]:
    """Load each framework in a process of its own and ask it for its devices.

    Args:
        frameworks: The installed frameworks.
        run: What runs the processes.
        environment: The environment variables; those of this process if None.
        timeout_s: Seconds that each may take.
    """
    variables = {**_ENVIRONMENT, **(os.environ if environment is None else environment)}
    return tuple(_check(framework.name, run, variables, timeout_s) for framework in frameworks)


def _check(name: str, run: RunCommand, environment: Mapping[str, str], timeout_s: float) -> FrameworkCheck:
    program = f"{_PROGRAMS[name]}\nimport json\nprint({_MARK!r}, json.dumps(devices))\n"
    result = run([sys.executable, "-c", program], timeout_s=timeout_s, environment=environment)
    match result:
        case Finished(exit_code=0, stdout=stdout):
            return _parse(name, stdout)
        case Finished(exit_code=exit_code, stderr=stderr):
            last = stderr.strip().rpartition("\n")[2] or f"it ended with exit code {exit_code}"
            return FrameworkFails(framework=name, reason=last)
        case TimedOut(timeout_s=limit_s):
            return FrameworkFails(framework=name, reason=f"it did not answer within {limit_s:.0f} s")
        case NotFound(reason=reason):
            return FrameworkFails(framework=name, reason=f"Python could not be started: {reason}")


def _parse(name: str, stdout: str) -> FrameworkCheck:
    marked = [line for line in stdout.splitlines() if line.startswith(_MARK)]
    if not marked:
        return FrameworkFails(framework=name, reason="it loaded, but printed no list of devices")
    pairs = cast("list[Any]", json.loads(marked[-1].removeprefix(_MARK)))
    return FrameworkSees(
        framework=name, devices=tuple(SeenDevice(kind=kind, name=label) for kind, label in pairs)
    )

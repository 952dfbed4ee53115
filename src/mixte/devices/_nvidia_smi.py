"""Ask ``nvidia-smi`` which GPUs there are, and understand its refusals.

The query and its fields: ``nvidia-smi --help-query-gpu``. The field ``compute_cap`` is missing from drivers of the
series 470 and before (exit code 2, "Field "compute_cap" is not a valid field to query."): the name then tells it.
"""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING, Final

from mixte._errors import InputError
from mixte.devices._command import Finished, NotFound, TimedOut
from mixte.devices._device import ComputeCapability
from mixte.devices._local_gpu import DriverAbsent, DriverAnswered, DriverSilent, LocalGpu, describe_gpu

if TYPE_CHECKING:
    from mixte.devices._command import CommandResult, RunCommand
    from mixte.devices._local_gpu import DriverAnswer

# Without persistence mode nvidia-smi wakes every GPU first, which takes seconds on a large machine.
TIMEOUT_S: Final = 20.0

_FIELDS: Final = ("index", "name", "memory.total", "driver_version", "mig.mode.current", "compute_cap")
_OLD_FIELDS: Final = _FIELDS[:4]

# Beginning of what nvidia-smi prints when it fails -> (what is wrong, what to do).
_REFUSALS: Final = (
    (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
        "nvidia-smi is installed, but the NVIDIA driver does not answer: its kernel module is not loaded",
        "Load it (modprobe nvidia), or reinstall the driver for the running kernel and reboot.",
    ),
    (
        "Failed to initialize NVML: Driver/library version mismatch",
        "the NVIDIA driver in the kernel and its libraries are of different versions, as after an update",
        "Reboot, so that the new driver is loaded.",
    ),
    (
        "Failed to initialize NVML: Insufficient Permissions",
        "this user may not talk to the NVIDIA driver",
        "Ask for access to /dev/nvidia*.",
    ),
    (
        "Failed to initialize NVML",
        "the NVIDIA driver's library cannot be used",
        "Check the driver; in a container, restart it with access to the GPUs.",
    ),
    ("No devices were found", "the NVIDIA driver finds no GPU", "Check that the GPU is seated and powered."),
)


def query_nvidia_smi(run: RunCommand) -> DriverAnswer:
    """Ask for every GPU's name, compute capability, memory, driver and MIG mode.

    Args:
        run: What runs the command.
    """
    result = _query(run, _FIELDS)
    fields = _FIELDS
    if isinstance(result, Finished) and "is not a valid field to query" in result.stdout + result.stderr:
        result = _query(run, _OLD_FIELDS)
        fields = _OLD_FIELDS
    match result:
        case NotFound():
            return DriverAbsent(reason="nvidia-smi is not installed")
        case TimedOut(timeout_s=timeout_s):
            return DriverSilent(
                reason=f"nvidia-smi did not answer within {timeout_s:.0f} s",
                advice="A GPU or its driver hangs: look into the kernel's log (dmesg) for lines with NVRM.",
            )
        case Finished(exit_code=0):
            return _parse(result.stdout, fields)
        case Finished():
            return _refusal(result)


def _query(run: RunCommand, fields: tuple[str, ...]) -> CommandResult:
    return run(
        ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], timeout_s=TIMEOUT_S
    )


def _parse(text: str, fields: tuple[str, ...]) -> DriverAnswer:
    if text.startswith("No devices were found"):
        return _refusal(Finished(exit_code=0, stdout=text))
    rows = [row for row in csv.reader(StringIO(text), skipinitialspace=True) if row]
    if not all(len(row) == len(fields) for row in rows):
        return DriverSilent(
            reason=f"nvidia-smi printed something unexpected: {_first_line(text)!r}",
            advice="Run nvidia-smi by hand to see what it says.",
        )
    entries = [dict(zip(fields, row, strict=True)) for row in rows]
    return DriverAnswered(
        driver_version=_known(entries[0]["driver_version"]) if entries else None,
        gpus=tuple(_gpu(position, entry) for position, entry in enumerate(entries)),
        via="nvidia-smi",
    )


def _gpu(position: int, entry: dict[str, str]) -> LocalGpu:
    index = entry["index"]
    memory_mib = entry["memory.total"]
    mig = {"Enabled": True, "Disabled": False}.get(entry.get("mig.mode.current", ""))
    return LocalGpu(
        index=int(index) if index.isdecimal() else position,
        device=describe_gpu(entry["name"], _capability(entry.get("compute_cap"))),
        memory_bytes=int(memory_mib) * 2**20 if memory_mib.isdecimal() else None,
        mig_enabled=mig,
    )


def _capability(text: str | None) -> ComputeCapability | None:
    try:
        return None if text is None else ComputeCapability.parse(text)
    except InputError:  # "[N/A]"
        return None


def _known(text: str) -> str | None:
    """The value, unless it is one of nvidia-smi's ways to say that there is none: [N/A], [Not Supported]."""
    return None if text.startswith("[") else text


def _refusal(result: Finished) -> DriverSilent:
    text = f"{result.stdout}\n{result.stderr}".strip()
    for beginning, reason, advice in _REFUSALS:
        if beginning in text:
            return DriverSilent(reason=reason, advice=advice)
    said = _first_line(text)
    reason = f"nvidia-smi failed with exit code {result.exit_code}" + (f": {said}" if said else "")
    return DriverSilent(reason=reason, advice="Run nvidia-smi by hand to see what it says.")


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip(".")

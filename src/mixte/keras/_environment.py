"""What a run found itself on: versions, devices, and how much memory it took."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys

from mixte.devices import inspect_machine, local_cpu
from mixte.keras._framework import BACKEND
from mixte.records import Device

_PACKAGES = ("keras", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "torch", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of Python and of what trains, by name."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def devices() -> tuple[Device, ...]:
    """Return the accelerators that the backend sees, or else the CPU.

    Makes JAX and PyTorch set their devices up: not before the script has had its say about them.
    """
    found = {"tensorflow": _devices_tensorflow, "jax": _devices_jax, "torch": _devices_torch}[BACKEND]()
    if found:
        return found
    cpu = local_cpu()
    name = cpu.name or platform.processor() or platform.machine()
    return (Device(name=name, kind="cpu", memory_bytes=cpu.memory_bytes),)


def overlooked_gpus() -> str | None:
    """Return a sentence if this machine has GPUs and the backend sees none; None if it has none, or they are hidden.

    Call it only if the backend sees no accelerator.
    """
    if BACKEND == "jax" and os.environ.get("JAX_PLATFORMS"):
        return None  # the user has chosen
    names = [gpu.device.name for gpu in inspect_machine().visible_gpus]
    if not names:
        return None
    return (
        f"this machine has a GPU ({', '.join(dict.fromkeys(names))}), but {BACKEND} does not see it: the training runs "
        "on the CPU. `mixte doctor` says why."
    )


def runs_ahead_of_device() -> bool:
    """Tell whether the host starts steps before the ones before them have ended: on JAX, and on accelerators."""
    return BACKEND == "jax" or device_memory_peak_bytes() is not None


def host_memory_peak_bytes() -> int | None:
    """Return the largest resident size of this process so far; None where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts kibibytes


def device_memory_peak_bytes() -> int | None:
    """Return the largest use of accelerator memory so far, summed over devices; None without an accelerator."""
    peaks = {"tensorflow": _peaks_tensorflow, "jax": _peaks_jax, "torch": _peaks_torch}[BACKEND]()
    return sum(peaks) if peaks else None


def _devices_tensorflow() -> tuple[Device, ...]:
    import tensorflow as tf

    found: list[Device] = []
    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        capability = details.get("compute_capability")
        found.append(
            Device(
                name=details.get("device_name", device.name),
                kind="gpu",
                compute_capability=None if capability is None else ".".join(str(part) for part in capability),
            )
        )
    return (*found, *(Device(name=device.name, kind="tpu") for device in tf.config.list_logical_devices("TPU")))


def _devices_jax() -> tuple[Device, ...]:
    import jax

    return tuple(
        Device(
            name=device.device_kind,
            kind=device.platform,
            memory_bytes=(device.memory_stats() or {}).get("bytes_limit"),
            compute_capability=getattr(device, "compute_capability", None),
        )
        for device in jax.local_devices()
        if device.platform != "cpu"
    )


def _devices_torch() -> tuple[Device, ...]:
    import torch

    found: list[Device] = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            Device(
                name=properties.name,
                kind="gpu",
                memory_bytes=properties.total_memory,
                compute_capability=f"{properties.major}.{properties.minor}",
            )
        )
    return tuple(found)


def _peaks_tensorflow() -> list[int]:
    import tensorflow as tf

    names = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices("GPU")]
    return [tf.config.experimental.get_memory_info(name)["peak"] for name in names]


def _peaks_jax() -> list[int]:
    import jax

    statistics = [device.memory_stats() for device in jax.local_devices() if device.platform != "cpu"]
    return [entry["peak_bytes_in_use"] for entry in statistics if entry and "peak_bytes_in_use" in entry]


def _peaks_torch() -> list[int]:
    import torch

    return [torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count())]

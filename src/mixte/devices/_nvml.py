"""Ask NVML for the GPUs through the package nvidia-ml-py (module ``pynvml``), where nvidia-smi is missing.

Containers often hold the driver's library without its command.
"""

from __future__ import annotations

from typing import Any, Protocol

from mixte.devices._device import ComputeCapability
from mixte.devices._local_gpu import (
    DriverAbsent,
    DriverAnswer,
    DriverAnswered,
    DriverSilent,
    LocalGpu,
    describe_gpu,
)


class Nvml(Protocol):
    """The part of the module ``pynvml`` that is used."""

    NVMLError: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - NVML's own name, as all below
    def nvmlShutdown(self) -> None: ...  # noqa: N802
    def nvmlSystemGetDriverVersion(self) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802
    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any: ...  # noqa: N802
    def nvmlDeviceGetName(self, handle: Any) -> str | bytes: ...  # noqa: N802
    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any: ...  # noqa: N802
    def nvmlDeviceGetCudaComputeCapability(self, handle: Any) -> tuple[int, int]: ...  # noqa: N802
    def nvmlDeviceGetMigMode(self, handle: Any) -> tuple[int, int]: ...  # noqa: N802


def query_nvml(nvml: Nvml) -> DriverAnswer:
    """Ask for every GPU's name, compute capability, memory, driver and MIG mode.

    Args:
        nvml: The module ``pynvml``.
    """
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if "LibraryNotFound" in type(error).__name__ or "not found" in str(error).lower():
            return DriverAbsent(reason="neither nvidia-smi nor the driver's library libnvidia-ml is installed")
        return DriverSilent(reason=f"NVML does not start: {error}", advice="Check the NVIDIA driver.")
    try:
        gpus = tuple(_gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount()))
        return DriverAnswered(driver_version=_text(nvml.nvmlSystemGetDriverVersion()), gpus=gpus, via="NVML")
    except nvml.NVMLError as error:
        return DriverSilent(reason=f"NVML lists no GPUs: {error}", advice="Check the NVIDIA driver.")
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Nvml, index: int) -> LocalGpu:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    return LocalGpu(
        index=index,
        device=describe_gpu(_text(nvml.nvmlDeviceGetName(handle)), ComputeCapability(major, minor)),
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        mig_enabled=_mig_enabled(nvml, handle),
    )


def _mig_enabled(nvml: Nvml, handle: Any) -> bool | None:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except nvml.NVMLError:  # this GPU knows no MIG
        return None
    return current == 1


def _text(value: str | bytes) -> str:
    # nvidia-ml-py before version 11.515 returned bytes.
    return value.decode() if isinstance(value, bytes) else value

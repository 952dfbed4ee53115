"""NVML is asked through the module pynvml, here a stand-in with its functions and error classes."""

from __future__ import annotations

from types import SimpleNamespace

from mixte.devices import ComputeCapability, DriverAbsent, DriverAnswered, DriverSilent
from mixte.devices._nvml import query_nvml


class NVMLError(Exception):
    """As in pynvml: the base of all."""


class NVMLError_LibraryNotFound(NVMLError):  # noqa: N801, N818 - pynvml's own name
    """As in pynvml."""

    def __str__(self) -> str:
        return "NVML Shared Library Not Found"


def library(**replaced: object) -> SimpleNamespace:
    calls: list[str] = []
    functions = {
        "NVMLError": NVMLError,
        "calls": calls,
        "nvmlInit": lambda: calls.append("init"),
        "nvmlShutdown": lambda: calls.append("shutdown"),
        "nvmlSystemGetDriverVersion": lambda: b"550.54.15",
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: b"Tesla T4",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=15843721216),
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (7, 5),
        "nvmlDeviceGetMigMode": lambda handle: (1, 1),
    }
    return SimpleNamespace(**(functions | replaced))


def refuse(error: NVMLError) -> object:
    def function(*arguments: object) -> None:
        raise error

    return function


def test_gpus_are_read_and_the_library_is_closed() -> None:
    nvml = library()
    answer = query_nvml(nvml)
    assert isinstance(answer, DriverAnswered)
    assert (answer.driver_version, answer.via) == ("550.54.15", "NVML")
    (gpu,) = answer.gpus
    assert gpu.device.name == "Tesla T4"
    assert gpu.device.compute_capability == ComputeCapability(7, 5)
    assert gpu.memory_bytes == 15843721216
    assert gpu.mig_enabled is True
    assert nvml.calls == ["init", "shutdown"]


def test_a_gpu_without_mig_is_not_said_to_have_it_switched_off() -> None:
    answer = query_nvml(library(nvmlDeviceGetMigMode=refuse(NVMLError("Not Supported"))))
    assert isinstance(answer, DriverAnswered)
    assert answer.gpus[0].mig_enabled is None


def test_a_missing_library_means_no_driver() -> None:
    assert isinstance(query_nvml(library(nvmlInit=refuse(NVMLError_LibraryNotFound()))), DriverAbsent)


def test_a_library_that_does_not_start_is_quoted() -> None:
    answer = query_nvml(library(nvmlInit=refuse(NVMLError("Driver Not Loaded"))))
    assert isinstance(answer, DriverSilent)
    assert "Driver Not Loaded" in answer.reason


def test_a_failure_midway_closes_the_library() -> None:
    nvml = library(nvmlDeviceGetName=refuse(NVMLError("GPU is lost")))
    answer = query_nvml(nvml)
    assert isinstance(answer, DriverSilent)
    assert "GPU is lost" in answer.reason
    assert nvml.calls == ["init", "shutdown"]

"""Which devices programs on this machine can use."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from mixte.devices import DriverAbsent, DriverAnswered, LocalGpu, find_device, inspect_machine
from mixte.devices._command import NotFound

T4, V100 = find_device("T4"), find_device("V100")
GPUS = (LocalGpu(index=0, device=T4), LocalGpu(index=1, device=V100))
ANSWERED = DriverAnswered(driver_version="550.54.15", gpus=GPUS, via="nvidia-smi")


# CUDA C++ Programming Guide, "CUDA Environment Variables": only devices before the first invalid index are visible.
@pytest.mark.parametrize(
    ("variable", "visible"),
    [
        (None, [T4, V100]),
        ("0,1", [T4, V100]),
        ("1,0", [V100, T4]),
        ("1", [V100]),
        (" 1 ", [V100]),
        ("", []),
        ("-1", []),
        ("0,-1,1", [T4]),
        ("7", []),
        ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", [T4, V100]),
        ("none", []),
    ],
)
def test_cuda_visible_devices_decides_which_gpus_count(machine, variable: str | None, visible: list) -> None:
    seen = machine(driver=ANSWERED, cuda_visible_devices=variable)
    assert [gpu.device for gpu in seen.visible_gpus] == visible
    assert seen.devices == (*visible, seen.cpu)
    assert seen.gpus == GPUS


def test_a_machine_is_inspected_with_recorded_nvidia_smi(smi) -> None:
    found = inspect_machine(run=smi("t4"), environment={"KERAS_BACKEND": "jax", "CUDA_VISIBLE_DEVICES": "0"})
    assert [gpu.device for gpu in found.gpus] == [T4]
    assert found.cuda_visible_devices == "0"
    assert found.keras is None or found.keras.backend == "jax"
    assert found.python_version == ".".join(map(str, sys.version_info[:3]))


def test_without_nvidia_smi_nvml_is_asked(command, monkeypatch: pytest.MonkeyPatch) -> None:
    class NVMLError(Exception):
        pass

    def unloaded() -> None:
        raise NVMLError("Driver Not Loaded")

    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace(NVMLError=NVMLError, nvmlInit=unloaded))
    found = inspect_machine(run=command(NotFound(reason="No such file")), environment={})
    assert "Driver Not Loaded" in found.driver.reason


def test_without_nvidia_smi_and_nvml_there_is_no_driver(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # makes the import fail
    found = inspect_machine(run=command(NotFound(reason="No such file")), environment={})
    assert found.driver == DriverAbsent(reason="nvidia-smi is not installed")
    assert found.devices == (found.cpu,)

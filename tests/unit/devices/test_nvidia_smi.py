"""What nvidia-smi answers is understood, and so are its refusals."""

from __future__ import annotations

import pytest

from mixte.devices import ComputeCapability, DriverAbsent, DriverAnswered, DriverSilent, Verdict, judge
from mixte.devices._command import Finished, NotFound, TimedOut
from mixte.devices._nvidia_smi import query_nvidia_smi


def test_a_gpu_is_read_with_its_driver(smi) -> None:
    run = smi("t4")
    answer = query_nvidia_smi(run)
    assert isinstance(answer, DriverAnswered)
    assert (answer.driver_version, answer.via) == ("535.183.01", "nvidia-smi")
    (gpu,) = answer.gpus
    assert gpu.device.name == "Tesla T4"
    assert gpu.device.peak("float16") is not None  # it is the device of the table
    assert gpu.memory_bytes == 15360 * 2**20
    assert gpu.mig_enabled is None
    (command,) = run.commands
    assert command[0] == "nvidia-smi"
    assert command[2] == "--format=csv,noheader,nounits"


def test_several_gpus_are_read_in_order_with_their_mig_mode(smi) -> None:
    answer = query_nvidia_smi(smi("two_a100_one_with_mig"))
    assert isinstance(answer, DriverAnswered)
    assert [(gpu.index, gpu.device.name, gpu.mig_enabled) for gpu in answer.gpus] == [
        (0, "NVIDIA A100-SXM4-80GB", True),
        (1, "NVIDIA A100-SXM4-80GB", False),
    ]


def test_a_gpu_that_is_not_in_the_table_is_described_by_its_driver(smi) -> None:
    answer = query_nvidia_smi(smi("rtx_4090_laptop"))
    assert isinstance(answer, DriverAnswered)
    (gpu,) = answer.gpus
    assert gpu.device.compute_capability == ComputeCapability(8, 9)
    assert gpu.device.architecture == "Ada Lovelace"
    assert gpu.device.peaks == ()  # and not those of the desktop board
    assert next(one for one in judge(gpu.device) if one.subject == "float8").verdict is Verdict.FAST


def test_an_old_driver_that_knows_no_compute_capability_is_asked_again_without(smi) -> None:
    run = smi(("old_driver_refusal", 2), "old_driver_v100")
    answer = query_nvidia_smi(run)
    assert isinstance(answer, DriverAnswered)
    assert answer.driver_version == "470.82.01"
    assert answer.gpus[0].device.compute_capability == ComputeCapability(7, 0)  # by the name
    assert "compute_cap" in run.commands[0][1]
    assert "compute_cap" not in run.commands[1][1]


def test_fields_that_are_not_available_are_unknown(smi) -> None:
    answer = query_nvidia_smi(smi("permissions"))
    assert isinstance(answer, DriverAnswered)
    assert answer.driver_version is None
    assert answer.gpus[0].memory_bytes is None
    assert answer.gpus[0].device.name == "Tesla T4"


@pytest.mark.parametrize(
    ("output", "exit_code", "reason", "advice"),
    [
        ("no_communication", 9, "driver does not answer", "modprobe nvidia"),
        ("mismatch", 18, "different versions", "Reboot"),
        ("unknown_error", 255, "library cannot be used", "container"),
        ("no_devices", 6, "finds no GPU", "seated"),
        ("no_devices", 0, "finds no GPU", "seated"),
    ],
)
def test_a_refusal_is_explained_with_the_remedy(
    smi, output: str, exit_code: int, reason: str, advice: str
) -> None:
    answer = query_nvidia_smi(smi((output, exit_code)))
    assert isinstance(answer, DriverSilent)
    assert reason in answer.reason
    assert advice in answer.advice


def test_a_missing_nvidia_smi_means_no_driver(command) -> None:
    answer = query_nvidia_smi(command(NotFound(reason="No such file or directory")))
    assert answer == DriverAbsent(reason="nvidia-smi is not installed")


def test_a_hanging_nvidia_smi_is_given_up(command) -> None:
    answer = query_nvidia_smi(command(TimedOut(timeout_s=20)))
    assert isinstance(answer, DriverSilent)
    assert "20 s" in answer.reason


@pytest.mark.parametrize(
    ("finished", "words"),
    [
        (Finished(exit_code=1, stdout="", stderr="Segmentation fault\n"), "Segmentation fault"),
        (Finished(exit_code=-11, stdout=""), "exit code -11"),
        (Finished(exit_code=0, stdout="<html>not a table</html>\n"), "not a table"),
        (Finished(exit_code=0, stdout="0, Tesla T4\n"), "unexpected"),
    ],
)
def test_anything_else_is_quoted_and_never_taken_for_a_gpu(command, finished: Finished, words: str) -> None:
    answer = query_nvidia_smi(command(finished))
    assert isinstance(answer, DriverSilent)
    assert words in answer.reason


def test_no_output_at_all_is_no_gpu(command) -> None:
    answer = query_nvidia_smi(command(Finished(exit_code=0, stdout="")))
    assert answer == DriverAnswered(driver_version=None, gpus=(), via="nvidia-smi")

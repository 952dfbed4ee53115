"""What NVIDIA GPUs can do: the boundaries between generations, and agreement with collected facts."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from mixte.devices import (
    POLICIES,
    PRECISIONS,
    Capability,
    ComputeCapability,
    Device,
    Verdict,
    find_device,
    judge,
    known_devices,
)
from mixte.devices._tensor_cores import architecture_of, has_tensor_cores

if TYPE_CHECKING:
    from pathlib import Path

FAST, SLOW, IMPOSSIBLE, UNKNOWN = Verdict.FAST, Verdict.SLOW, Verdict.IMPOSSIBLE, Verdict.UNKNOWN


def gpu(capability: str, name: str = "some GPU") -> Device:
    return Device(name=name, vendor="NVIDIA", compute_capability=ComputeCapability.parse(capability))


def of(device: Device, subject: str) -> Capability:
    return next(one for one in judge(device) if one.subject == subject)


def verdicts(device: Device) -> tuple[Verdict, ...]:
    return tuple(one.verdict for one in judge(device))


# Columns: float32, tf32, float16, bfloat16, float8, mixed_float16, mixed_bfloat16. From the "Compute Capabilities"
# chapter of the CUDA C++ Programming Guide and its table of arithmetic throughput.
@pytest.mark.parametrize(
    ("device", "expected"),
    [
        (gpu("5.2"), (FAST, IMPOSSIBLE, SLOW, SLOW, IMPOSSIBLE, SLOW, SLOW)),
        (gpu("6.0"), (FAST, IMPOSSIBLE, FAST, SLOW, IMPOSSIBLE, SLOW, SLOW)),
        (gpu("6.1"), (FAST, IMPOSSIBLE, SLOW, SLOW, IMPOSSIBLE, SLOW, SLOW)),
        (gpu("7.0"), (FAST, IMPOSSIBLE, FAST, SLOW, IMPOSSIBLE, FAST, SLOW)),
        (gpu("7.5", "Tesla T4"), (FAST, IMPOSSIBLE, FAST, SLOW, IMPOSSIBLE, FAST, SLOW)),
        (gpu("7.5", "NVIDIA GeForce GTX 1660"), (FAST, IMPOSSIBLE, FAST, SLOW, IMPOSSIBLE, SLOW, SLOW)),
        (gpu("8.0"), (FAST, FAST, FAST, FAST, IMPOSSIBLE, FAST, FAST)),
        (gpu("8.6"), (FAST, FAST, FAST, FAST, IMPOSSIBLE, FAST, FAST)),
        (gpu("8.7"), (FAST, FAST, FAST, FAST, IMPOSSIBLE, FAST, FAST)),
        (gpu("8.9"), (FAST, FAST, FAST, FAST, FAST, FAST, FAST)),
        (gpu("9.0"), (FAST, FAST, FAST, FAST, FAST, FAST, FAST)),
        (gpu("10.0"), (FAST, FAST, FAST, FAST, FAST, FAST, FAST)),
        (gpu("12.0"), (FAST, FAST, FAST, FAST, FAST, FAST, FAST)),
        (gpu("13.0"), (FAST, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)),
    ],
    ids=lambda value: f"{value.compute_capability} {value.name}" if isinstance(value, Device) else None,
)
def test_verdicts_at_the_boundaries_between_generations(device: Device, expected: tuple[Verdict, ...]) -> None:
    assert verdicts(device) == expected


@pytest.mark.parametrize(
    ("device", "subject", "words"),
    [
        (
            gpu("6.0"),
            "float16",
            ("twice the float32 rate", "no Tensor Cores", "from compute capability 7.0 on"),
        ),
        (gpu("6.0"), "mixed_float16", ("no Tensor Cores", "this is 6.0")),
        (gpu("6.1"), "float16", ("1/64",)),
        (gpu("6.1"), "mixed_float16", ("no Tensor Cores", "4 times slower")),
        (gpu("5.2"), "float16", ("no float16 arithmetic", "5.3")),
        (gpu("7.0"), "bfloat16", ("no bfloat16 arithmetic before compute capability 8.0", "0.5 to 0.7")),
        (gpu("7.0"), "tf32", ("8.0", "stay float32")),
        (
            gpu("7.5", "NVIDIA GeForce GTX 1660 Ti"),
            "mixed_float16",
            ("no Tensor Cores", "7.5", "2 to 4 times slower"),
        ),
        (gpu("7.5", "Tesla T4"), "float16", ("Tensor Cores",)),
        (gpu("8.0"), "tf32", ("10 mantissa bits",)),
        (gpu("8.6"), "float8", ("8.9", "this is 8.6")),
        (gpu("8.9"), "float8", ("Tensor Cores",)),
        (gpu("9.0"), "mixed_bfloat16", ("no loss scaling needed",)),
        (gpu("13.0"), "float16", ("13.0 is newer",)),
        (Device(name="?", vendor="NVIDIA"), "float16", ("compute capability is not known",)),
    ],
)
def test_each_verdict_says_why(device: Device, subject: str, words: tuple[str, ...]) -> None:
    reason = of(device, subject).reason
    for word in words:
        assert word in reason


def test_what_does_not_pay_comes_with_what_to_do_instead() -> None:
    assert of(gpu("7.0"), "bfloat16").advice == "Use float16."
    assert of(gpu("7.0"), "mixed_bfloat16").advice == "Use mixed_float16."
    assert of(gpu("6.1"), "mixed_bfloat16").advice == "Use float32."
    assert of(gpu("6.0"), "mixed_float16").advice == "Use float32."


def test_a_reason_quotes_checked_rates_and_no_others() -> None:
    assert "125 TFLOP/s" in of(find_device("V100"), "float16").reason
    assert "18.7 TFLOP/s" in of(find_device("P100"), "float16").reason
    unchecked = find_device("RTX 2060")
    assert not [peak for peak in unchecked.peaks if peak.verified]
    assert "TFLOP/s" not in " ".join(one.reason for one in judge(unchecked))


def test_a_reason_quotes_the_published_gain_with_its_baseline() -> None:
    assert "2.6 times as fast as in float32 (median of 412)" in of(find_device("V100"), "mixed_float16").reason
    assert "1.6 times as fast as in TF32 (median of 252)" in of(find_device("A100"), "mixed_float16").reason
    # Two pairs make no median worth the name: the range is given.
    assert "0.99 to 1.03 times" in of(find_device("P100"), "mixed_float16").reason


@pytest.mark.parametrize("device", known_devices(), ids=lambda device: device.name)
def test_every_known_device_is_judged_in_full(device: Device) -> None:
    judged = judge(device)
    assert tuple(one.subject for one in judged) == (*PRECISIONS, *POLICIES)
    for one in judged:
        assert one.reason
        assert not one.reason.endswith(".")
        assert one.advice is None or one.advice.endswith(".")


def test_verdicts_agree_with_collected_facts_about_each_board(shared: Path) -> None:
    with (shared / "data/speed/hardware.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["vendor"] == "NVIDIA"]
    assert len(rows) == 52
    for row in rows:
        device = find_device(row["name"])
        tensor_cores = row["fp16_tc_fp32acc_tflops"] != ""
        assert has_tensor_cores(device) is tensor_cores, row["name"]
        assert (of(device, "mixed_float16").verdict is FAST) is tensor_cores, row["name"]
        assert (of(device, "bfloat16").verdict is FAST) is (row["bf16_native"] == "yes"), row["name"]
        assert (of(device, "tf32").verdict is FAST) is (row["tf32_tc_tflops"] != ""), row["name"]
        assert (of(device, "float8").verdict is FAST) is (row["fp8_tc_tflops"] != ""), row["name"]


def test_verdicts_agree_with_measured_matrix_products(shared: Path) -> None:
    with (shared / "data/speed/hardware.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["meas_gemm_bf16"] and row["meas_gemm_fp32"]]
    assert len(rows) >= 20
    for row in rows:
        faster = float(row["meas_gemm_bf16"]) > float(row["meas_gemm_fp32"])
        assert (of(find_device(row["name"]), "bfloat16").verdict is FAST) is faster, row["name"]


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce GTX 1650",
        "GeForce GTX 1660 SUPER",
        "NVIDIA GeForce MX450",
        "NVIDIA T1000 8GB",
        "Quadro T2000 with Max-Q Design",
        "NVIDIA T400 4GB",
    ],
)
def test_small_turing_boards_have_no_tensor_cores(name: str) -> None:
    assert has_tensor_cores(gpu("7.5", name)) is False


@pytest.mark.parametrize("name", ["Tesla T4", "Quadro RTX 4000", "NVIDIA TITAN RTX", "NVIDIA GeForce RTX 2060"])
def test_other_turing_boards_have_tensor_cores(name: str) -> None:
    assert has_tensor_cores(gpu("7.5", name)) is True


def test_the_generation_follows_from_the_compute_capability(shared: Path) -> None:
    with (shared / "data/speed/hardware.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["vendor"] == "NVIDIA":
                named = architecture_of(ComputeCapability.parse(row["compute_capability"]))
                assert named == row["arch"].removesuffix(" 2.0")
    assert architecture_of(ComputeCapability(13, 0)) is None
    assert architecture_of(ComputeCapability(2, 0)) is None

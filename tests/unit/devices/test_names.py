"""Accelerators are found by the names that drivers print and people type."""

from __future__ import annotations

import pytest

from mixte import InputError
from mixte.devices import ComputeCapability, find_device, known_devices, siblings
from mixte.devices._names import match_driver_name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("Tesla T4", "Tesla T4"),
        ("NVIDIA GeForce GTX 1660 Ti", "NVIDIA GeForce GTX 1660 Ti"),
        ("GeForce GTX 1660 Ti", "NVIDIA GeForce GTX 1660 Ti"),  # drivers before series 470 left "NVIDIA" out
        ("gtx1660ti", "NVIDIA GeForce GTX 1660 Ti"),
        ("  rtx-3090 ", "NVIDIA GeForce RTX 3090"),
        ("v100 pcie 32gb", "Tesla V100-PCIE-32GB"),
        ("A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("A100-PCIE-80GB", "NVIDIA A100 80GB PCIe"),
        ("H100 PCIe", "NVIDIA H100 PCIe"),
        ("H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("L40", "NVIDIA L40"),
        ("L40S", "NVIDIA L40S"),
        ("A10", "NVIDIA A10"),
        ("A10G", "NVIDIA A10G"),
        ("TPU v5 lite", "Google TPU v5e"),
        ("mi300x", "AMD Instinct MI300X"),
        # The short names of the accelerator types that Ray knows.
        ("P100", "Tesla P100-PCIE-16GB"),
        ("V100", "Tesla V100-SXM2-16GB"),
        ("A100-40G", "NVIDIA A100-SXM4-40GB"),
        ("A100-80G", "NVIDIA A100-SXM4-80GB"),
        ("TPU-V5LITEPOD", "Google TPU v5e"),
    ],
)
def test_a_name_is_found_however_it_is_spelled(name: str, found: str) -> None:
    assert find_device(name).name == found


@pytest.mark.parametrize("device", known_devices(), ids=lambda device: device.name)
def test_every_name_and_alias_finds_its_own_device(device: object) -> None:
    for name in (device.name, *device.aliases):  # type: ignore[attr-defined] - a Device
        assert find_device(name) is device


def test_a_longer_name_is_another_board() -> None:
    assert match_driver_name("NVIDIA GeForce RTX 4090 Laptop GPU") is None
    assert match_driver_name("NVIDIA GeForce RTX 2080 SUPER") is None
    assert match_driver_name("GRID T4-16Q") is None
    with pytest.raises(InputError, match="RTX 4090"):
        find_device("RTX 4090 Laptop GPU")


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("V1000", "Tesla V100-SXM2-16GB"),
        ("V100-SXM2-80GB", "Tesla V100-SXM2-32GB"),
        ("Tesla X100", "Tesla V100-SXM2-16GB"),
        ("RTX 3091", "NVIDIA GeForce RTX 3090"),
        ("H10", "NVIDIA H100 80GB HBM3"),
        ("MI300", "AMD Instinct MI300X"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(InputError) as caught:
        find_device(name)
    assert repr(name) in str(caught.value)
    assert nearest in str(caught.value)
    assert "--list-gpus" in str(caught.value)


def test_a_name_without_anything_near_says_where_the_known_ones_are() -> None:
    for name in ("", "!!", "qqqqqq"):
        with pytest.raises(InputError, match="--list-gpus"):
            find_device(name)


def test_a_name_that_several_boards_could_have_is_not_decided_by_chance() -> None:
    with pytest.raises(InputError, match=r"Quadro RTX 6000 or NVIDIA RTX 6000 Ada Generation"):
        find_device("RTX 6000")
    with pytest.raises(InputError, match="others"):
        find_device("RTX")


def test_a_compute_capability_stands_for_a_gpu_with_it() -> None:
    device = find_device("8.9")
    assert device.compute_capability == ComputeCapability(8, 9)
    assert device.architecture == "Ada Lovelace"
    assert device.peaks == ()


def test_a_short_name_comes_with_the_boards_it_could_have_meant() -> None:
    assert {other.name for other in siblings(find_device("P100"))} == {
        "Tesla P100-PCIE-12GB",
        "Tesla P100-SXM2-16GB",
    }
    assert siblings(find_device("RTX 3090")) == ()


@pytest.mark.parametrize("text", ["7", "7.5.1", "seven", "7.", ".5", "-7.5", ""])
def test_what_is_not_a_compute_capability_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="compute capability"):
        ComputeCapability.parse(text)


def test_compute_capabilities_are_ordered_as_numbers() -> None:
    assert ComputeCapability.parse("10.0") > ComputeCapability.parse("9.0") > ComputeCapability.parse("8.9")
    assert str(ComputeCapability.parse(" 12.0 ")) == "12.0"

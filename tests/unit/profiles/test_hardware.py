"""Which GPUs have Tensor Cores, and for which types (NVIDIA's published compute capabilities)."""

from __future__ import annotations

import pytest

from mixte.profiles._hardware import (
    Absent,
    Present,
    Undetermined,
    architecture,
    compute_capability,
    tensor_cores,
    vendor,
)
from mixte.profiles._model import Gpu


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("Tesla P100-SXM2-16GB", (6, 0)),
        ("NVIDIA GeForce GTX 1080 Ti", (6, 1)),
        ("Tesla V100-SXM2-32GB", (7, 0)),
        ("Tesla T4", (7, 5)),
        ("NVIDIA GeForce RTX 2080 Ti", (7, 5)),
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("NVIDIA A10G", (8, 6)),
        ("NVIDIA RTX A6000", (8, 6)),
        ("NVIDIA GeForce RTX 3090", (8, 6)),
        ("NVIDIA L40S", (8, 9)),
        ("NVIDIA GeForce RTX 4090", (8, 9)),
        ("NVIDIA RTX 6000 Ada Generation", (8, 9)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("NVIDIA GH200 480GB", (9, 0)),
        ("NVIDIA B200", (10, 0)),
        ("NVIDIA GeForce RTX 5090", (12, 0)),
        ("Tesla K80", (3, 7)),
        ("NVIDIA Something New", None),
    ],
)
def test_a_product_name_implies_its_compute_capability(name: str, capability: tuple[int, int] | None) -> None:
    assert compute_capability(Gpu(index=0, name=name)) == capability


def test_the_file_is_believed_before_the_name() -> None:
    assert compute_capability(Gpu(index=0, name="NVIDIA B200", compute_capability=(10, 3))) == (10, 3)


@pytest.mark.parametrize("capability", [(3, 5), (5, 3), (6, 0), (6, 1)])
def test_below_volta_there_are_no_tensor_cores(capability: tuple[int, int]) -> None:
    assert isinstance(tensor_cores(Gpu(index=0, compute_capability=capability)), Absent)


@pytest.mark.parametrize(
    "gpu",
    [
        Gpu(index=0, name="NVIDIA GeForce GTX 1660 Ti", compute_capability=(7, 5)),
        Gpu(index=0, name="NVIDIA T1000", compute_capability=(7, 5)),
        Gpu(index=0, compute_capability=(7, 5), chip="TU117"),
    ],
)
def test_small_turing_chips_have_none_although_their_compute_capability_is_7_5(gpu: Gpu) -> None:
    assert isinstance(tensor_cores(gpu), Absent)


@pytest.mark.parametrize(
    ("capability", "has", "lacks"),
    [
        ((7, 0), {"float16"}, {"int8", "bfloat16", "tf32"}),
        ((7, 5), {"float16", "int8"}, {"bfloat16", "tf32", "float64"}),
        ((8, 0), {"bfloat16", "tf32", "float64"}, {"float8_e4m3fn"}),
        ((8, 6), {"bfloat16", "tf32"}, {"float8_e4m3fn"}),
        ((8, 9), {"float8_e4m3fn", "float8_e5m2"}, {"float4_e2m1fn"}),
        ((9, 0), {"float8_e4m3fn"}, {"float4_e2m1fn"}),
        ((12, 0), {"float4_e2m1fn"}, set()),
    ],
)
def test_each_generation_adds_types(capability: tuple[int, int], has: set[str], lacks: set[str]) -> None:
    found = tensor_cores(Gpu(index=0, name="NVIDIA GPU", compute_capability=capability))
    assert isinstance(found, Present)
    assert found.dtypes is not None
    assert has <= found.dtypes
    assert not lacks & found.dtypes


@pytest.mark.parametrize(
    ("target", "kind"),
    [("gfx906", Absent), ("gfx1030", Absent), ("gfx908", Present), ("gfx90a", Present), ("gfx942", Present)],
)
def test_amd_has_matrix_cores_from_gfx908_and_gfx11_on(target: str, kind: type) -> None:
    assert isinstance(tensor_cores(Gpu(index=0, vendor="amd", architecture=target)), kind)


def test_what_amd_writes_as_compute_capability_is_not_taken_for_nvidia() -> None:
    gpu = Gpu(index=0, compute_capability=(9, 4))
    assert vendor(gpu) == "amd"
    assert architecture(gpu) == "gfx942"
    # 9.0 is gfx90a with matrix cores, and gfx900 without: the number alone does not tell.
    shared_number = Gpu(index=0, name="AMD Radeon Graphics", compute_capability=(9, 0))
    assert architecture(shared_number) is None
    assert isinstance(tensor_cores(shared_number), Undetermined)


def test_an_unknown_gpu_stays_unknown() -> None:
    assert isinstance(tensor_cores(None), Undetermined)
    assert isinstance(tensor_cores(Gpu(index=0)), Undetermined)
    assert vendor(Gpu(index=0)) is None

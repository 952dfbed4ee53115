"""The JSON contract: fields, types and meaning, as docs/verify-json.md promises them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mixte.profiles import Gpu, Kernel, Profile, Weight, document, group, judge

A100 = Gpu(index=0, name="NVIDIA A100-SXM4-80GB", compute_capability=(8, 0))
TENSOR = Kernel(
    name="ampere_fp16_s16816gemm_fp16_128x64_nn",
    count=3,
    duration_ns=768,
    device=0,
    op="aten::mm",
    input_shapes=((64, 64), (64, 64)),
    layer="Net/fc1",
)
SIMT = Kernel(name="ampere_sgemm_128x64_nn", count=1, duration_ns=256, device=0)


def of(*kernels: Kernel, **fields: Any) -> dict[str, Any]:
    profile = Profile(format="kineto", path=Path("trace.json"), kernels=kernels, **fields)
    return json.loads(json.dumps(document([judge(profile)]), allow_nan=False))


def test_a_file_has_the_promised_fields() -> None:
    whole = of(TENSOR, SIMT, gpus=(A100,), producer="PyTorch 2.6", rank=1, steps=(5,), notes=("A note.",))
    assert (whole["schema"], whole["version"]) == ("mixte.verify", 1)
    (file,) = whole["files"]
    assert file["format"] == "kineto"
    assert file["device"]["name"] == "NVIDIA A100-SXM4-80GB"
    assert file["device"]["compute_capability"] == "8.0"
    assert file["device"]["tensor_cores"] is True
    assert file["gpu_time_ns"] == 1024
    assert file["launches"] == 4
    assert file["partial"] is False
    assert file["shares"] == {"tensor_core": 0.75, "cuda_core": 0.25, "unknown": 0.0, "not_matmul": 0.0}
    assert file["rank"] == 1
    assert file["weighed_by"] == "time"
    assert file["no_kernels_reason"] is None


def test_a_kernel_has_the_promised_fields() -> None:
    kernel = of(TENSOR, SIMT, gpus=(A100,))["files"][0]["kernels"][0]
    assert kernel == {
        "name": "ampere_fp16_s16816gemm_fp16_128x64_nn",
        "count": 3,
        "duration_ns": 768,
        "share": 0.75,
        "verdict": "tensor_core",
        "likely": None,
        "basis": "name",
        "reason": "matrix instruction shape (884, 1688, 16816 ...) directly before the operation",
        "dtype": "float16",
        "accumulate_dtype": "float32",
        "op": "aten::mm",
        "op_shapes": ["aten::mm [64, 64] [64, 64]"],
        "layers": ["Net/fc1"],
        "family": "cublas/cudnn",
        "rule": "mma-shape-tag",
    }


def test_durations_and_counts_of_kernels_add_up_to_the_file() -> None:
    file = of(TENSOR, SIMT, gpus=(A100,))["files"][0]
    assert sum(kernel["duration_ns"] for kernel in file["kernels"]) == file["gpu_time_ns"]
    assert sum(kernel["count"] for kernel in file["kernels"]) == file["launches"]


def test_what_the_file_does_not_tell_is_null() -> None:
    file = of(Kernel(name="my_kernel", count=None, duration_ns=5))["files"][0]
    assert set(file["device"].values()) == {None}
    assert file["kernels"][0]["count"] is None
    assert file["launches"] is None
    assert file["kernels"][0]["dtype"] is None


def test_without_times_there_is_no_gpu_time() -> None:
    file = of(Kernel(name="x", count=5, duration_ns=None), weight=Weight.LAUNCHES)["files"][0]
    assert (file["gpu_time_ns"], file["weighed_by"]) == (None, "launches")
    assert file["kernels"][0]["duration_ns"] is None


def test_without_kernels_the_shares_are_null_and_the_reason_is_given() -> None:
    file = of(no_kernels_reason="the file holds CPU operators only")["files"][0]
    assert file["shares"] is None
    assert file["no_kernels_reason"] == "the file holds CPU operators only"


def test_a_partial_file_says_what_is_missing() -> None:
    file = of(TENSOR, missing=("The file ends in the middle of an event.",))["files"][0]
    assert file["partial"] is True
    assert file["missing"] == ["The file ends in the middle of an event."]


def test_two_files_are_compared_second_minus_first() -> None:
    slow = judge(Profile(format="kineto", path=Path("a"), kernels=(SIMT,)))
    fast = judge(
        Profile(format="kineto", path=Path("b"), kernels=(Kernel(name=TENSOR.name, count=1, duration_ns=64),))
    )
    difference = document([slow, fast])["difference"]
    assert difference == {
        "shares": {"tensor_core": 1.0, "cuda_core": -1.0, "unknown": 0.0, "not_matmul": 0.0},
        "gpu_time_ratio": 4.0,
    }
    assert "difference" not in document([slow])


def test_groups_are_written_where_asked_for() -> None:
    verdict = judge(Profile(format="kineto", path=Path("a"), kernels=(TENSOR, SIMT)))
    whole = document([verdict], groups=("op", group([verdict], "op")))
    assert whole["by"] == "op"
    groups = whole["groups"]
    assert isinstance(groups, list)
    assert [(one["label"], one["weight"], one["count"]) for one in groups] == [
        ("aten::mm", 768, 3),
        (None, 256, 1),
    ]


def test_amd_targets_are_not_written_as_nvidia_compute_capabilities_alone() -> None:
    gpu = Gpu(index=0, name="AMD Instinct MI300X", compute_capability=(9, 4), vendor="amd")
    device = of(TENSOR, gpus=(gpu,))["files"][0]["device"]
    assert (device["vendor"], device["architecture"]) == ("amd", "gfx942")

"""Shares, groups, steps and totals of a judged profile."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from mixte import InputError
from mixte.profiles import Gpu, Kernel, Profile, Verdict, Weight, group, judge, kernel_totals

TENSOR = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn"
SIMT = "ampere_sgemm_128x64_nn"
TRITON = "triton_tem_fused_mm_0"
RELU = "relu_kernel"


def profile(*kernels: Kernel, **fields: object) -> Profile:
    return Profile(format="kineto", path=Path("run/trace.json"), kernels=kernels, **fields)


def kernel(name: str, duration_ns: int = 100, **fields: object) -> Kernel:
    return Kernel(name=name, duration_ns=duration_ns, **{"count": 1, **fields})


def test_shares_are_of_kernel_time_and_add_up_to_one() -> None:
    # Powers of two, so that every share is exact.
    rows = (kernel(TENSOR, 512), kernel(SIMT, 256), kernel(TRITON, 128), kernel(RELU, 128))
    shares = judge(profile(*rows)).shares
    assert shares is not None
    assert (shares.tensor_core, shares.cuda_core, shares.unknown, shares.not_matmul) == (
        0.5,
        0.25,
        0.125,
        0.125,
    )
    assert shares.of_matrix_work == float(Fraction(512, 896))


def test_a_profile_without_times_is_weighed_by_launches() -> None:
    kernels = (
        Kernel(name=TENSOR, count=30, duration_ns=None),
        Kernel(name=RELU, count=10, duration_ns=None),
    )
    verdict = judge(profile(*kernels, weight=Weight.LAUNCHES))
    assert verdict.shares is not None
    assert verdict.shares.tensor_core == 0.75
    assert verdict.profile.gpu_time_ns is None


def test_no_kernels_is_no_answer_rather_than_zero() -> None:
    verdict = judge(profile(no_kernels_reason="the file holds CPU operators only"))
    assert verdict.shares is None
    assert verdict.kernels == ()


def test_a_profile_without_matrix_work_has_no_share_of_it() -> None:
    shares = judge(profile(kernel(RELU))).shares
    assert shares is not None
    assert shares.of_matrix_work is None


def test_each_kernel_is_judged_on_the_gpu_it_ran_on() -> None:
    gpus = (
        Gpu(index=0, name="Tesla P100-PCIE-16GB", compute_capability=(6, 0)),
        Gpu(index=1, name="NVIDIA A100", compute_capability=(8, 0)),
    )
    verdict = judge(profile(kernel(TENSOR, 300, device=1), kernel(TENSOR, 100, device=0), gpus=gpus))
    assert verdict.shares is not None
    assert (verdict.shares.tensor_core, verdict.shares.cuda_core) == (0.75, 0.25)


def test_a_kernel_without_a_device_belongs_to_the_only_kind_of_gpu() -> None:
    old = (Gpu(index=0, compute_capability=(6, 0)), Gpu(index=1, compute_capability=(6, 0)))
    mixed = (Gpu(index=0, compute_capability=(6, 0)), Gpu(index=1, compute_capability=(8, 0)))
    assert judge(profile(kernel(TENSOR), gpus=old)).kernels[0].decision.verdict is Verdict.CUDA_CORE
    assert judge(profile(kernel(TENSOR), gpus=mixed)).kernels[0].decision.verdict is Verdict.TENSOR_CORE


def test_tf32_anywhere_in_the_file_makes_float32_inputs_prove_little() -> None:
    unknown = kernel(TRITON, op="aten::mm", input_dtypes=("float32", "float32"))
    assert judge(profile(unknown)).likely == (0.0, 1.0)
    assert judge(profile(unknown, kernel("cutlass_80_tensorop_s1688gemm_64x64_nn_align4", 0))).likely == (
        0.0,
        0.0,
    )


def test_steps_keep_the_kernels_from_the_first_up_to_the_last() -> None:
    rows = [kernel(TENSOR, 100, step=step) for step in (5, 6, 7)]
    verdict = judge(profile(*rows, kernel(RELU, 7, step=None), steps=(5, 6, 7)), steps=(5, 7))
    assert [row.kernel.step for row in verdict.kernels] == [5, 6]
    assert verdict.steps == (5, 7)
    assert any("no step" in note for note in verdict.profile.notes)


def test_steps_that_the_file_does_not_have_are_an_error_that_names_those_it_has() -> None:
    with pytest.raises(InputError, match="holds the steps 5 to 6"):
        judge(profile(kernel(TENSOR, step=5), steps=(5, 6)), steps=(10, 20))
    with pytest.raises(InputError, match="marks no steps"):
        judge(profile(kernel(TENSOR)), steps=(10, 20))


def test_groups_add_up_by_op_with_what_is_not_linked_apart() -> None:
    verdict = judge(
        profile(
            kernel(TENSOR, 400, op="aten::mm", stream=7),
            kernel(SIMT, 100, op="aten::mm", stream=20),
            kernel(RELU, 250),
        )
    )
    by_op = group([verdict], "op")
    assert [(one.label, one.weight, one.count) for one in by_op] == [("aten::mm", 500, 2), (None, 250, 1)]
    assert by_op[0].shares.tensor_core == 0.8
    assert {one.label for one in group([verdict], "stream")} == {"stream 7", "stream 20", None}


def test_ranks_are_named_by_number_or_by_file() -> None:
    ranked = judge(profile(kernel(TENSOR), rank=3))
    unranked = judge(profile(kernel(TENSOR)))
    assert [one.label for one in group([ranked], "rank")] == ["rank 3"]
    assert [one.label for one in group([unranked], "rank")] == ["trace.json"]


def test_totals_join_streams_and_steps_of_one_kernel_under_one_op() -> None:
    verdict = judge(
        profile(
            kernel(TENSOR, 10, op="aten::mm", stream=1, step=1, count=2, input_shapes=((8, 8),), layer="a"),
            kernel(TENSOR, 30, op="aten::mm", stream=2, step=2, count=3, input_shapes=((16, 8),), layer="b"),
            kernel(TENSOR, 5, op="aten::bmm"),
            steps=(1, 2),
        )
    )
    first, second = kernel_totals(verdict)
    assert (first.count, first.weight, first.op) == (5, 40, "aten::mm")
    assert first.op_shapes == ("aten::mm [16, 8]", "aten::mm [8, 8]")
    assert first.layers == ("b", "a")
    assert second.op == "aten::bmm"


def test_a_count_that_the_profiler_does_not_give_stays_unknown() -> None:
    (total,) = kernel_totals(judge(profile(kernel(TENSOR, count=None), kernel(TENSOR, count=4))))
    assert total.count is None

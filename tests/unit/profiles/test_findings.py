"""Why not, and what to do: each reason from the evidence that the reference lists for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mixte.profiles import Gpu, Kernel, Profile, find, judge
from mixte.profiles._advice import ADVICE

P100 = Gpu(index=0, name="Tesla P100-PCIE-16GB", compute_capability=(6, 0))
V100 = Gpu(index=0, name="Tesla V100-SXM2-16GB", compute_capability=(7, 0))
H100 = Gpu(index=0, name="NVIDIA H100 80GB HBM3", compute_capability=(9, 0))
B200 = Gpu(index=0, name="NVIDIA B200", compute_capability=(10, 0))
MI300 = Gpu(index=0, name="AMD Instinct MI300X", vendor="amd", architecture="gfx942")
ALIGN1 = "cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1"


def findings(*names_or_kernels: str | Kernel, gpu: Gpu | None = H100):
    kernels = tuple(
        Kernel(name=one, count=1, duration_ns=100) if isinstance(one, str) else one for one in names_or_kernels
    )
    gpus = (gpu,) if gpu is not None else ()
    return find(judge(Profile(format="kineto", path=Path("t"), kernels=kernels, gpus=gpus)))


@pytest.mark.parametrize(
    ("gpu", "name", "code"),
    [
        (P100, "volta_sgemm_128x64_nn", "no-tensor-cores"),
        (P100, "maxwell_fp16_sgemm_fp16_128x32_nn", "no-tensor-cores"),
        (V100, "volta_sgemm_128x64_nn", "float32-before-ampere"),
        (V100, "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1", "float32-before-ampere"),
        (V100, "void gemv2T_kernel_val<int, int, __half, __half, __half, float, 128>()", "memory-bound"),
        (V100, "volta_fp16_scudnn_fp16_128x64_relu_interior_nn_v1", "half-on-cuda-cores"),
        (V100, "void fft2d_r2c_32x32<__half, false, 0u, false>(float2*)", "algorithm"),
        (H100, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_ffma_aligna4", "float32-without-tf32"),
        (None, "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_ffma_aligna4", "float32-without-tf32"),
        (None, "volta_sgemm_128x64_nn", "float32"),
        (H100, "cutlass_80_simt_sgemm_128x32_8x5_nn_align1", "float32-without-tf32"),
        (H100, "volta_dgemm_64x64_nn", "float64"),
        (H100, ALIGN1, "unaligned"),
        (B200, "cutlass_80_tensorop_i16832gemm_s8_128x128_64x4_tn_align16", "int8-old-path"),
        (MI300, "Cijk_Ailk_Bljk_BBS_BH_MT1x4x256_SN_LDSB0", "vector-alu"),
        (H100, "triton_tem_fused_mm_0", "undecided"),
        (H100, "my_kernel", "unrecognised"),
        (H100, "void cutlass_dev...", "cut-names"),
        (H100, "void some_ker...", "cut-names"),
    ],
)
def test_each_kind_of_evidence_gives_its_reason(gpu: Gpu | None, name: str, code: str) -> None:
    assert [finding.code for finding in findings(name, gpu=gpu)] == [code]


def test_a_profile_with_nothing_but_tensor_core_work_has_nothing_to_report() -> None:
    assert findings("ampere_fp16_s16816gemm_fp16_128x64_nn", "relu_kernel") == ()


def test_without_matrix_work_that_is_the_one_finding() -> None:
    (finding,) = findings("relu_kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL()")
    assert (finding.code, finding.share) == ("no-matrix-work", 1.0)


def test_float32_is_explained_by_tf32_for_convolutions_only() -> None:
    found = findings(
        "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x128x32_tensor16x8x8_cudnn",
        "ampere_sgemm_128x64_nn",
    )
    assert "TF32 is on for convolutions here, not for matmuls" in found[0].what
    both = findings("cutlass_80_tensorop_s1688gemm_64x64_nn_align4", "ampere_sgemm_128x64_nn")
    assert "TF32 is on" not in both[0].what


def test_the_ops_inputs_tell_the_type_of_the_data_where_the_name_tells_only_the_arithmetic() -> None:
    half = Kernel(
        name="cudnn_infer_volta_scudnn_128x64_relu_interior_nn_v1",
        count=1,
        duration_ns=100,
        op="aten::cudnn_convolution",
        input_dtypes=("float16", "float16"),
    )
    assert findings(half, gpu=V100)[0].code == "half-on-cuda-cores"


def test_half_on_cuda_cores_of_an_unnamed_gpu_admits_that_it_may_have_no_tensor_cores() -> None:
    name = "maxwell_fp16_sgemm_fp16_128x32_nn"
    assert "may have no Tensor Cores" in findings(name, gpu=None)[0].what
    assert "may have no Tensor Cores" not in findings(name, gpu=V100)[0].what


def test_bfloat16_before_ampere_is_named_as_such() -> None:
    half = Kernel(
        name="volta_sgemm_128x64_nn",
        count=1,
        duration_ns=1,
        op="aten::mm",
        input_dtypes=("bfloat16", "bfloat16"),
    )
    assert findings(half, gpu=V100)[0].code == "bfloat16-before-ampere"


def test_unaligned_kernels_name_the_sizes_that_are_no_multiples_of_eight() -> None:
    rows = Kernel(
        name=ALIGN1, count=1, duration_ns=100, op="aten::bmm", input_shapes=((96, 3137, 64), (96, 64, 3137))
    )
    (finding,) = findings(rows)
    assert "3137" in finding.what
    assert "64" not in finding.what
    assert finding.ops == ("aten::bmm [96, 3137, 64] [96, 64, 3137]",)


def test_layout_changes_are_worth_a_word_only_when_they_take_time() -> None:
    layout = "void nchwToNhwcKernel<float, float, float, true, false>(int)"
    tensor = Kernel(name="ampere_fp16_s16816gemm_fp16_128x64_nn", count=1, duration_ns=100_000)
    assert findings(layout, tensor) == ()
    assert [one.code for one in findings(layout, "ampere_fp16_s16816gemm_fp16_128x64_nn")] == ["layout"]


def test_a_contradiction_is_reported_beside_the_reason() -> None:
    found = findings("ampere_fp16_s16816gemm_fp16_128x64_nn", gpu=P100)
    assert {one.code for one in found} == {"contradiction", "no-tensor-cores"}


def test_the_weightiest_reason_comes_first_with_its_share() -> None:
    heavy = Kernel(name="ampere_sgemm_128x64_nn", count=1, duration_ns=300)
    found = findings("triton_tem_fused_mm_0", heavy)
    assert [(one.code, one.share) for one in found] == [("float32-without-tf32", 0.75), ("undecided", 0.25)]


def test_every_text_is_complete() -> None:
    for advice in ADVICE.values():
        assert "{" not in advice.what.format(gpu="the GPU", detail="")
        assert advice.advice.endswith(".")

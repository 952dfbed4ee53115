"""The rule table against names with known verdicts, and the properties that every rule must have."""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING

import pytest

from mixte.profiles._rules import Verdict, classify, rule_table

if TYPE_CHECKING:
    from pathlib import Path

# Data types as the table of names writes them. Two names of complex kernels stand there as fp32.
_DTYPES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "tf32": "tf32",
    "fp32": "float32",
    "fp8": "float8_e4m3fn",
    "fp8/fp4": "float4_e2m1fn x float8_e4m3fn",
    "complex": "complex64",
}


@pytest.fixture(scope="module")
def names(shared: Path) -> list[dict[str, str]]:
    """Kernel names with verdicts, read by hand from public profiles."""
    csv.field_size_limit(1 << 24)
    with (shared / "data" / "kernel_names.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert len(rows) > 800
    return rows


def test_every_known_name_gets_its_verdict(names: list[dict[str, str]]) -> None:
    wrong = [
        (row["verdict"], row["name"]) for row in names if classify(row["name"]).verdict.value != row["verdict"]
    ]
    assert wrong == []


def test_the_operand_type_is_read_from_the_name_of_every_matrix_kernel(names: list[dict[str, str]]) -> None:
    wrong = []
    for row in names:
        dtype = classify(row["name"]).input_dtype
        complex_in_float_columns = row["dtype"] == "fp32" and dtype == "complex64" and "float2" in row["name"]
        if row["dtype"] in _DTYPES and dtype != _DTYPES[row["dtype"]] and not complex_in_float_columns:
            wrong.append((row["dtype"], dtype, row["name"]))
    assert wrong == []


def test_a_name_cut_anywhere_never_turns_a_yes_into_a_no(names: list[dict[str, str]]) -> None:
    # torch tables keep 52 characters and three dots, nsys tables 99 and an ellipsis; any other cut must do as well.
    flipped = []
    for row in names:
        name = row["name"]
        for length in {*range(8, min(len(name), 52), 4), 52, 99}:
            if length < len(name):
                verdict = classify(f"{name[:length]}...").verdict.value
                if verdict not in {row["verdict"], "unknown"}:
                    flipped.append((row["verdict"], verdict, name[:length]))
    assert flipped == []


def test_other_tile_sizes_do_not_change_the_verdict(names: list[dict[str, str]]) -> None:
    # A rule states a fact about a family: it must hold for kernels of the family that nobody has listed.
    tile = re.compile(r"(?<=[_e])(?:tilesize)?\d+x\d+(?=[_x])")
    changed = []
    for row in names:
        if row["name"].startswith(("_Z", "Cijk")) or "hgemm" in row["name"]:
            continue
        other = tile.sub("24x320", row["name"])
        if classify(other).verdict.value != row["verdict"]:
            changed.append((row["name"], other))
    assert changed == []


def test_spellings_of_other_profilers_give_the_same_verdict(names: list[dict[str, str]]) -> None:
    # nvprof writes int=4 and bool=1, nsys (int)4 and (bool)1, HIP appends .kd.
    changed = [
        (row["verdict"], other)
        for row in names
        for other in (
            f"{row['name']}.kd",
            f"{row['name']} [clone .kd]",
            re.sub(r"\(int\)|int=", "", row["name"]),
            row["name"].replace("(anonymous namespace)", "<unnamed>"),
        )
        if classify(other).verdict.value != row["verdict"]
    ]
    assert changed == []


@pytest.mark.parametrize(
    "name",
    [
        "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_NTN",
        "nvjet_sm103_hsh_mma_128x256_2cta_TNT",
        "nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_TNT",
        "sm80_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x64x32",
        "sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize64x64x64_warpgroupsize1x1x1_g1",
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x64_stage3_warpsize2x2x1_tensor16x8x8_execute_kernel",
        "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4, false, false, cutlass::half_t>>",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Collective<2>>>>()",
        "void flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>>()",
        "void cutlass::device_kernel<CollectiveMma<cutlass::gemm::MainloopSm90TmaGmmaWarpSpecialized<5>>>",
        "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_37MainloopSm100TmaUmmaWarpSpecializedILi7E",
        "void cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_kernel0_0()",
        "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel<cutlass::bfloat16_t>)",
        "fmha_v2_flash_attention_bf16_64_128_S_q_paged_kv_192x128_sm90_kernel",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<(cute::UMMA::Major)0, 0u, 7168u>(float*)",
        "cutlass_80_tensorop_i16832gemm_s8_256x128_128x3_tn_align16",
        "void cutlass::Kernel2<cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1>()",
        "trt_turing_int8_i8816cudnn_int8_256x64_ldg16_relu_singleBuffer_small_nt_v1",
        "ampere_bf16_s16816gemm_bf16_256x64_ldg8_f2f_stages_64x3_nn",
        "volta_fp16_h884gemm_fp16_128x64_ldg8_nn",
        "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<1> >(int)",
        "void simple_wmma_gemm(half *, half *, float *, float *, int, int, int, float, float)",
        "Cijk_Ailk_Bjlk_HHS_BH_Bias_HAS_SAV_UserArgs_MT96x128x64_MI32x32x1_SN_LDSB0",
        "void ck_tile::kentry<ck_tile::gfx942_t, 1, ck_tile::FmhaFwdSplitKVKernel<ck_tile::X>, int>()",
        "void marlin::Marlin<__half, 256, 1, 8, 8, 4>(int4 const*, int4 const*)",
    ],
)
def test_a_kernel_that_uses_matrix_instructions_is_never_called_a_no(name: str) -> None:
    assert classify(name).verdict is Verdict.TENSOR_CORE


@pytest.mark.parametrize(
    "name",
    [
        "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4_alignc4_execute",
        "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_g1_ffma_simple_t1r3s3",
        "sm80_xmma_gemm_f32f32_f32f32_f32_nt_n...",
        "cutlass_80_simt_sgemm_256x128_8x4_tn_align1",
        "ampere_sgemm_64x32_sliced1x4_nn",
        "volta_dgemm_128x64_nn",
        "volta_fp16_scudnn_fp16_128x128_relu_medium_nn_v1",
        "cudnn_infer_ampere_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "void implicit_convolve_sgemm<__half, __half, 512, 6, 8, 3, 3, 5, 1, false, true, true>(int, int, int)",
        "void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, false, float, float, float>()",
        "void gemvNSP_kernel<__half, __half, __half, float, 1, 32, 4, 1024, cublasGemvParams<x>>()",
        "Cijk_Ailk_Bljk_SB_MT64x64x8_SE_APM1_AF0EM1_AF1EM1_K1",
        "void implicit_convolve_dgemm<int=128, int=5, int=7, int=3, int=3, int=5, int=1, bool=0, bool=1>(int, int)",
        "volta_zgemm_32x32_nt",
        "void fft1d_r2c_32<double, double, double2, bool=1, bool=0>(double2*, double const *, int, int3)",
        "convolve_common_engine_float_NHWC<__nv_bfloat16, __nv_bfloat16, 128, 5, 5, 3, 3, 3, 1, true, false>",
        "_5x_cudnn_ampere_scudnn_128x32_relu_interior_nn_v1",
        "miopenSp3AsmConv_v30_3_1_gfx9_fp16_dot2_edc_dilation2",
        "fmha_cutlassF_f16_aligned_64x64_rf_sm50(PyTorchMemEffAttention::AttentionKernel<cutlass::half_t>)",
    ],
)
def test_a_kernel_on_cuda_cores_is_never_called_a_yes(name: str) -> None:
    assert classify(name).verdict is Verdict.CUDA_CORE


@pytest.mark.parametrize(
    "name",
    [
        "sm80_xmma_gemm_f32f32_f3...",
        "sm80_xmma_gemm...",
        "void cutlass::device_kernel<cutlass::gemm::kernel::Ge...",
        "triton_tem_fused_addmm_relu_12",
        "fused_moe_kernel",
        "_attn_fwd",
        "matmul_kernel_0d1d2d3d4d5d6d",
        "gemm_fusion_dot_12",
        "__triton_gemm_dot.4",
        "cudnn_generated_fort_native_conv_sm80_64x64",
        "cudnn_generated_fort_native_sm80_convFwd_pointwise_pointwise_pointwise",
        "__myl_MulAddResTraMov_0x1234",
        "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)",
        "nvjet_sss_128x128_32x4_2x1_v_bz_TNT",
        "flash_bwd...",
        "void RNN_blockPersist_fp_LSTM<__half, __half, float, 4>()",
        "void my_kernel(float*, int)",
        "",
    ],
)
def test_a_name_that_cannot_tell_stays_unknown(name: str) -> None:
    assert classify(name).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    "name",
    [
        "triton_red_fused__scaled_dot_product_flash_attention_addmm_convolution_3",
        "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>(flash::Flash_fwd_params)",
        "void vllm::merge_attn_states_kernel<__nv_bfloat16, 128>()",
        "sm80_xmma_pooling_fw_4d_FP16NHWC_Average_execute_kernel_trt",
        "SubTensorOpWithScalar5d",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_aligned16_contig<at::native::OpaqueType<2u>>()",
        "_per_token_group_quant_fp8",
        "void vllm::reshape_and_cache_flash_kernel<__half, __half>()",
        "Cijk_SS_BiasS_HAS_ScaleAlphaVec_PostGSU8_VW4",
        "AddV2_GPU_DT_HALF_DT_HALF_kernel",
        "void transformer_engine::normalization::ln_fwd_tuned_kernel<x>()",
        "input_multiply_reduce_fusion_3",
        "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "turing_fill_kernel",
        "void cudnn::detail::lrnForward_evenC<(int)5, float, float>(cudnn::detail::LrnForwardParams<T2, T3>)",
        "void alignment_kernel<float2, float2, 1, false, 6, 4, 4>(cublasTransposeParams<float2>, float2 const*)",
        "void float2half_rn_kernel<float>(int, const T1 *, __half *)",
        "void tensorflow::functor::ApplyAdamKernel<float>(int, float*, float*, float*, float const*)",
    ],
)
def test_a_kernel_without_matrix_work_is_set_aside_whatever_words_its_name_holds(name: str) -> None:
    assert classify(name).verdict is Verdict.NOT_MATMUL


@pytest.mark.parametrize(
    ("name", "input_dtype", "accumulate_dtype"),
    [
        ("cutlass_80_tensorop_s1688gemm_64x64_32x6_tn_align4", "tf32", "float32"),
        ("cutlass_80_tensorop_d884gemm_64x64_16x4_nn_align1", "float64", "float64"),
        ("cutlass_80_tensorop_i16832gemm_s8_128x128_64x4_tn_align16", "int8", "int32"),
        ("volta_h884gemm_256x128_ldg8_nn", "float16", "float16"),
        ("sm80_xmma_gemm_f16f16_f16f16_f16_nn_n_tilesize96x128x32_tensor16x8x16", "float16", "float16"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize96x128x32_tensor16x8x8", "tf32", "float32"),
        ("nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", "float16", "float32"),
        ("maxwell_fp16_sgemm_fp16_128x32_nn", "float16", "float32"),
        ("bmm_Bfloat16_E4m3E4m3_Fp32_t128x8x128_s7_sm100f", "float8_e4m3fn", "float32"),
        ("void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1...", None, None),
        (
            "void xmma_cudnn::gemm::kernel<xmma_cudnn::dgrad::X<xmma_cudnn::Ampere_hmma_fp32_traits>>",
            "float16",
            "float32",
        ),
        ("void xmma_new::gemm::kernel<xmma_new::X<xmma_new::Turing_imma_int8_int32_traits>>", "int8", "int32"),
        ("Volta_hmma_implicit_gemm_fprop_fp32_nhwc_128x128x64x1_1x3x3x0x1", None, None),
    ],
)
def test_operand_and_accumulator_types_are_read_by_the_scheme_of_the_name(
    name: str, input_dtype: str | None, accumulate_dtype: str | None
) -> None:
    found = classify(name)
    assert (found.input_dtype, found.accumulate_dtype) == (input_dtype, accumulate_dtype)


def test_every_rule_states_a_reason_and_a_source_and_has_an_id_of_its_own() -> None:
    rules = rule_table().rules
    assert len({rule.id for rule in rules}) == len(rules)
    assert all(rule.reason and rule.source for rule in rules)


def test_words_of_rules_are_in_lower_case_as_the_names_are() -> None:
    words = [word for rule in rule_table().rules for word in rule.words]
    assert words == [word.lower() for word in words]


def test_every_expression_of_the_table_compiles() -> None:
    expressions = [
        expression
        for rule in rule_table().rules
        for expression in (rule.pattern, rule.unless, rule.tokens)
        if expression is not None
    ]
    assert all(re.compile(expression) for expression in expressions)


def test_no_rule_is_the_name_of_one_kernel() -> None:
    # A word longer than 28 characters, or one with tile sizes in it, would be a kernel's name and not a fact.
    words = [word for rule in rule_table().rules for word in rule.words]
    assert [word for word in words if len(word) > 28 or re.search(r"\d{2,}x\d{2,}", word)] == []


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "name",
    [
        "xmma_" * 12_000,
        "fp8_" * 15_000,
        "Cijk_Ailk_Bljk_" * 4_000,
        "f(" + "long*, " * 10_000 + "x",
        "_ZN" + "1a" * 30_000,
        "<" * 60_000,
        "attention_" * 6_000,
    ],
    ids=lambda name: name[:12],
)
def test_names_made_to_stall_an_expression_are_decided_all_the_same(name: str) -> None:
    assert classify(name).verdict in set(Verdict)

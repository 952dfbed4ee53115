"""Counter rules against values that profilers recorded on real GPUs."""

from __future__ import annotations

import pytest

from mixte.profiles._counters import is_evidence, prove

TENSOR = "sm__inst_executed_pipe_tensor.sum"
HFMA = "sm__sass_thread_inst_executed_op_hfma_pred_on.sum"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
FMUL = "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum"
FADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
HOPPER = (9, 0)
AMPERE = (8, 0)


def tensor_cores(
    counters: dict[str, float], threads: int | None = None, capability: tuple[int, int] | None = None
):
    proof = prove(counters, threads, capability)
    return None if proof is None else proof.tensor_cores


@pytest.mark.parametrize(
    ("counters", "threads", "expected"),
    [
        # ampere_fp16_s16816gemm_fp16 and splitKreduce of the A100 sample in the reference data.
        ({TENSOR: 55_296, HFMA: 0}, 36 * 128, True),
        ({TENSOR: 4_608, HFMA: 147_456}, 96 * 512, False),
        ({TENSOR: 0, HFMA: 0}, 64 * 128, False),
        # Fused attention over mostly empty blocks: 1.2 tensor instructions per warp, no packed half.
        ({TENSOR: 1_200, HFMA: 0}, 1_000 * 32, True),
        # gemmSN_TN in float32: 5.0 per warp, of which packed half explains 3.8.
        ({TENSOR: 5_000, HFMA: 3_800 * 32}, 1_000 * 32, False),
        # 48 per warp cannot be explained by packed half.
        ({TENSOR: 48_000, HFMA: 1_000 * 32}, 1_000 * 32, True),
        # Without the packed-half counter: 8 per warp or more decide, 0 decides, what lies between does not.
        ({TENSOR: 16_000}, 1_000 * 32, True),
        ({TENSOR: 5_000}, 1_000 * 32, None),
        ({TENSOR: 0}, None, False),
        ({TENSOR: 16_000}, None, None),
    ],
)
def test_the_tensor_pipe_counts_only_beyond_packed_half_arithmetic(
    counters: dict[str, float], threads: int, expected: bool | None
) -> None:
    assert tensor_cores(counters, threads, AMPERE) is expected


def test_wgmma_counts_as_gmma_while_hmma_stays_at_zero() -> None:
    hmma = "sm__inst_executed_pipe_tensor_op_hmma.sum"
    gmma = "sm__inst_executed_pipe_tensor_op_gmma.sum"
    assert tensor_cores({hmma: 0, gmma: 98_304}, capability=HOPPER) is True
    assert tensor_cores({hmma: 0, gmma: 0}, capability=HOPPER) is False
    assert tensor_cores({hmma: 0}, capability=HOPPER) is None
    assert tensor_cores({hmma: 0}, capability=AMPERE) is False
    assert tensor_cores({hmma: 0}) is None


def test_instruction_families_and_operand_counters_tell_the_type() -> None:
    imma = prove({"sm__inst_executed_pipe_tensor_op_imma.sum": 10.0}, None, AMPERE)
    bf16 = prove({"sm__ops_path_tensor_src_bf16_dst_fp32.sum": 10.0}, None, HOPPER)
    fp8 = prove({"sm__ops_path_tensor_src_fp8_dst_fp32.sum": 10.0}, None, HOPPER)
    assert imma is not None
    assert bf16 is not None
    assert fp8 is not None
    assert [imma.dtype, bf16.dtype, fp8.dtype] == ["int8", "bfloat16", "float8_e4m3fn"]


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"tensor_precision_fu_utilization": 10.0}, True),
        ({"tensor_precision_fu_utilization": 0.0}, False),
        ({"tensor_precision_fu_utilization": 0.0, "tensor_int_fu_utilization": 3.0}, True),
        ({"half_precision_fu_utilization": 10.0}, None),
    ],
)
def test_nvprof_levels_above_idle_mean_yes_and_the_half_precision_unit_means_nothing(
    counters: dict[str, float], expected: bool | None
) -> None:
    assert tensor_cores(counters) is expected


def test_mfma_counters_decide_on_amd_and_tell_the_type() -> None:
    none = {"SQ_INSTS_MFMA": 0.0, "SQ_INSTS_VALU_MFMA_F16": 0.0}
    assert tensor_cores(none) is False
    proof = prove(
        {"SQ_INSTS_MFMA": 800.0, "SQ_INSTS_VALU_MFMA_F16": 0.0, "SQ_INSTS_VALU_MFMA_BF16": 800.0}, None, None
    )
    assert proof is not None
    assert (proof.tensor_cores, proof.dtype) == (True, "bfloat16")


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        # From an A100 trace with CUPTI ranges: implicit_convolve_sgemm, sgemm, gcgemm; then a TF32 kernel on Tensor
        # Cores, and elementwise kernels.
        ({FFMA: 9_119_334_400, FMUL: 24_780_800, FADD: 0}, False),
        ({FFMA: 554_303_488, FMUL: 3_145_728, FADD: 2_359_296}, False),
        ({FFMA: 2_593_652_736, FMUL: 26_738_688, FADD: 71_860_224}, False),
        ({FFMA: 0, FMUL: 16_613_376, FADD: 0}, None),
        ({FFMA: 38_731_776, HFMA: 4_866_048}, None),
        ({FFMA: 10_073_308, FADD: 2_618_692}, None),
    ],
)
def test_long_chains_of_multiply_adds_prove_a_product_on_cuda_cores(
    counters: dict[str, float], expected: bool | None
) -> None:
    assert tensor_cores(counters) is expected


def test_only_metrics_about_tensor_cores_and_arithmetic_are_evidence() -> None:
    assert is_evidence(TENSOR)
    assert is_evidence("SQ_INSTS_VALU_MFMA_MOPS_BF16")
    assert is_evidence("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active")
    assert not is_evidence("gpu__time_duration.sum")
    assert not is_evidence("half_precision_fu_utilization")
    assert not is_evidence("SQ_WAVES")


def test_counters_that_say_nothing_decide_nothing() -> None:
    assert prove({}, None, None) is None
    assert prove({"gpu__time_duration.sum": 5.0}, 128, AMPERE) is None

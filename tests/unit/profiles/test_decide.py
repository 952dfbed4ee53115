"""Order of evidence: counters beat names, names beat guesses, hardware sets the frame."""

from __future__ import annotations

import pytest

from mixte.profiles import Basis, Gpu, Kernel, ProfilerStatement, Verdict
from mixte.profiles._decide import Decision, decide, is_matrix_op

TENSOR_NAME = "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_nn"
SIMT_NAME = "ampere_sgemm_128x64_nn"
UNKNOWN_NAME = "fused_moe_kernel"
ELEMENTWISE_NAME = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"

P100 = Gpu(index=0, name="Tesla P100-PCIE-16GB", compute_capability=(6, 0))
V100 = Gpu(index=0, name="Tesla V100-SXM2-16GB", compute_capability=(7, 0))
A100 = Gpu(index=0, name="NVIDIA A100-SXM4-80GB", compute_capability=(8, 0))


def verdict_of(name: str, gpu: Gpu | None = A100, *, tf32_seen: bool = False, **fields: object) -> Decision:
    return decide(Kernel(name=name, count=1, duration_ns=10, **fields), gpu, tf32_seen=tf32_seen)


@pytest.mark.parametrize("name", [TENSOR_NAME, SIMT_NAME, UNKNOWN_NAME, ELEMENTWISE_NAME])
def test_counters_that_prove_use_beat_every_name(name: str) -> None:
    decision = verdict_of(name, counters={"sm__inst_executed_pipe_tensor_op_hmma.sum": 512.0})
    assert (decision.verdict, decision.basis) == (Verdict.TENSOR_CORE, Basis.COUNTERS)
    assert (decision.contradiction is not None) is (name in {SIMT_NAME, ELEMENTWISE_NAME})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (TENSOR_NAME, Verdict.CUDA_CORE),
        (SIMT_NAME, Verdict.CUDA_CORE),
        (UNKNOWN_NAME, Verdict.CUDA_CORE),
        (ELEMENTWISE_NAME, Verdict.NOT_MATMUL),
    ],
)
def test_counters_that_prove_no_use_leave_it_to_the_name_whether_it_is_matrix_work(
    name: str, expected: Verdict
) -> None:
    decision = verdict_of(name, counters={"sm__inst_executed_pipe_tensor.sum": 0.0})
    assert decision.verdict is expected
    assert (decision.contradiction is not None) is (name == TENSOR_NAME)


def test_multiply_adds_prove_matrix_work_of_a_kernel_without_a_name() -> None:
    prefix = "smsp__sass_thread_inst_executed_op_"
    counters = {f"{prefix}ffma_pred_on.sum": 9_119_334_400.0, f"{prefix}fmul_pred_on.sum": 24_780_800.0}
    assert verdict_of("__missing__", counters=counters).verdict is Verdict.CUDA_CORE


def test_inconclusive_counters_leave_the_verdict_to_the_name() -> None:
    decision = verdict_of(
        TENSOR_NAME, counters={"sm__inst_executed_pipe_tensor.sum": 3.0}, threads_per_launch=32
    )
    assert (decision.verdict, decision.basis) == (Verdict.TENSOR_CORE, Basis.NAME)


def test_on_a_gpu_without_tensor_cores_nothing_ran_on_them() -> None:
    claimed = verdict_of(TENSOR_NAME, P100)
    assert (claimed.verdict, claimed.basis) == (Verdict.CUDA_CORE, Basis.HARDWARE)
    assert claimed.reason.startswith("impossible")
    assert claimed.contradiction is not None
    undecided = verdict_of(UNKNOWN_NAME, P100)
    assert (undecided.verdict, undecided.contradiction) == (Verdict.CUDA_CORE, None)
    assert verdict_of(ELEMENTWISE_NAME, P100).verdict is Verdict.NOT_MATMUL


def test_a_type_that_the_gpu_cannot_multiply_contradicts_the_name() -> None:
    decision = verdict_of("ampere_bf16_s16816gemm_bf16_128x64_nn", V100)
    assert decision.verdict is Verdict.UNKNOWN
    assert decision.contradiction is not None
    assert "bfloat16" in decision.contradiction
    assert verdict_of("ampere_bf16_s16816gemm_bf16_128x64_nn", A100).verdict is Verdict.TENSOR_CORE


def test_a_volta_tile_name_says_nothing_about_the_gpu() -> None:
    assert verdict_of("volta_fp16_s884gemm_fp16_128x128_nn", A100).verdict is Verdict.TENSOR_CORE


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (ProfilerStatement(uses_tensor_cores=True), Verdict.TENSOR_CORE),
        (ProfilerStatement(uses_tensor_cores=False, eligible=True), Verdict.CUDA_CORE),
        (ProfilerStatement(uses_tensor_cores=False), Verdict.NOT_MATMUL),
        (ProfilerStatement(), Verdict.UNKNOWN),
    ],
)
def test_the_profilers_own_statement_decides_where_the_name_does_not(
    statement: ProfilerStatement, expected: Verdict
) -> None:
    assert verdict_of("my_kernel", statement=statement).verdict is expected


def test_a_name_that_tells_beats_the_profilers_own_statement() -> None:
    assert (
        verdict_of(SIMT_NAME, statement=ProfilerStatement(uses_tensor_cores=True)).verdict is Verdict.CUDA_CORE
    )


def test_narrow_operands_make_a_matrix_kernel_likely_but_leave_it_unknown() -> None:
    decision = verdict_of(UNKNOWN_NAME, input_dtypes=("bfloat16", "bfloat16"))
    assert (decision.verdict, decision.likely) == (Verdict.UNKNOWN, Verdict.TENSOR_CORE)
    assert decision.dtype == "bfloat16"


def test_float32_operands_are_probably_not_unless_the_run_uses_tf32() -> None:
    types = ("float32", "float32")
    assert verdict_of(UNKNOWN_NAME, input_dtypes=types).likely is Verdict.CUDA_CORE
    assert verdict_of(UNKNOWN_NAME, input_dtypes=types, tf32_seen=True).likely is None


def test_without_a_known_gpu_or_types_nothing_is_likely() -> None:
    assert verdict_of(UNKNOWN_NAME, None, input_dtypes=("bfloat16",)).likely is None
    assert verdict_of(UNKNOWN_NAME).likely is None
    assert verdict_of(UNKNOWN_NAME, input_dtypes=("bfloat16", "float32")).likely is None


def test_an_unrecognised_kernel_of_a_matrix_op_is_taken_for_matrix_work() -> None:
    assert verdict_of("my_kernel", op="aten::mm", input_dtypes=("float16",)).likely is Verdict.TENSOR_CORE
    assert verdict_of("my_kernel", op="aten::add", input_dtypes=("float16",)).likely is None


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("aten::addmm", True),
        ("aten::convolution_backward", True),
        ("aten::_scaled_mm", True),
        ("jit(loss)/jvp(bsd,de->bse)/dot_general", True),
        ("model/dense/MatMul", True),
        ("aten::_flash_attention_forward", True),
        ("convert_element_type", False),
        ("aten::comm", False),
        ("aten::dropout", False),
        (None, False),
    ],
)
def test_matrix_operators_are_told_from_others(op: str | None, expected: bool) -> None:
    assert is_matrix_op(op) is expected

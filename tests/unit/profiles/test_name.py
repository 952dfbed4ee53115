"""Taking kernel names apart: what runs, in the spellings of every profiler."""

from __future__ import annotations

import pytest

from mixte.profiles._name import parse


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
        ("void splitKreduce_kernel<32, 16, int>(int)", "splitkreduce_kernel"),
        ("void (anonymous namespace)::softmax_warp_forward<float, 4>(float*)", "softmax_warp_forward"),
        ("void <unnamed>::softmax_warp_forward<float, (int)6>(T2 *)", "softmax_warp_forward"),
        ("unnamed>::gemm_kernel(const float *)", "gemm_kernel"),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_nn>(x::Params)",
            "cutlass::kernel2<cutlass_80_simt_sgemm_nn>",
        ),
        (
            "void cutlass::device_kernel<flash::FlashAttnBwd<int>>(x)",
            "cutlass::device_kernel<flash::flashattnbwd",
        ),
        (
            "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(x)",
            "internal::gemvx::kernel<int, float>",
        ),
        ("std::enable_if<(((8)>(0)))&&vllm::_c<x>::exists, void>::type vllm::rms_norm<x>(x)", "vllm::rms_norm"),
        ("_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfEEEvT_", "at::native::reduce_kernel"),
        ("_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwdINS_1XEEEEvDpT_", "ck_tile::kentry::rmsnorm2dfwd"),
        (
            "_ZN2at6native54_GLOBAL__N__d8ceb000_21_DistributionNormal_cu_17e44f7d11fill_kernelIfLi4E",
            "at::native::fill_kernel",
        ),
        ("attn_fwd.kd", "attn_fwd"),
        ("void f<int>(int) [clone .kd]", "f"),
        ("", ""),
    ],
)
def test_the_subject_is_the_function_that_runs(name: str, subject: str) -> None:
    assert parse(name).subject == subject


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("void dpsk::grouped_gemm::cuda::utils::transpose<512>(x)", "transpose"),
        ("void internal::softmax::kernel(x)", "softmax::kernel"),
        ("ampere_sgemm_128x64_nn", "ampere_sgemm_128x64_nn"),
    ],
)
def test_the_function_leaves_namespaces_out_unless_it_says_nothing_alone(name: str, function: str) -> None:
    assert parse(name).function == function


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("void cutlass::Kernel<cutlass_80_te...", True),
        ("void f<x>(in\N{HORIZONTAL ELLIPSIS}", True),
        ("f<x>(int)", False),
    ],
)
def test_a_name_that_ends_in_dots_was_cut(name: str, cut: bool) -> None:
    assert parse(name).cut is cut


@pytest.mark.parametrize(
    "name", ["_Z", "_ZN", "_ZN999x", "_ZN3abI", "<<<<", ">>>>", "::", "std::enable_if<", "\x00\ufffd"]
)
def test_damaged_names_are_taken_apart_without_an_error(name: str) -> None:
    assert isinstance(parse(name).subject, str)

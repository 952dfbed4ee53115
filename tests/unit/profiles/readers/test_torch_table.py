"""PyTorch's tables. Layout: torch.autograd.profiler_util; rows made up."""

from __future__ import annotations

import pytest

COLUMNS = ("Self CPU %", "Self CPU", "CPU total", "Self CUDA", "Self CUDA %", "CUDA total", "# of Calls")


def table(*rows, total="10.000ms", columns=COLUMNS, width=55):
    """Print a table as PyTorch does: right-aligned columns between lines of dashes."""
    dashes = "  ".join(["-" * width, *("-" * 12 for _ in columns)]) + "  "

    def line(*cells):
        return "  ".join([cells[0].rjust(width), *(cell.rjust(12) for cell in cells[1:])]) + "  "

    end = f"Self CPU time total: 1.000s\nSelf CUDA time total: {total}\n" if total else ""
    return "\n".join([dashes, line("Name", *columns), dashes, *(line(*row) for row in rows), dashes, end])


def row(name, cpu, cuda, calls):
    return (name, "1.00%", cpu, cpu, cuda, "1.00%", cuda, str(calls))


def rows(profile):
    return {kernel.name: (kernel.count, kernel.duration_ns) for kernel in profile.kernels}


def test_operators_copies_and_runtime_calls_are_left_out(profile_of):
    profile = profile_of(
        "STAGE:2024 Completed Stage: Collection\n"
        + table(
            row("aten::mm", "9.000ms", "8.000ms", 4),
            row("aten::t", "0.000us", "8.000ms", 4),
            row("autograd::engine::evaluate_function: MmBackward0", "0.000us", "8.000ms", 2),
            row("MmBackward0", "0.000us", "8.000ms", 2),
            row("ProfilerStep*", "0.000us", "10.000ms", 1),
            row("Optimizer.step#SGD.step", "0.000us", "1.000ms", 1),
            row("nccl:all_reduce", "0.000us", "1.000ms", 1),
            row("## Call CompiledFxGraph abc ##", "0.000us", "1.000ms", 1),
            row("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_...", "0.000us", "8.000ms", 4),
            row("void at::native::vectorized_elementwise_kernel<4, at...", "0.000us", "1500.000us", 2),
            row("Memcpy HtoD (Pinned -> Device)", "0.000us", "0.500ms", 9),
            row("Memset (Device)", "0.000us", "0.000us", 9),
            row("cudaLaunchKernel", "5.000ms", "0.000us", 6),
            row("cuLaunchKernel", "0.000us", "0.000us", 6),
        )
    )
    assert rows(profile) == {
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_...": (4, 8_000_000),
        "void at::native::vectorized_elementwise_kernel<4, at...": (2, 1_500_000),
    }
    assert not profile.partial


def test_a_range_of_the_user_has_a_row_on_the_cpu_too_and_is_no_kernel(profile_of):
    profile = profile_of(
        table(
            row("forward", "5.000ms", "0.000us", 1),
            row("forward", "0.000us", "9.000ms", 1),
            row("triton_mm", "0.000us", "10.000ms", 1),
        )
    )
    assert rows(profile) == {"triton_mm": (1, 10_000_000)}


def test_a_table_cut_by_its_row_limit_is_partial(profile_of):
    profile = profile_of(table(row("volta_sgemm_128x64_tn", "0.000us", "6.000ms", 3)))
    assert rows(profile) == {"volta_sgemm_128x64_tn": (3, 6_000_000)}
    assert profile.missing == (
        "the rows of the table add up to 60% of its GPU time: print it with row_limit=-1",
    )


def test_a_table_cut_off_is_partial(profile_of):
    profile = profile_of(table(row("volta_sgemm_128x64_tn", "0.000us", "6.000ms", 3), total=""))
    assert rows(profile) == {"volta_sgemm_128x64_tn": (3, 6_000_000)}
    assert profile.missing == ("the table is cut off: its total is missing",)


def test_tables_one_after_the_other_add_up(profile_of):
    one = table(row("volta_sgemm_128x64_tn", "0.000us", "10.000ms", 3))
    assert rows(profile_of(one + "\nepoch 2\n" + one)) == {"volta_sgemm_128x64_tn": (6, 20_000_000)}


@pytest.mark.parametrize("device", ["CUDA", "XPU", "HIP"])
def test_the_device_column_has_the_name_of_the_backend(profile_of, device):
    text = table(row("some_kernel", "0.000us", "10.000ms", 3)).replace("CUDA", device)
    assert rows(profile_of(text)) == {"some_kernel": (3, 10_000_000)}


def test_a_table_of_the_cpu_alone_has_no_kernels(profile_of):
    columns = ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls")
    profile = profile_of(table(("aten::mm", "1%", "1ms", "1%", "1ms", "1ms", "1"), columns=columns, total=""))
    assert profile.no_kernels_reason == "the table has no GPU columns: only the CPU was profiled"
    assert not profile.partial


def test_a_table_of_operators_alone_says_so(profile_of):
    profile = profile_of(table(row("aten::mm", "9.000ms", "10.000ms", 4), total=""))
    assert profile.no_kernels_reason == "the table lists no kernels, only operators"


def test_the_tables_before_1_8_list_operators_only(profile_of):
    columns = (
        "Self CPU total %",
        "Self CPU total",
        "CPU total",
        "CUDA total %",
        "CUDA total",
        "Number of Calls",
    )
    profile = profile_of(
        table(("mm", "1%", "1ms", "1ms", "99%", "9ms", "1"), columns=columns, total="")
        + "CUDA time total: 9ms\n"
    )
    assert profile.format == "torch_table"
    assert not profile.partial
    assert profile.no_kernels_reason == "the table lists no kernels, only operators"

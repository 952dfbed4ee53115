"""``nsys stats`` as text and CSV, of several releases, locales and reports. Layouts as printed by 2020 to 2025."""

from __future__ import annotations

import pytest

NEW = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name"


def rows(profile):
    return {kernel.name: (kernel.count, kernel.duration_ns) for kernel in profile.kernels}


def table(header, *lines):
    """A table as nsys prints it: columns as wide as their widest value, right-aligned but for the last."""
    cells = [header, *lines]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]

    def line(row):
        *numbers, last = row
        return " " + "  ".join(
            [n.rjust(w) for n, w in zip(numbers, widths, strict=False)] + [last.ljust(widths[-1])]
        )

    return (
        "\n".join([line(header), " " + "  ".join("-" * width for width in widths), *map(line, lines)]) + "\n\n"
    )


KERN_SUM = ("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Name")
API_SUM = ("Time (%)", "Total Time (ns)", "Num Calls", "Avg (ns)", "Name")


def test_only_the_kernel_report_counts(profile_of):
    profile = profile_of(
        "epoch 1\n\n ** CUDA API Summary (cuda_api_sum):\n\n"
        + table(API_SUM, ("100.0", "5,000", "5", "1,000.0", "cudaFree"))
        + " ** NVTX Range Summary (nvtx_sum):\n\n"
        + table(
            ("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Style", "Range"),
            ("100.0", "9,000", "2", "4,500.0", "PushPop", "forward"),
        )
        + " ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n"
        + table(
            KERN_SUM,
            ("75.0", "3,000", "3", "1,000.0", "void f<(int)4>(a,  b)"),
            ("25.0", "1,000", "1", "1,000.0", "g"),
        )
        + " ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):\n\n"
        + table(
            ("Time (%)", "Total Time (ns)", "Count", "Avg (ns)", "Operation"),
            ("100.0", "700", "7", "100.0", "[CUDA memset]"),
        )
    )
    assert rows(profile) == {"void f<(int)4>(a,  b)": (3, 3000), "g": (1, 1000)}
    assert profile.format == "nsys_stats_text"


def test_the_same_kernels_in_a_second_report_do_not_count_again(profile_of):
    grids = ("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "GridXYZ", "BlockXYZ", "Name")
    profile = profile_of(
        table(KERN_SUM, ("100.0", "3,000", "3", "1,000.0", "f"))
        + table(grids, ("100.0", "3,000", "3", "1,000.0", "  64    1    1", " 128    1    1", "f"))
    )
    assert rows(profile) == {"f": (3, 3000)}
    assert profile.notes == ("a second table of kernels (summary) was left out: it repeats the first",)


def test_reports_of_several_files_add_up(profile_of):
    report = table(KERN_SUM, ("100.0", "3,000", "3", "1,000.0", "f"))
    profile = profile_of(
        f"Processing [rank0.sqlite] with [x/cuda_gpu_kern_sum.py]...\n\n{report}"
        f"Processing [rank1.sqlite] with [x/cuda_gpu_kern_sum.py]...\n\n{report}"
    )
    assert rows(profile) == {"f": (6, 6000)}


def test_grids_of_the_report_by_grid_and_block_split_rows_that_add_up(profile_of):
    grids = ("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "GridXYZ", "BlockXYZ", "Name")
    profile = profile_of(
        table(
            grids,
            ("60.0", "3,000", "3", "1,000.0", "  64    1    1", " 128    1    1", "f"),
            ("40.0", "2,000", "1", "2,000.0", "   8    1    1", " 128    1    1", "f"),
        )
    )
    assert rows(profile) == {"f": (4, 5000)}


def test_copies_in_the_report_of_kernels_and_copies_are_left_out(profile_of):
    profile = profile_of(
        table(
            ("Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Category", "Operation"),
            ("60.0", "3,000", "3", "1,000.0", "CUDA_KERNEL", "f"),
            ("40.0", "2,000", "1", "2,000.0", "MEMORY_OPER", "[CUDA memcpy Host-to-Device]"),
        )
    )
    assert rows(profile) == {"f": (3, 3000)}


def test_the_tables_of_2020_have_their_unit_in_the_title(profile_of):
    profile = profile_of(
        "CUDA Kernel Statistics (nanoseconds)\n\n"
        "Time(%)      Total Time   Instances         Average         Minimum         Maximum  Name      \n"
        "-------  --------------  ----------  --------------  --------------  --------------  ----------\n"
        "  100.0         1234567           2        617283.5          600000          634567  my kernel \n\n"
    )
    assert rows(profile) == {"my kernel": (2, 1_234_567)}


@pytest.mark.parametrize(("unit", "ns"), [("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9)])
def test_the_unit_stands_in_the_header(profile_of, unit, ns):
    header = ("Time (%)", f"Total Time ({unit})", "Instances", f"Avg ({unit})", "Name")
    profile = profile_of(table(header, ("100.0", "1,234.5", "2", "617.25", "f")))
    assert rows(profile) == {"f": (2, round(1234.5 * ns))}


def test_a_table_pasted_without_its_indentation_is_read(profile_of):
    pasted = table(KERN_SUM, ("75.0", "3,000", "3", "1,000.0", "f g"), ("25.0", "1,000", "1", "1,000.0", "h"))
    stripped = "\n".join(line.strip() for line in pasted.splitlines())
    assert rows(profile_of(stripped)) == {"f g": (3, 3000), "h": (1, 1000)}


def test_a_row_that_cannot_be_read_is_missing(profile_of):
    whole = table(
        KERN_SUM, ("75.0", "3,000", "3", "1,000.0", "f"), ("25.0", "1,000", "1", "1,000.0", "g")
    ).rstrip()
    profile = profile_of(whole[: whole.rindex("1,000.0") - 2])
    assert rows(profile) == {"f": (3, 3000)}
    assert profile.missing == ("1 rows of the kernel table could not be read",)


def test_a_run_without_kernels_is_an_answer(profile_of):
    profile = profile_of(
        "Processing [a.sqlite] with [reports/cuda_gpu_kern_sum.py]...\n"
        "SKIPPED: a.sqlite does not contain CUDA kernel data.\n"
    )
    assert profile.kernels == ()
    assert profile.no_kernels_reason == "the file holds no table of GPU kernels"
    assert profile.notes == ("nsys stats found no GPU kernels in its input",)


@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_csv_of_several_reports(profile_of, delimiter):
    quoted = '"void f<(int)4>(a, b)"' if delimiter == "," else "void f<(int)4>(a, b)"
    text = (
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n100.0,5000,5,1000.0,cudaFree\n\n"
        f"{NEW}\n75.0,3000,3,1000.0,1000.0,900,1100,57.7,NAME\n25.0,1000,1,1000.0,1000.0,1000,1000,0.0,g\n\n"
        "Time (%),Total Time (ns),Count,Avg (ns),Operation\n100.0,700,7,100.0,[CUDA memset]\n"
    )
    profile = profile_of(text.replace(",", delimiter).replace("NAME", quoted))
    assert rows(profile) == {"void f<(int)4>(a, b)": (3, 3000), "g": (1, 1000)}
    assert profile.format == "nsys_stats_csv"


def test_csv_of_the_gpu_trace_has_a_row_per_launch(profile_of):
    profile = profile_of(
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),"
        "Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n"
        "100,50,1,,,,,,,,,,0.001,99.0,Pageable,Device,NVIDIA A100-SXM4-40GB (1),1,7,[CUDA memcpy HtoD]\n"
        '200,30,2,64,1,1,128,1,1,32,0.0,0.0,,,,,NVIDIA A100-SXM4-40GB (1),1,7,"void f(a, b)"\n'
        '300,40,3,64,1,1,128,1,1,32,0.0,0.0,,,,,NVIDIA A100-SXM4-40GB (1),1,7,"void f(a, b)"\n'
    )
    (row,) = profile.kernels
    assert (row.name, row.count, row.duration_ns, row.device, row.stream) == ("void f(a, b)", 2, 70, 1, 7)
    assert [(gpu.index, gpu.name, gpu.vendor) for gpu in profile.gpus] == [
        (1, "NVIDIA A100-SXM4-40GB", "nvidia")
    ]

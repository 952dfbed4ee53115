"""Nsight Compute's CSV and text of several releases and pages."""

from __future__ import annotations

import pytest

from mixte.profiles import Weight

TENSOR = "sm__inst_executed_pipe_tensor.sum"
NEW_COLUMNS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def metric(identifier, name, unit, value, *, kernel="gemm", grid="(10, 2, 1)"):
    return (
        f'"{identifier}","1","python","127.0.0.1","{kernel}","1","7","(128, 1, 1)","{grid}","0","9.0",'
        f'"Command line profiler metrics","{name}","{unit}","{value}"'
    )


def test_a_row_per_metric_makes_one_launch(profile_of):
    profile = profile_of(
        "\n".join(
            [
                "==PROF== Connected to process 1",
                'step 0, loss "2.3, lr 0.1',
                NEW_COLUMNS,
                metric(0, "gpu__time_duration.sum", "ns", "182,336"),
                metric(0, TENSOR, "inst", "1,204,224"),
                metric(0, "dram__bytes.sum", "byte", "77"),
                metric(1, "gpu__time_duration.sum", "us", "12.50", kernel="void f<a, b>(int)"),
                metric(1, TENSOR, "inst", "0", kernel="void f<a, b>(int)"),
            ]
        )
    )
    assert [(k.name, k.count, k.duration_ns, k.counters, k.threads_per_launch) for k in profile.kernels] == [
        ("gemm", 1, 182_336, {TENSOR: 1_204_224.0}, 2560),
        ("void f<a, b>(int)", 1, 12_500, {TENSOR: 0.0}, 2560),
    ]
    assert [(gpu.index, gpu.compute_capability) for gpu in profile.gpus] == [(0, (9, 0))]


def test_launches_with_equal_counters_are_one_row(profile_of):
    lines = [NEW_COLUMNS]
    for identifier in range(5):
        lines += [
            metric(identifier, "gpu__time_duration.sum", "ns", "100"),
            metric(identifier, TENSOR, "inst", "64" if identifier < 4 else "65"),
        ]
    assert [(k.count, k.duration_ns) for k in profile_of("\n".join(lines)).kernels] == [(4, 400), (1, 100)]


@pytest.mark.parametrize(
    ("unit", "value", "ns"),
    [
        *(
            ("nsecond", "5,980", 5980),
            ("usecond", "5.98", 5980),
            ("ms", "1.5", 1_500_000),
            ("msecond", "2", 2_000_000),
        ),
        *(("second", "1", 1_000_000_000), ("ns", "10.195.552", 10_195_552), ("us", "1.234,5", 1_234_500)),
    ],
)
def test_time_in_any_unit_and_locale(profile_of, unit, value, ns):
    profile = profile_of(f"{NEW_COLUMNS}\n{metric(0, 'gpu__time_duration.sum', unit, value)}\n")
    assert profile.gpu_time_ns == ns


@pytest.mark.parametrize(
    ("unit", "frequency"),
    [("cycle/nsecond", "1.25"), ("Ghz", "1.25"), ("cycle/second", "1,250,000,000"), ("Mhz", "1,250")],
)
def test_time_from_cycles_and_their_frequency(profile_of, unit, frequency):
    profile = profile_of(
        "\n".join(
            [
                NEW_COLUMNS,
                metric(0, "sm__cycles_elapsed.avg", "cycle", "12,500.00"),
                metric(0, "sm__cycles_elapsed.avg.per_second", unit, frequency),
            ]
        )
    )
    assert profile.gpu_time_ns == 10_000


def test_the_details_page_names_metrics_by_titles(profile_of):
    profile = profile_of(
        "\n".join(
            [
                NEW_COLUMNS,
                metric(0, "Duration", "usecond", "14.46"),
                metric(0, "Threads", "thread", "221,184"),
                metric(0, TENSOR, "inst", "5"),
            ]
        )
    )
    (row,) = profile.kernels
    assert (row.duration_ns, row.threads_per_launch) == (14_460, 221_184)


def test_the_columns_of_2021_and_rows_that_end_early(profile_of):
    columns = (
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context","Stream","Section Name",'
        '"Metric Name","Metric Unit","Metric Value","Rule Name","Rule Type","Rule Description"'
    )
    prefix = '"0","1","python","127.0.0.1","gemm","2023-May-09 15:22:21","1","7"'
    profile = profile_of(
        f'{columns}\n{prefix},"S","gpu__time_duration.sum","nsecond","500",\n'
        f'{prefix},"S","","","","SOLBottleneck","Warning","This kernel, as ""it"" stands"\n'
        f'{prefix},"S","{TENSOR}","inst","7",\n'
    )
    (row,) = profile.kernels
    assert (row.count, row.duration_ns, row.counters, row.device) == (1, 500, {TENSOR: 7.0}, None)


def test_without_a_time_metric_launches_are_the_weight(profile_of):
    profile = profile_of(f"{NEW_COLUMNS}\n{metric(0, TENSOR, 'inst', '7')}\n")
    assert profile.weight is Weight.LAUNCHES
    assert profile.kernels[0].duration_ns is None
    assert "the file holds no time metric: shares are of launches" in profile.notes


def test_launches_without_time_among_others_are_missing(profile_of):
    profile = profile_of(
        "\n".join([NEW_COLUMNS, metric(0, "gpu__time_duration.sum", "ns", "5"), metric(1, TENSOR, "inst", "7")])
    )
    assert sum(row.count for row in profile.kernels) == 1
    assert profile.missing == ("1 launches have no time metric",)


def test_the_raw_page_has_a_row_per_launch_and_units_below_the_header(profile_of):
    profile = profile_of(
        '"ID","Process ID","Kernel Name","Stream","Block Size","Grid Size","Device","CC",'
        f'"gpu__time_duration.sum","{TENSOR}"\n'
        '"","","","","","","","","us","inst"\n'
        '"0","1","gemm","7","(128, 1, 1)","(2, 1, 1)","0","8.0","1.50","12"\n'
        '"1","1","add","7","(64, 1, 1)","(2, 1, 1)","0","8.0","0.50","0"\n'
    )
    assert [(k.name, k.duration_ns, k.counters, k.threads_per_launch) for k in profile.kernels] == [
        ("gemm", 1500, {TENSOR: 12.0}, 256),
        ("add", 500, {TENSOR: 0.0}, 128),
    ]


def test_the_gpu_is_named_where_its_attributes_were_collected(profile_of):
    profile = profile_of(
        '"ID","Process ID","Kernel Name","Stream","Block Size","Grid Size","Device","CC",'
        '"device__attribute_display_name","gpu__time_duration.sum"\n"","","","","","","","","","us"\n'
        '"0","1","gemm","7","(128, 1, 1)","(2, 1, 1)","0","8.0","NVIDIA A100-SXM4-40GB","1.50"\n'
    )
    assert [(gpu.index, gpu.name, gpu.compute_capability) for gpu in profile.gpus] == [
        (0, "NVIDIA A100-SXM4-40GB", (8, 0))
    ]


def test_a_summary_per_kernel_multiplies_the_average(profile_of):
    profile = profile_of(
        '"Process ID","Process Name","Host Name","Kernel Name","Block Size","Grid Size","Device","CC","Invocations",'
        '"Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
        '"1","python","127.0.0.1","gemm","(128, 1, 1)","(2, 1, 1)","0","8.0","5","S","gpu__time_duration.sum","us",'
        '"1.0","3.0","2.0"\n'
    )
    assert [(k.count, k.duration_ns) for k in profile.kernels] == [(5, 10_000)]


TEXT = """\
==PROF== Profiling "gemm" - 0: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 6161
[6161] python3@127.0.0.1
  void gemm<32, __half>(Params<float>, __half const*) (36, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
    NVTX Start/End Ranges:
    Section: Command line profiler metrics
    ------------------------------------------------- ----------- ------------
    Metric Name                                       Metric Unit Metric Value
    ------------------------------------------------- ----------- ------------
    gpu__time_duration.sum                                usecond        12.70
    sm__inst_executed_pipe_tensor.sum                        inst       55,296
    sm__sass_thread_inst_executed_op_hfma_pred_on.sum inst                   0
    ------------------------------------------------- ----------- ------------

  add_kernel, 2024-Jul-13 20:38:34, Context 1, Stream 13
    Section: GPU Speed Of Light Throughput
    ---------------- ------------- ------------
    Metric Name        Metric Unit Metric Value
    ---------------- ------------- ------------
    Elapsed Cycles           cycle       11,618
    Duration               usecond        10.85
    ---------------- ------------- ------------
    OPT   This kernel exhibits low compute throughput, Duration   usecond   99.00
    Section: Launch Statistics
    ---------------- ------------- ------------
    Block Size                              256
    Grid Size                               864
    ---------------- ------------- ------------
"""


def test_text_of_two_releases(profile_of):
    profile = profile_of(TEXT)
    assert profile.format == "ncu_text"
    hfma = "sm__sass_thread_inst_executed_op_hfma_pred_on.sum"
    assert [
        (k.name, k.stream, k.device, k.duration_ns, k.counters, k.threads_per_launch) for k in profile.kernels
    ] == [
        (
            "void gemm<32, __half>(Params<float>, __half const*)",
            7,
            0,
            12_700,
            {hfma: 0.0, TENSOR: 55_296.0},
            4608,
        ),
        ("add_kernel", 13, None, 10_850, None, None),
    ]


def test_a_run_that_profiled_no_kernels_is_an_answer(profile_of):
    profile = profile_of("==PROF== Connected to process 1\n==WARNING== No kernels were profiled.\n")
    assert profile.kernels == ()
    assert profile.no_kernels_reason == "Nsight Compute profiled no kernels"

"""nvprof's dialects. Layouts: CUDA profiler user's guide; rows made up."""

from __future__ import annotations

import pytest

from mixte.profiles import Weight

HEADER = "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"


def rows(profile):
    return {kernel.name: (kernel.count, kernel.duration_ns) for kernel in profile.kernels}


def test_rows_end_at_api_calls_and_copies_are_left_out(profile_of):
    profile = profile_of(
        "==1== NVPROF is profiling process 1, command: ./a\n==1== Profiling result:\n"
        + HEADER
        + " GPU activities:   60.00%  1.2000ms         3  400.00us  390.00us  410.00us  void f<int=4>(int, a  b)\n"
        "                   30.00%     600us         1     600us     600us     600us  [CUDA memcpy HtoD]\n"
        "                   10.00%  200.00us         2  1e+05ns  1e+05ns  1e+05ns  g\n"
        "      API calls:  100.00%  10.000ms         5  2.0000ms  2.0000ms  2.0000ms  cudaLaunchKernel\n"
        "                    0.00%  10.000us         5  2.0000us  2.0000us  2.0000us  cudaMalloc\n"
    )
    assert rows(profile) == {"void f<int=4>(int, a  b)": (3, 1_200_000), "g": (2, 200_000)}
    assert profile.producer == "nvprof"


def test_tables_per_device_keep_their_device(profile_of):
    profile = profile_of(
        '==1== Profiling result:\n==1== Device "Tesla K40m (0)"\n'
        + HEADER
        + " GPU activities:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  f\n"
        '==1== Device "Tesla K40m (1)"\n'
        + HEADER
        + " GPU activities:  100.00%  3.0000ms         1  3.0000ms  3.0000ms  3.0000ms  f\n"
    )
    assert {kernel.device: kernel.duration_ns for kernel in profile.kernels} == {0: 1_000_000, 1: 3_000_000}
    assert [(gpu.index, gpu.name) for gpu in profile.gpus] == [(0, "Tesla K40m"), (1, "Tesla K40m")]


def test_tables_of_several_processes_add_up(profile_of):
    table = HEADER + " GPU activities:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  f\n"
    profile = profile_of(f"==1== Profiling result:\n{table}==2== Profiling result:\n{table}")
    assert rows(profile) == {"f": (2, 2_000_000)}


def test_nvtx_results_repeat_and_do_not_count_again(profile_of):
    table = " GPU activities:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  f\n"
    profile = profile_of(
        f'==1== Profiling result:\n{HEADER}{table}\n==1== NVTX result:\n==1==   Thread "main"\n{HEADER}'
        "          Range:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  epoch\n" + table
    )
    assert rows(profile) == {"f": (1, 1_000_000)}


def test_a_decimal_comma_is_read(profile_of):
    profile = profile_of(
        "==1== Profiling result:\n"
        + HEADER
        + " GPU activities:  100,00%  1,5000ms         1  1,5000ms  1,5000ms  1,5000ms  f\n"
    )
    assert rows(profile) == {"f": (1, 1_500_000)}


def test_records_that_nvprof_lost_are_missing(profile_of):
    profile = profile_of(
        "==1== Warning: Found 44 invalid records in the result.\n"
        "==1== Warning: 8 records have invalid timestamps due to insufficient semaphore pool size.\n"
        "==1== Profiling result:\nNo kernels were profiled.\n"
    )
    assert profile.missing == ("nvprof lost 44 records", "nvprof lost 8 records")
    assert profile.partial


def test_the_gpu_trace_as_text(profile_of):
    profile = profile_of(
        "==1== Profiling application: ./a\n==1== Profiling result:\n"
        "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput"
        "  SrcMemType  DstMemType           Device   Context    Stream  Name\n"
        "216.81ms  1.2800us                    -               -         -         -         -      112B  83.446MB/s"
        "    Pageable      Device  Tesla P100-PCIE         1         7  [CUDA memcpy HtoD]\n"
        "230.97ms  5.3760us              (6 1 1)       (256 1 1)        10        0B        0B         -           -"
        "           -           -  Tesla P100-PCIE         1         7  void k<int=4>(int, b) [100]\n"
        "231.97ms  2.0000us          (74115 1 1)        (64 1 1)        10  1.5000KB        0B         -           -"
        "           -           -  Tesla P100-PCIE         1        13  void k<int=4>(int, b) [101]\n"
        "\nRegs: Number of registers used per CUDA thread.\nSSMem: Static shared memory allocated per CUDA block.\n"
    )
    assert [(row.name, row.count, row.duration_ns, row.stream) for row in profile.kernels] == [
        ("void k<int=4>(int, b)", 1, 5376, 7),
        ("void k<int=4>(int, b)", 1, 2000, 13),
    ]
    assert [(gpu.index, gpu.name) for gpu in profile.gpus] == [(0, "Tesla P100-PCIE")]


CSV_HEADER = '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n'


def test_csv_units_stand_below_the_header(profile_of):
    profile = profile_of(
        f"==1== Profiling result:\n{CSV_HEADER},%,s,,us,us,ms,\n"
        '"GPU activities",90.0,0.5,10,50000,1,0.1,"void f<a, b>(int)"\n'
        '"GPU activities",10.0,0.1,3,50,1,0.1,"[CUDA memset]"\n'
        '"API calls",100.0,0.1,3,50,1,0.1,"cudaFree"\n'
    )
    assert rows(profile) == {"void f<a, b>(int)": (10, 500_000_000)}


def test_csv_before_cuda_9_has_units_in_values_and_names_with_bare_commas(profile_of):
    profile = profile_of(
        "==1== Profiling result:\nTime(%),Time,Calls,Avg,Min,Max,Name\n"
        "90.0,542.36ms,10,54.2ms,1ms,60ms,void f<float, int=4>(float*, int)\n"
        "10.0,1.5us,2,1us,1us,1us,g\n"
        "\n==1== API calls:\nTime(%),Time,Calls,Avg,Min,Max,Name\n99.0,1s,5,1ms,1ms,1ms,cudaMalloc\n"
    )
    assert rows(profile) == {"void f<float, int=4>(float*, int)": (10, 542_360_000), "g": (2, 1500)}


@pytest.mark.parametrize("unit", ["ms,ms", "us,us"])
def test_the_gpu_trace_as_csv(profile_of, unit):
    profile = profile_of(
        '==1== Profiling result:\n"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Device","Stream","Name",'
        f'"Correlation_ID"\n{unit},,,,,,,,\n1.0,2.5,,,,,"Tesla T4 (1)","7","[CUDA memcpy HtoD]",1\n'
        '2.0,1.5,40,1,1,128,"Tesla T4 (1)","7","void f(int, int)",2\n'
        '3.0,1.5,40,1,1,128,"Tesla T4 (1)","7","void f(int, int)",3\n'
    )
    (row,) = profile.kernels
    assert (row.name, row.count, row.device, row.stream) == ("void f(int, int)", 2, 1, 7)
    assert row.duration_ns == (3_000_000 if unit.startswith("ms") else 3000)
    assert [(gpu.index, gpu.name) for gpu in profile.gpus] == [(1, "Tesla T4")]


def metric_line(count, metric, lowest, highest, average):
    return f"{count:>11}{metric:>42}{'Function Unit Utilization':>34}{lowest:>12}{highest:>12}{average:>12}\n"


METRICS = (
    "==9== Profiling result:\n==9== Metric result:\n"
    "Invocations                               Metric Name                Metric Description         Min"
    "         Max         Avg\n"
    'Device "Tesla V100-SXM2-16GB (0)"\n'
    "    Kernel: volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn\n"
    + metric_line(10, "tensor_precision_fu_utilization", "Low (3)", "Max (10)", "Mid (5)")
    + metric_line(10, "half_precision_fu_utilization", "Low (2)", "Low (2)", "Low (2)")
    + "    Kernel: volta_sgemm_64x64_nt\n"
    + metric_line(4, "tensor_precision_fu_utilization", "Idle (0)", "Idle (0)", "Idle (0)")
)


def test_metrics_are_weighed_by_launch_and_levels_are_numbers(profile_of):
    profile = profile_of(METRICS)
    assert profile.weight is Weight.LAUNCHES
    assert {row.name: (row.count, row.duration_ns, row.device, row.counters) for row in profile.kernels} == {
        "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn": (
            10,
            None,
            0,
            {"tensor_precision_fu_utilization": 10.0},
        ),
        "volta_sgemm_64x64_nt": (4, None, 0, {"tensor_precision_fu_utilization": 0.0}),
    }


def test_metrics_as_csv_are_those_as_text(profile_of):
    profile = profile_of(
        '==9== Metric result:\n"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"Tesla V100-SXM2-16GB (0)","volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",10,'
        '"tensor_precision_fu_utilization","x","Low (3)","Max (10)","Mid (5)"\n'
        '"Tesla V100-SXM2-16GB (0)","volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_tn",10,'
        '"dram_read_throughput","x","1.5GB/s","658.738655MB/s","88.549673%"\n'
        '"Tesla V100-SXM2-16GB (0)","volta_sgemm_64x64_nt",4,"tensor_precision_fu_utilization","x","Idle (0)",'
        '"Idle (0)","Idle (0)"\n'
    )
    assert profile.kernels == profile_of(METRICS).kernels
    assert profile.format == "nvprof_csv"

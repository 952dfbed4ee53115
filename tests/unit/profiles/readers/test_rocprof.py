"""rocprofv3's JSON and tables of dispatches."""

from __future__ import annotations

import json

import pytest

SYMBOLS = [
    {"kernel_id": 1, "formatted_kernel_name": "Cijk_Alik_Bljk(int)", "demangled_kernel_name": "Cijk.kd"},
    {"kernel_id": 2, "formatted_kernel_name": "", "kernel_name": "_Z3addPf.kd"},
]
AGENTS = [
    {"id": {"handle": 70}, "type": 1, "name": "AMD EPYC", "node_id": 0},
    {"id": {"handle": 71}, "type": 2, "name": "gfx942", "product_name": "AMD Instinct MI300X", "node_id": 2},
]


def dispatch(kernel, start, end, *, agent=71, stream=5):
    return {
        "size": 184,
        "start_timestamp": start,
        "end_timestamp": end,
        "dispatch_info": {"agent_id": {"handle": agent}, "kernel_id": kernel, "grid_size": {"x": 1}},
        "stream_id": {"handle": stream},
    }


def document(dispatches, *, agents=AGENTS, symbols=SYMBOLS):
    tool = {
        "metadata": {"pid": 1},
        "agents": agents,
        "counters": [],
        "kernel_symbols": symbols,
        "buffer_records": {"kernel_dispatch": dispatches, "hip_api": [{"size": 1}], "memory_copy": []},
    }
    return json.dumps({"rocprofiler-sdk-tool": [tool]})


@pytest.mark.parametrize("indent", [None, 2])
def test_dispatches_refer_to_names_and_agents_by_id(profile_of, indent):
    text = document([dispatch(1, 100, 150), dispatch(1, 200, 260), dispatch(2, 300, 305, stream=6)])
    profile = profile_of(json.dumps(json.loads(text), indent=indent))
    assert [(k.name, k.count, k.duration_ns, k.device, k.stream) for k in profile.kernels] == [
        ("Cijk_Alik_Bljk(int)", 2, 110, 2, 5),
        ("_Z3addPf.kd", 1, 5, 2, 6),
    ]
    assert [(g.index, g.name, g.architecture, g.vendor) for g in profile.gpus] == [
        (2, "AMD Instinct MI300X", "gfx942", "amd")
    ]
    assert not profile.partial


def test_a_dispatch_of_an_unknown_kernel_has_no_name(profile_of):
    profile = profile_of(document([dispatch(99, 100, 150)]))
    assert [k.name for k in profile.kernels] == [""]
    assert profile.missing == ("the names of 1 kernel launches are not in the file",)


def test_a_file_cut_off_gives_the_dispatches_before_the_cut(profile_of):
    text = document([dispatch(1, 100 * n, 100 * n + 10) for n in range(50)])
    at = text.index('"start_timestamp": 3000')
    profile = profile_of(text[:at])
    assert [(k.count, k.duration_ns) for k in profile.kernels] == [(30, 300)]
    assert profile.missing == ("the file ends in the middle of its list of kernel dispatches",)


def test_a_file_cut_before_its_dispatches_has_no_kernels(profile_of):
    text = document([dispatch(1, 1, 2)])
    profile = profile_of(text[: text.index('"kernel_dispatch"')])
    assert profile.kernels == ()
    assert profile.missing == ("the file ends before its list of kernel dispatches",)


def test_a_run_without_a_kernel_trace_says_so(profile_of):
    assert "--kernel-trace" in profile_of(document([])).no_kernels_reason


def test_counters_of_a_table_are_those_about_matrix_cores(profile_of):
    profile = profile_of(
        "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,Kernel_Name,Wave_Size,Wave_Size_1,SQ_WAVES,SQ_INSTS_MFMA,"
        "SQ_INSTS_VALU_MFMA_BF16,Start_Timestamp,End_Timestamp\n"
        '0,7,1024,256,"void gemm<a, b>(float*, int) (.kd)",64,64,16,120.0,96.0,1000,1500\n'
        '1,7,512,256,"add(float*)",64,64,16,0.0,0.0,2000,2100\n'
        "2,7,512\n"
    )
    assert [(k.name, k.duration_ns, k.device, k.counters, k.threads_per_launch) for k in profile.kernels] == [
        (
            "void gemm<a, b>(float*, int) (.kd)",
            500,
            7,
            {"SQ_INSTS_MFMA": 120.0, "SQ_INSTS_VALU_MFMA_BF16": 96.0},
            1024,
        ),
        ("add(float*)", 100, 7, {"SQ_INSTS_MFMA": 0.0, "SQ_INSTS_VALU_MFMA_BF16": 0.0}, 512),
    ]
    assert profile.missing == ("1 rows of the table could not be read",)


def test_the_spelling_of_omniperf(profile_of):
    profile = profile_of(
        "Index,KernelName,gpu-id,queue-id,grd,wgp,SQ_INSTS_MFMA,BeginNs,EndNs\n"
        '0,"gemm(float*)",1,0,64,64,5,100,150\n1,"gemm(float*)",1,0,64,64,5,200,260\n'
    )
    assert [(k.name, k.count, k.duration_ns, k.device) for k in profile.kernels] == [
        ("gemm(float*)", 2, 110, 1)
    ]


def test_rocprofv3s_table_of_kernels(profile_of):
    profile = profile_of(
        '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
        '"Correlation_Id","Start_Timestamp","End_Timestamp"\n'
        '"KERNEL_DISPATCH","Agent 4",3,0,1,1,5,"void gemm<a, b>(int)",1,1000,1250\n'
    )
    assert [(k.name, k.duration_ns, k.device, k.stream) for k in profile.kernels] == [
        ("void gemm<a, b>(int)", 250, 4, 3)
    ]


def test_sums_per_kernel(profile_of):
    profile = profile_of(
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"void gemm<a, b>(int)",5,1000,200.0,80.0\n'
        '"add(float*) [clone .kd]",2,250,125.0,20.0\n"cut",3\n'
    )
    assert {k.name: (k.count, k.duration_ns) for k in profile.kernels} == {
        "void gemm<a, b>(int)": (5, 1000),
        "add(float*) [clone .kd]": (2, 250),
    }
    assert profile.missing == ("1 rows of the table could not be read",)


def test_a_table_with_a_row_per_counter_counts_each_dispatch_once(profile_of):
    header = (
        '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
        '"Kernel_Name","Workgroup_Size","Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
    )
    row = '1,{dispatch},"Agent 4",1,9,9,256,5,"gemm(float*)",64,"{counter}",{value},1000,1250\n'
    profile = profile_of(
        header
        + row.format(dispatch=1, counter="SQ_INSTS_VALU_MFMA_F16", value=12.0)
        + row.format(dispatch=1, counter="SQ_WAVES", value=4)
        + row.format(dispatch=2, counter="SQ_INSTS_VALU_MFMA_F16", value=12.0)
    )
    assert [(k.name, k.count, k.duration_ns, k.counters) for k in profile.kernels] == [
        ("gemm(float*)", 2, 500, {"SQ_INSTS_VALU_MFMA_F16": 12.0})
    ]
    assert [gpu.index for gpu in profile.gpus] == [4]

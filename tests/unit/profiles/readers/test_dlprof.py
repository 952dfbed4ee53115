"""DLProf's reports and database (version 1.8)."""

from __future__ import annotations

import sqlite3

from mixte.profiles import ProfilerStatement, read_profile


def test_the_kernel_report_says_itself_what_uses_tensor_cores(profile_of):
    profile = profile_of(
        "Kernel Report\n"
        "Kernel Name,Op ID,Op Name,Direction,Uses TC,Total GPU Time (ns),Avg GPU Time (ns)\n"
        '"volta_h884gemm_256x128_ldg8_nn","LINEAR_1","/net/linear::forward/linear",fprop,yes,1500,100.5\n'
        '"void f<a, b>(int)","RELU_1","/net/relu",fprop,no,500,100\n'
    )
    assert [(k.name, k.count, k.duration_ns, k.op, k.layer, k.statement) for k in profile.kernels] == [
        (
            "volta_h884gemm_256x128_ldg8_nn",
            None,
            1500,
            "linear",
            "net/linear::forward",
            ProfilerStatement(uses_tensor_cores=True),
        ),
        ("void f<a, b>(int)", None, 500, "relu", "net", ProfilerStatement(uses_tensor_cores=False)),
    ]


def test_the_iteration_report_has_long_names_types_and_a_row_per_launch(profile_of):
    header = (
        "Iteration,Kernel Name,Long Kernel Name,Op Name,Uses TC,GPU Start Time (ns),GPU Duration (ns),Data Types,"
        "Input Shapes,TC Eligible\n"
    )
    row = '1,gemm,"void gemm<__half, 4>(int)",net/fc,yes,{start},70,"half,half","[[64, 768], [768, 10]]",yes\n'
    profile = profile_of("Iteration Report\n" + header + row.format(start=5) + row.format(start=99))
    (kernel,) = profile.kernels
    assert (kernel.name, kernel.count, kernel.duration_ns) == ("void gemm<__half, 4>(int)", 2, 140)
    assert kernel.input_dtypes == ("float16", "float16")
    assert kernel.input_shapes == ((64, 768), (768, 10))
    assert kernel.statement == ProfilerStatement(uses_tensor_cores=True, eligible=True)


def test_stack_traces_may_hold_line_ends(profile_of):
    profile = profile_of(
        "Kernel Report\nKernel Name,Op Name,Stack Trace,Uses TC,Total GPU Time (ns)\n"
        '"gemm","fc","train.py:3\nmodel.py:9, in ""forward""",yes,70\n"add","add","",no,30\n'
    )
    assert [(k.name, k.duration_ns) for k in profile.kernels] == [("gemm", 70), ("add", 30)]


def test_the_tensor_core_report_splits_operators_without_naming_several_kernels_at_once(profile_of):
    profile = profile_of(
        "Tensor Core Report\n"
        "Op ID,Op Name,Op Type,Uses TC,Total GPU Time (ns),TC GPU Time (ns),Non-TC GPU Time (ns),TC Kernel Names,"
        "Non-TC Kernel Names\n"
        '"C1","/net/conv","conv2d",yes,100,70,30,"h884cudnn","nchwToNhwc, scudnn"\n'
        '"C2","/net/conv2","conv2d",no,50,0,50,"","scudnn"\n'
    )
    assert [(k.name, k.duration_ns, k.statement.uses_tensor_cores) for k in profile.kernels] == [
        ("h884cudnn", 70, True),
        ("scudnn", 50, False),
        ("", 30, False),
    ]
    assert all(kernel.statement.eligible for kernel in profile.kernels)
    assert profile.notes == (
        "the report lists operators eligible for Tensor Cores only: shares are of their time",
    )


def test_the_summary_gives_kernels_and_not_its_utilisation(profile_of):
    profile = profile_of(
        "System Config\nGPU Count,2\nGPU Name(s),Tesla V100-SXM2-16GB, Tesla V100-SXM2-16GB\n\n"
        "Summary Report\nTensor Core Kernel Utilization %,90.9\n\nAll Ops\n,GPU Time (ns),CPU Time (ns),# Ops\n"
        "All ops,1000,1,4\n\nAll Kernels\n,GPU Time (ns),CPU Time (ns),# Kernels\n"
        "All kernels,1000,1,5\nKernels using TC,400,1,2\nMemory,100,0,1\nAll other kernels,500,1,2\n"
    )
    assert {k.statement.uses_tensor_cores: (k.count, k.duration_ns) for k in profile.kernels} == {
        True: (None, 400),
        False: (None, 500),
    }
    assert [gpu.name for gpu in profile.gpus] == ["Tesla V100-SXM2-16GB"] * 2


def test_a_quote_that_never_closes_ends_the_report_with_a_word(profile_of):
    profile = profile_of(
        "Kernel Report\nKernel Name,Op Name,Uses TC,Total GPU Time (ns)\n"
        '"gemm","fc",yes,70\n"add,"fc",no,30\n' + "x" * 200_000 + "\n"
    )
    assert [k.name for k in profile.kernels] == ["gemm"]
    assert profile.missing == ("a line of the report is no CSV: what follows it was not read",)


def test_the_database(tmp_path):
    path = tmp_path / "dlprof_dldb.sqlite"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            """
            CREATE TABLE dictionary (id INTEGER PRIMARY KEY, string TEXT);
            INSERT INTO dictionary VALUES (1, 'gemm'), (2, 'void gemm<__half>(int)'), (3, 'Tesla V100'), (4, 'half'),
                                          (5, 'net/fc');
            CREATE TABLE read_only_kernels (name_id INT, long_name_id INT, uses_tc INT, gpu_start INT, gpu_stop INT,
                                            device_id INT, op_id INT);
            INSERT INTO read_only_kernels VALUES (1, 2, 1, 100, 150, 0, 9), (1, 2, 1, 200, 260, 0, 9),
                                                 (1, NULL, 0, 300, 310, 0, NULL);
            CREATE TABLE read_only_ops (id INT, op_name INT, data_type_id INT);
            INSERT INTO read_only_ops VALUES (9, 5, 4);
            CREATE TABLE op_nodes (op_id INT, tc_eligible INT, using_tc INT);
            INSERT INTO op_nodes VALUES (9, 1, 1);
            CREATE TABLE read_only_gpu_infos (device_id INT, name_id INT, compute_capability_major INT,
                                              compute_capability_minor INT);
            INSERT INTO read_only_gpu_infos VALUES (0, 3, 7, 0);
            """
        )
    connection.close()
    profile = read_profile(path)
    assert profile.format == "dlprof"
    assert [(k.name, k.count, k.duration_ns, k.op, k.input_dtypes, k.statement) for k in profile.kernels] == [
        (
            "void gemm<__half>(int)",
            2,
            110,
            "net/fc",
            ("float16",),
            ProfilerStatement(uses_tensor_cores=True, eligible=True),
        ),
        ("gemm", 1, 10, None, None, ProfilerStatement(uses_tensor_cores=False)),
    ]
    assert [(gpu.name, gpu.compute_capability) for gpu in profile.gpus] == [("Tesla V100", (7, 0))]

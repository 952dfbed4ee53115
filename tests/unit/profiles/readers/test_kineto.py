"""Kineto traces: what belongs to what, and the dialects of the years."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import Counter

import pytest

from mixte import ProfileError
from mixte.profiles import Weight, _limits, read_profile
from mixte.profiles.readers._kineto import tensor_inputs


def event(cat, name, ts, dur, *, tid=1, pid=10, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kernel(name, ts, dur, *, correlation, stream=7, device=0, **args):
    return event(
        "kernel",
        name,
        ts,
        dur,
        pid=device,
        tid=stream,
        device=device,
        stream=stream,
        correlation=correlation,
        **args,
    )


def launch(ts, *, correlation, external=None, name="cudaLaunchKernel", tid=1, cat="cuda_runtime"):
    ids = {} if external is None else {"External id": external}
    return event(cat, name, ts, 2, tid=tid, correlation=correlation, **ids)


@pytest.fixture
def trace(profile_of):
    def build(*events, **header):
        document = {"schemaVersion": 1, **header, "traceEvents": list(events)}
        return profile_of(json.dumps(document, indent=1))

    return build


def only(profile):
    (row,) = profile.kernels
    return row


def test_a_kernel_belongs_to_the_operator_whose_external_id_its_launch_carries(trace):
    row = only(
        trace(
            event("cpu_op", "aten::linear", 0, 100, **{"External id": 1}),
            event(
                "cpu_op",
                "aten::addmm",
                10,
                80,
                **{
                    "External id": 2,
                    "Input Dims": [[4], [8, 16], [16, 4], [], []],
                    "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", ""],
                },
            ),
            launch(20, correlation=5, external=2),
            kernel("gemm", 200, 3.5, correlation=5, **{"External id": 2}),
        )
    )
    assert (row.op, row.count, row.duration_ns) == ("aten::addmm", 1, 3500)
    assert row.input_shapes == ((4,), (8, 16), (16, 4))
    assert row.input_dtypes == ("bfloat16", "bfloat16", "bfloat16")


def test_an_external_id_that_meets_an_operator_at_another_time_is_an_accident(trace):
    row = only(
        trace(
            event("cpu_op", "aten::elsewhere", 500, 10, **{"External id": 5}),
            event("cpu_op", "aten::mm", 0, 100, **{"External id": 1}),
            launch(20, correlation=5, external=5),
            kernel("gemm", 200, 3, correlation=5, **{"External id": 5}),
        )
    )
    assert row.op == "aten::mm"


def test_operators_of_another_thread_are_not_taken(trace):
    row = only(
        trace(
            event("cpu_op", "aten::mm", 0, 100, tid=2),
            launch(20, correlation=5, tid=1),
            kernel("gemm", 200, 3, correlation=5),
        )
    )
    assert row.op is None


def test_the_driver_call_inside_a_runtime_call_launches_too(trace):
    row = only(
        trace(
            event("cpu_op", "aten::mm", 0, 100),
            launch(20, correlation=6, name="cuLaunchKernel", cat="cuda_driver"),
            kernel("gemm", 200, 3, correlation=6),
        )
    )
    assert row.op == "aten::mm"


def test_kernels_of_a_cuda_graph_have_no_operator_but_a_step(trace):
    profile = trace(
        event("user_annotation", "ProfilerStep#3", 0, 1000),
        event("cpu_op", "aten::add", 5, 100),
        launch(20, correlation=5, name="cudaGraphLaunch"),
        *(kernel("gemm", 200 + number, 2, correlation=5) for number in range(4)),
    )
    row = only(profile)
    assert (row.op, row.step, row.count) == (None, 3, 4)
    assert any("graph" in note for note in profile.notes)


def test_a_kernel_without_a_launch_trusts_its_external_id_where_the_others_prove_right(trace):
    operators = [event("cpu_op", f"aten::op{n}", 100 * n, 50, **{"External id": n}) for n in range(12)]
    launches = [launch(100 * n + 10, correlation=n, external=n) for n in range(11)]
    kernels = [kernel(f"k{n}", 100 * n + 20, 1, correlation=n, **{"External id": n}) for n in range(12)]
    profile = trace(*operators, *launches, *kernels)
    assert {row.name: row.op for row in profile.kernels} == {f"k{n}": f"aten::op{n}" for n in range(12)}
    assert profile.notes == ("1 of 12 kernels were launched outside the recorded window",)


def test_a_kernel_without_a_launch_distrusts_external_ids_that_repeat_the_correlation(trace):
    operators = [event("cpu_op", f"aten::op{n}", 1000 - 50 * n, 40, **{"External id": n}) for n in range(12)]
    launches = [launch(2000 + n, correlation=n, external=n) for n in range(11)]
    kernels = [kernel(f"k{n}", 3000 + n, 1, correlation=n, **{"External id": n}) for n in range(12)]
    assert {row.op for row in trace(*operators, *launches, *kernels).kernels} == {None}


def test_a_step_is_found_from_any_thread_and_from_the_gpus_track_without_a_launch(trace):
    profile = trace(
        event("user_annotation", "ProfilerStep#7", 0, 100),
        event("user_annotation", "ProfilerStep#8", 100, 100),
        event("gpu_user_annotation", "ProfilerStep#7", 300, 50, pid=0, tid=7),
        launch(150, correlation=1, tid=99),
        kernel("a", 400, 1, correlation=1),
        kernel("b", 320, 1, correlation=2),
        kernel("c", 360, 1, correlation=3),
    )
    assert {row.name: row.step for row in profile.kernels} == {"a": 8, "b": 7, "c": None}
    assert profile.steps == (7, 8)


def test_a_layer_is_the_path_of_modules(trace):
    row = only(
        trace(
            event("python_function", "nn.Module: Model_0", 0, 100),
            event("python_function", "nn.Module: Linear_1", 10, 50),
            event("python_function", "torch/nn/functional.py(10): linear", 12, 40),
            event("user_annotation", "forward", 0, 100),
            event("cpu_op", "aten::mm", 15, 30),
            launch(20, correlation=5),
            kernel("gemm", 200, 3, correlation=5),
        )
    )
    assert row.layer == "Model_0/Linear_1"


def test_a_layer_is_the_path_of_the_users_ranges_where_modules_are_not_recorded(trace):
    row = only(
        trace(
            event("user_annotation", "forward", 0, 100),
            event("user_annotation", "block", 10, 50),
            launch(20, correlation=5),
            kernel("gemm", 200, 3, correlation=5),
        )
    )
    assert row.layer == "forward/block"


def test_a_backward_operator_belongs_to_the_layer_of_its_forward_operator(trace):
    backward = {"Sequence number": 41, "Fwd thread id": 1, "External id": 3}
    profile = trace(
        event("python_function", "nn.Module: Model_0", 0, 100),
        event("python_function", "nn.Module: Linear_1", 10, 50),
        # Both have the number at which the node is made; the one that makes it begins last.
        event("cpu_op", "aten::linear", 12, 40, **{"Sequence number": 41, "External id": 1}),
        event("cpu_op", "aten::addmm", 15, 30, **{"Sequence number": 41, "External id": 2}),
        event("cpu_op", "AddmmBackward0", 210, 50, tid=2, **backward),
        event("cpu_op", "aten::mm", 220, 20, tid=2, **{"External id": 4}),
        launch(225, correlation=5, external=4, tid=2),
        kernel("gemm", 300, 3, correlation=5),
    )
    assert (only(profile).op, only(profile).layer) == ("aten::mm", "Model_0/Linear_1")


def test_launches_that_agree_in_everything_are_one_row(trace):
    profile = trace(
        event(
            "cpu_op", "aten::mm", 0, 1000, **{"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}
        ),
        *(launch(10 + n, correlation=n) for n in range(50)),
        *(kernel("gemm", 2000 + n, 0.001 * n, correlation=n, stream=n % 2) for n in range(50)),
    )
    assert [(row.stream, row.count) for row in profile.kernels] == [(1, 25), (0, 25)]
    assert profile.gpu_time_ns == sum(range(50))


def test_copies_annotations_and_overhead_are_no_kernels(trace):
    profile = trace(
        event("gpu_memcpy", "Memcpy HtoD", 0, 10),
        event("gpu_memset", "Memset", 0, 10),
        event("gpu_user_annotation", "forward", 0, 10),
        event("overhead", "Activity Buffer Request", 0, 10),
        event("cuda_sync", "Stream Synchronize", 0, 10),
    )
    assert profile.kernels == ()
    assert profile.no_kernels_reason == "the GPU did nothing but copy and set memory"


def test_runtime_calls_without_kernels_are_explained(trace):
    profile = trace(launch(1, correlation=1))
    assert "record ProfilerActivity.CUDA" in profile.no_kernels_reason


def test_the_layout_of_2021(profile_of):
    """Capitalised categories, ids in lower case, threads as text, whole microseconds, a bare list of events."""
    events = [
        event("Operator", "ProfilerStep#5", 0, 100, tid="25"),
        event(
            "Operator", "aten::conv2d", 1, 90, tid="25", **{"External id": 544, "Input Dims": [[1, 3], [3, 3]]}
        ),
        {
            **event("Runtime", "cudaLaunchKernel", 5, 2, tid=25),
            "args": {"correlation": 9, "external id": 544, "external ts": 1},
        },
        {
            **event("Kernel", "conv_kernel", 200, 12, pid=1, tid="stream 7"),
            "args": {"device": 1, "stream": 7, "correlation": 9, "external id": 544},
        },
        event("Memcpy", "Memcpy HtoD", 1, 1),
    ]
    profile = profile_of(json.dumps(events))
    row = only(profile)
    assert (row.name, row.op, row.step, row.device, row.stream) == ("conv_kernel", "aten::conv2d", 5, 1, 7)
    assert (row.input_shapes, row.input_dtypes) == (((1, 3), (3, 3)), None)
    assert profile.steps == (5,)


def test_device_and_stream_come_from_the_track_where_arguments_lack_them(trace):
    row = only(trace({**event("kernel", "k", 0, 1, pid=2, tid="stream 13"), "args": {}}))
    assert (row.device, row.stream) == (2, 13)


def test_times_and_identifiers_written_as_text_are_read(trace):
    row = only(
        trace(
            event("cpu_op", "aten::mm", "0", "100"),
            launch("20.5", correlation="5"),
            kernel("gemm", "200.25", "3.125", correlation="5"),
        )
    )
    assert (row.op, row.duration_ns) == ("aten::mm", 3125)


def test_a_negative_duration_is_counted_as_missing(trace):
    profile = trace(kernel("a", 0, -5, correlation=1), kernel("b", 0, 5, correlation=2))
    assert [row.name for row in profile.kernels] == ["b"]
    assert profile.missing == ("1 kernel launches have a duration that is no time",)


def test_cupti_ranges_are_weighed_by_launch_and_keep_their_counters(trace):
    metric = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    profile = trace(
        event("cuda_profiler_range", "sgemm", 0, 121, **{metric: 12.0, "dram__bytes.sum": 5}),
        event("cuda_profiler_range", "__missing__", 0, 121, **{metric: 0}),
    )
    assert profile.weight is Weight.LAUNCHES
    assert {row.name: (row.count, row.duration_ns, row.counters) for row in profile.kernels} == {
        "sgemm": (1, None, {metric: 12.0}),
        "": (1, None, {metric: 0.0}),
    }


@pytest.mark.parametrize(
    ("header", "vendor"),
    [
        ({"hip_runtime_version": 70226015}, "amd"),
        ({"roctracer_version": 4.1}, "amd"),
        ({"cuda_runtime_version": 12040}, "nvidia"),
        (
            {
                "deviceProperties": [
                    {"id": 0, "name": "AMD Instinct MI250", "computeMajor": 9, "computeMinor": 0}
                ]
            },
            "amd",
        ),
        ({"deviceProperties": [{"id": 0, "name": "Tesla T4", "computeMajor": 7, "computeMinor": 5}]}, "nvidia"),
    ],
)
def test_the_vendor_is_told_because_amd_writes_its_architecture_as_a_compute_capability(trace, header, vendor):
    devices = header.get("deviceProperties", [{"id": 0, "name": "", "computeMajor": 9, "computeMinor": 4}])
    profile = trace(kernel("k", 0, 1, correlation=1), **(header | {"deviceProperties": devices}))
    assert [gpu.vendor for gpu in profile.gpus] == [vendor]


def test_the_rank_and_the_devices_are_read_behind_the_events_too(profile_of):
    text = json.dumps(
        {
            "metadata": {"profiler": {"wait": 1}},
            "traceEvents": [kernel("k", 0, 1, correlation=1)],
            "schemaVersion": 1,
            "distributedInfo": {"rank": 3, "world_size": 8},
            "deviceProperties": [{"id": 4, "name": "NVIDIA H100", "computeMajor": 9, "computeMinor": 0}],
        }
    )
    profile = profile_of(text)
    assert profile.rank == 3
    assert [(gpu.index, gpu.name, gpu.compute_capability) for gpu in profile.gpus] == [
        (4, "NVIDIA H100", (9, 0))
    ]


@pytest.mark.parametrize(
    ("shapes", "dtypes", "expected"),
    [
        (
            b"[[64, 768], [768], [], []]",
            b'["c10::Half", "float", "Scalar", ""]',
            (((64, 768), (768,)), ("float16", "float32")),
        ),
        (b"[[], [2]]", b'["float", "long int"]', (((), (2,)), ("float32", "int64"))),
        (
            b"[[[2, 3], [4, 5]], [6]]",
            b'["TensorList", "double"]',
            (((2, 3), (4, 5), (6,)), (None, None, "float64")),
        ),
        (b"[[2, 3]]", b"", (((2, 3),), None)),
        (b"", b"", (None, None)),
        (b"[[], []]", b'["Scalar", ""]', (None, None)),
        (b'[["a"], 5, null]', b'["float", "float", "float"]', (None, None)),
        (b"{}", b"[", (None, None)),
    ],
)
def test_only_tensors_are_inputs(shapes, dtypes, expected):
    assert tensor_inputs(shapes, dtypes) == expected


def test_a_trace_cut_off_gives_the_kernels_before_the_cut_and_says_so(shared, tmp_path):
    whole = gzip.decompress((shared / "data/profiles/kineto/a100_resnet_ddp_tf32.json.gz").read_bytes())
    for share in (0.3, 0.6, 0.9):
        cut = whole[: int(len(whole) * share)]
        path = tmp_path / "cut.json"
        path.write_bytes(cut)
        profile = read_profile(path)
        assert sum(row.count for row in profile.kernels) == pytest.approx(cut.count(b'"cat": "kernel"'), abs=1)
        assert profile.missing == ("the file ends in the middle of its list of events",)


def test_a_trace_cut_off_before_its_first_kernel_does_not_claim_to_know_why(profile_of):
    text = json.dumps(
        {"schemaVersion": 1, "traceEvents": [event("cpu_op", "aten::mm", 0, 9), event("cpu_op", "b", 1, 1)]}
    )
    profile = profile_of(text[:-30])
    assert profile.no_kernels_reason == "the part of the file that could be read holds none"
    assert profile.partial


def test_kernels_beyond_the_limit_are_summed_without_their_operators(trace, monkeypatch):
    monkeypatch.setattr(_limits, "MAX_LINKED_RANGES", 3)
    profile = trace(
        event("cpu_op", "aten::mm", 0, 1000),
        *(launch(10 + n, correlation=n) for n in range(3)),
        *(kernel("gemm", 2000 + n, 1, correlation=n) for n in range(8)),
    )
    assert {row.op: row.count for row in profile.kernels} == {"aten::mm": 3, None: 5}
    assert profile.gpu_time_ns == 8000
    assert any("first 3 kernels and operators" in note for note in profile.notes)


def test_a_trace_of_nothing_but_different_names_is_refused(trace, monkeypatch):
    monkeypatch.setattr(_limits, "MAX_NAME_BYTES", 1000)
    trace(*(kernel("gemm" * 30, n, 1, correlation=n) for n in range(100)))  # one name, many times, is fine
    with pytest.raises(ProfileError, match="different names and shapes"):
        trace(*(kernel(f"gemm {n} " * 10, n, 1, correlation=n) for n in range(100)))


@pytest.mark.parametrize("name", ["v100_dlrm_fp32.json", "h100_vit_bf16.json.gz", "mi250_minitoy_fp32.json.gz"])
def test_operators_are_those_that_a_search_through_all_of_them_finds(shared, name):
    path = shared / "data/profiles/kineto" / name
    data = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
    events = json.loads(data)["traceEvents"]
    operators = [event for event in events if event.get("cat") == "cpu_op"]
    calls = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in {"cuda_runtime", "cuda_driver"} and "correlation" in event.get("args", {})
    }
    expected: Counter[tuple[str, str | None]] = Counter()
    for event in events:
        if event.get("cat") == "kernel":
            call = calls[event["args"]["correlation"]]
            around = [
                operator
                for operator in operators
                if operator["tid"] == call["tid"]
                and operator["ts"] <= call["ts"] <= operator["ts"] + operator["dur"]
            ]
            innermost = max(around, key=lambda operator: (operator["ts"], -operator["dur"]), default=None)
            expected[event["name"].strip(), innermost and innermost["name"]] += 1
    found: Counter[tuple[str, str | None]] = Counter()
    for row in read_profile(path).kernels:
        found[row.name, row.op] += row.count
    assert found == expected


def test_memory_grows_slower_than_the_file(shared, tmp_path):
    """Events are read in windows; of each only what links kernels to operators is kept, as columns."""
    document = json.loads(
        gzip.decompress((shared / "data/profiles/kineto/a100_resnet_ddp_tf32.json.gz").read_bytes())
    )
    events = document["traceEvents"]
    sizes, peaks = [], []
    for times in (1, 3):
        path = tmp_path / f"{times}.json"
        path.write_text(json.dumps({**document, "traceEvents": events * times}), encoding="utf-8")
        sizes.append(path.stat().st_size)
        tracemalloc.start()
        try:
            profile = read_profile(path)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert sum(row.count for row in profile.kernels) == 2700 * times
    # Measured: 0.4 bytes for a byte of the file. Decoding all of it takes 2.5, a DataFrame of it more.
    assert peaks[1] - peaks[0] < 0.7 * (sizes[1] - sizes[0])

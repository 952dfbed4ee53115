"""What the CPU did: which operations are matrix work, and the time that each took itself."""

from __future__ import annotations

import gzip
import json

import pytest

from mixte._errors import ProfileError
from mixte.profiles._cpu_work import (
    CpuOperation,
    Work,
    graph_work,
    read_cpu_operations,
    time_by_work,
    torch_work,
)

from .test_xplane import add_plane


@pytest.mark.parametrize(
    "name",
    [
        "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv_", "aten::dot", "aten::linear",
        "aten::_scaled_mm", "aten::_int_mm", "aten::conv2d", "aten::convolution", "aten::_convolution",
        "aten::convolution_backward", "aten::mkldnn_convolution", "aten::thnn_conv2d", "aten::_slow_conv2d_forward",
        "aten::_conv_depthwise2d", "aten::mkldnn_linear", "mkldnn::_linear_pointwise", "mkl::_mkl_linear",
        "aten::_scaled_dot_product_flash_attention_for_cpu", "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    ],
)  # fmt: skip
def test_products_convolutions_and_attention_of_pytorch_are_matrix_work(name: str) -> None:
    assert torch_work(name) is Work.MATRIX


@pytest.mark.parametrize(
    "name",
    [
        "aten::add_", "aten::upsample_bilinear2d", "aten::upsample_linear1d", "aten::_convert_indices_from_coo_to_csr",
        "aten::native_layer_norm", "aten::embedding", "aten::comm", "MmBackward0", "aten::conj",
        "autograd::engine::evaluate_function: ConvolutionBackward0",
    ],
)  # fmt: skip
def test_other_operators_of_pytorch_are_not(name: str) -> None:
    assert torch_work(name) is Work.OTHER


@pytest.mark.parametrize(
    ("op", "work"),
    [
        ("MatMul", Work.MATRIX),
        ("BatchMatMulV2", Work.MATRIX),
        ("_MklNativeFusedMatMul", Work.MATRIX),
        ("_FusedConv2D", Work.MATRIX),
        ("_MklNativeConv2DBackpropFilterWithBias", Work.MATRIX),
        ("DepthwiseConv2dNative", Work.MATRIX),
        ("Einsum", Work.MATRIX),
        ("dot_general", Work.MATRIX),
        ("conv_general_dilated", Work.MATRIX),
        ("AddV2", Work.OTHER),
        ("MatrixDiagV3", Work.OTHER),
        ("convert_element_type", Work.OTHER),
    ],
)
def test_operations_of_tensorflow_and_jax(op: str, work: Work) -> None:
    assert graph_work(op) is work


def test_an_operator_of_a_kineto_trace_has_its_own_time_and_a_backward_one_the_layer_of_its_forward_one(
    tmp_path,
):
    def event(category, name, ts, dur, **arguments):
        place = {"pid": 1, "tid": 1, "ts": ts, "dur": dur}
        return {"ph": "X", "cat": category, "name": name, "args": arguments, **place}

    path = tmp_path / "trace.json"
    events = [
        event("user_annotation", "ProfilerStep#3", 0, 1000),
        event("user_annotation", "keras.Layer: model", 10, 200),
        event("user_annotation", "keras.Layer: dense", 20, 150),
        event("cpu_op", "aten::matmul", 30, 100, **{"Sequence number": 7}),
        event("cpu_op", "aten::mm", 40, 80),
        event("cpu_op", "aten::add", 140, 20),
        event("cpu_op", "MmBackward0", 400, 60, **{"Sequence number": 7, "Fwd thread id": 1}),
        event("cpu_op", "aten::mm", 410, 40),
        event("cpu_op", "aten::sqrt_", 600, 5),
        event("cpu_op", "aten::mm", 2000, 50),  # in no step
    ]
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert set(read_cpu_operations(path)) == {
        CpuOperation(op="aten::mm", scope="model/dense", work=Work.MATRIX, count=2, duration_ns=120_000),
        CpuOperation(op="aten::matmul", scope="model/dense", work=Work.MATRIX, count=1, duration_ns=20_000),
        CpuOperation(op="aten::add", scope="model/dense", work=Work.OTHER, count=1, duration_ns=20_000),
        CpuOperation(op="MmBackward0", scope="model/dense", work=Work.OTHER, count=1, duration_ns=20_000),
        CpuOperation(op="aten::sqrt_", scope=None, work=Work.OTHER, count=1, duration_ns=5_000),
    }


def test_the_threads_of_an_xplane_file_hold_what_tensorflow_and_xla_executed(tmp_path, xplane_pb2):
    message = xplane_pb2.XSpace()
    compiled = {"hlo_op": "dot.5", "hlo_module": "not in the file"}
    threads = {
        "tf_Compute/1": [
            ("ExecutorState::Process", 0, 900, {}),
            ("model/dense/MatMul:_MklMatMul", 10, 100, {}),
            ("model/call:StatefulPartitionedCall", 200, 500, {}),
            ("model/dense/Relu:Relu", 210, 30, {}),
            ("model/dense/MatMul:_MklMatMul", 950, 100, {}),  # in no step
        ],
        "tf_XLAEigen/1": [("dot.5", 0, 40, compiled), ("end: dot.5", 40, 1, {})],
        "python": [
            ("train", 0, 900, {"step_num": 3}),
            ("EagerLocalExecute: Mul", 0, 7, {}),
            ("EagerLocalExecute: __inference_step_17", 10, 700, {}),
        ],
        "tf_data_private_threadpool/1": [("GatherV2:GatherV2", 0, 50, {})],
    }
    add_plane(message.planes.add(name="/host:CPU"), {"lines": threads})
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(message.SerializeToString())
    assert set(read_cpu_operations(path)) == {
        CpuOperation(op="_MklMatMul", scope="model/dense", work=Work.MATRIX, count=1, duration_ns=100),
        CpuOperation(op="Relu", scope="model/dense", work=Work.OTHER, count=1, duration_ns=30),
        CpuOperation(op="dot.5", scope=None, work=Work.MATRIX, count=1, duration_ns=40),
        CpuOperation(op="Mul", scope=None, work=Work.OTHER, count=1, duration_ns=7),
    }


def test_a_real_trace_of_operators_alone_adds_up_to_the_time_of_the_outermost_ones(shared, tmp_path):
    # What operators took themselves adds up to the durations of those that lie in no other, each thread apart.
    with gzip.open(shared / "data/profiles/kineto/a100_cpu_ops_only.json.gz") as file:
        trace = json.load(file)
    events = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    path = tmp_path / "trace.json"  # without the marks of steps, which leave some operators out
    path.write_text(json.dumps(trace | {"traceEvents": events}))
    outermost_us = 0.0
    ends: dict[object, float] = {}
    for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
        if event["ts"] >= ends.get(event["tid"], 0.0):
            outermost_us += event["dur"]
            ends[event["tid"]] = event["ts"] + event["dur"]
    times_ns = time_by_work(read_cpu_operations(path))
    # Sums are rounded to a nanosecond for each of the operations.
    assert sum(times_ns.values()) == pytest.approx(outermost_us * 1000, abs=len(events))
    assert times_ns[Work.MATRIX] > 0


def test_a_file_that_does_not_tell_is_refused_with_what_does(tmp_path):
    path = tmp_path / "nvprof.txt"
    path.write_text("==17== NVPROF is profiling process 17\n==17== Profiling result:\n")
    with pytest.raises(ProfileError, match="does not tell what the CPU did"):
        read_cpu_operations(path)

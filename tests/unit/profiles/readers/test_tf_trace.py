"""TensorBoard's traces of TensorFlow and JAX. Layout: openxla/xprof, convert/trace_events_json.py."""

from __future__ import annotations

import gzip
import json

import pytest

from mixte.profiles.readers import _tf_trace


def named(kind, name, pid, tid=None):
    thread = {} if tid is None else {"tid": tid}
    return {"ph": "M", "name": f"{kind}_name", "pid": pid, "args": {"name": name}, **thread}


def event(name, tid, ts, dur, pid=1, **args):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


LINES = [
    named("process", "/device:GPU:3 (pid 1)", 1),
    named("thread", "Stream #13(Kernel,MemcpyD2D)", 1, 13),
    named("thread", "XLA Ops", 1, 20),
    named("thread", "Steps", 1, 22),
    named("process", "/host:CPU", 7),
    named("thread", "Stream #9", 7, 9),
]


@pytest.fixture
def trace(profile_of):
    def build(*events, lines=LINES):
        document = {
            "displayTimeUnit": "ns",
            "metadata": {"highres-ticks": True},
            "traceEvents": [*lines, *events, {}],
        }
        return profile_of(gzip.compress(json.dumps(document).encode()))

    return build


def test_kernels_stand_on_streams_of_gpus_only(trace):
    profile = trace(
        event("gemm", 13, 100, 10.5, hlo_op="dot.1"),
        event("gemm", 13, 200, 0.25, hlo_op="dot.1"),
        event("MemcpyD2D", 13, 300, 5),
        event("Memset", 13, 300, 5),
        event("dot.1", 20, 100, 10.5),
        event("7", 22, 90, 50),
        event("gemm", 9, 100, 10, pid=7),
        {"ph": "i", "name": "gemm", "pid": 1, "tid": 13, "ts": 5},
    )
    assert [(k.name, k.count, k.duration_ns, k.device, k.stream, k.op) for k in profile.kernels] == [
        ("gemm", 1, 10_500, 3, 13, "dot.1"),
        ("gemm", 1, 250, 3, 13, "dot.1"),
    ]
    assert [kernel.step for kernel in profile.kernels] == [7, None]
    assert profile.steps == (7,)
    assert [gpu.index for gpu in profile.gpus] == [3]
    assert not profile.partial


def test_names_of_lines_may_follow_their_events(trace):
    profile = trace(event("gemm", 13, 100, 10), *LINES, lines=[named("process", "/host:CPU", 99)])
    assert [(k.name, k.device, k.stream) for k in profile.kernels] == [("gemm", 3, 13)]


@pytest.mark.parametrize(
    ("args", "op", "layer"),
    [
        ({"tf_op": "model/dense/MatMul:MatMul"}, "MatMul", "model/dense"),
        ({"name": "jit(f)/jvp(bsd,de->bse)/dot_general"}, "dot_general", "jit(f)/jvp(bsd,de->bse)"),
        ({"tf_op": "XlaModule:", "hlo_op": "fusion.3"}, "fusion.3", None),
        ({"tf_op": "jit(f)/dot_general:"}, "dot_general", "jit(f)"),
        ({"name": "jit(f)", "hlo_op": "fusion.3"}, "fusion.3", "jit(f)"),
        ({}, None, None),
    ],
)
def test_operator_and_layer_come_from_the_names_of_the_framework(trace, args, op, layer):
    (row,) = trace(event("gemm", 13, 100, 10) | {"args": args}).kernels
    assert (row.op, row.layer) == (op, layer)


def test_a_tpu_is_refused_with_the_reason(trace):
    profile = trace(lines=[named("process", "/device:TPU:0", 1), named("thread", "XLA Ops", 1, 2)])
    assert profile.kernels == ()
    assert "TPU" in profile.no_kernels_reason


def test_a_trace_of_the_host_says_so(trace):
    assert "holds no GPU" in trace(lines=LINES[4:]).no_kernels_reason


def test_a_trace_as_long_as_the_viewers_cap_is_partial(trace, monkeypatch):
    monkeypatch.setattr(_tf_trace, "_EVENT_CAP", 10)
    profile = trace(*(event("gemm", 13, 100 + n, 1) for n in range(5)))
    assert profile.missing == (
        "the trace viewer keeps a million events and drops the rest: read the .xplane.pb",
    )

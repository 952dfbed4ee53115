"""XPlane files written with TensorFlow's own messages, and HLO modules written by XLA."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mixte.profiles import read_profile
from mixte.profiles.readers._wire import encoded_varint


@pytest.fixture
def space(xplane_pb2, profile_of):
    """Builds an XSpace from planes written as dictionaries, and reads it."""

    def build(*planes, errors=(), warnings=(), cut=None):
        message = xplane_pb2.XSpace(errors=errors, warnings=warnings)
        for described in planes:
            add_plane(message.planes.add(name=described["name"]), described)
        data = message.SerializeToString()
        return profile_of(data[:cut] if cut else data)

    return build


def stat_id(plane, name):
    for key, metadata in plane.stat_metadata.items():
        if metadata.name == name:
            return key
    key = len(plane.stat_metadata) + 1
    plane.stat_metadata[key].id, plane.stat_metadata[key].name = key, name
    return key


def set_stats(plane, holder, stats):
    for name, value in stats.items():
        stat = holder.stats.add(metadata_id=stat_id(plane, name))
        if isinstance(value, bytes):
            stat.bytes_value = value
        elif isinstance(value, int):
            stat.int64_value = value
        elif name == "hlo_op":  # XLA stores repeated names as references
            stat.ref_value = stat_id(plane, value)
        else:
            stat.str_value = value


def add_plane(plane, described):
    set_stats(plane, plane, described.get("stats", {}))
    names = {}
    for name, stats in described.get("metadata", {}).items():
        names[name] = len(names) + 1
        plane.event_metadata[names[name]].name = name
        set_stats(plane, plane.event_metadata[names[name]], stats)
    for line_name, events in described.get("lines", {}).items():
        line = plane.lines.add(name=line_name, timestamp_ns=1000)
        for name, offset_ns, duration_ns, stats in events:
            key = names.setdefault(name, len(names) + 1)
            plane.event_metadata[key].name = name
            event = line.events.add(
                metadata_id=key, offset_ps=offset_ns * 1000, duration_ps=round(duration_ns * 1000)
            )
            set_stats(plane, event, stats)


def gpu(lines, index=0, **stats):
    return {"name": f"/device:GPU:{index}", "lines": lines, "stats": stats}


def test_kernels_stand_on_streams_and_derived_lines_are_left_out(space):
    profile = space(
        gpu(
            {
                "Stream #7(Kernel)": [("gemm", 0, 10.5, {}), ("gemm", 50, 1.5, {}), ("add", 80, 2, {})],
                "Stream #9(MemcpyH2D)": [("MemcpyH2D", 0, 99, {})],
                "Stream #11(Kernel,MemcpyD2D)": [("MemcpyD2D", 0, 99, {}), ("gemm", 5, 3, {})],
                "XLA Ops": [("dot.1", 0, 10, {})],
                "XLA Modules": [("jit_f", 0, 100, {})],
                "TensorFlow Name Scope": [("dense", 0, 100, {})],
            },
            compute_cap_major=8,
            device_vendor="Nvidia",
            core_count=108,
        )
    )
    assert {(k.name, k.stream): (k.count, k.duration_ns) for k in profile.kernels} == {
        ("gemm", 7): (2, 12),
        ("add", 7): (1, 2),
        ("gemm", 11): (1, 3),
    }
    (described,) = profile.gpus
    # A minor version of 0 is not stored.
    assert (described.compute_capability, described.vendor) == ((8, 0), "nvidia")


def test_rows_are_rounded_once_after_adding_up(space):
    profile = space(gpu({"Stream #7": [("gemm", n, 0.4, {}) for n in range(10)]}))
    assert profile.gpu_time_ns == 4


def test_operators_are_read_from_statistics_of_events_and_of_their_metadata(space):
    plane = gpu(
        {
            "Stream #7": [
                ("gemm", 0, 5, {"correlation_id": 1}),
                ("conv", 9, 5, {"tf_op": "net/conv/Conv2D:Conv2D"}),
            ]
        }
    )
    plane["metadata"] = {"gemm": {"tf_op": "net/dense/MatMul:MatMul"}}
    profile = space(plane)
    assert {k.name: (k.op, k.layer) for k in profile.kernels} == {
        "gemm": ("MatMul", "net/dense"),
        "conv": ("Conv2D", "net/conv"),
    }


def test_events_that_differ_in_their_correlation_only_are_one_row(space):
    for first in (True, False):
        events = [
            (
                "gemm",
                n,
                2,
                {"correlation_id": n, "hlo_op": "dot.1"} if first else {"hlo_op": "dot.1", "correlation_id": n},
            )
            for n in range(300)
        ]
        (row,) = space(gpu({"Stream #7": events})).kernels
        assert (row.count, row.duration_ns, row.op) == (300, 600, "dot.1")


def test_steps_of_the_devices_own_line(space):
    profile = space(
        gpu(
            {
                "Stream #7": [("gemm", 5, 2, {}), ("gemm", 25, 2, {}), ("gemm", 45, 2, {})],
                "Steps": [("3", 0, 10, {}), ("4", 20, 10, {})],
            }
        )
    )
    assert sorted((k.step or 0, k.count) for k in profile.kernels) == [(0, 1), (3, 1), (4, 1)]
    assert profile.steps == (3, 4)


def test_steps_that_the_host_marked_are_found_through_the_launch(space):
    host = {
        "name": "/host:CPU",
        "lines": {
            "main": [("train", 0, 100, {"step_num": 12}), ("train", 200, 100, {"step_num": 13})],
            "launcher": [
                ("cuLaunchKernel", 50, 1, {"correlation_id": 5}),
                ("cuLaunchKernel", 250, 1, {"correlation_id": 6}),
                ("cuLaunchKernel", 150, 1, {"correlation_id": 7}),
            ],
        },
    }
    device = gpu({"Stream #7": [("gemm", 900 + n, 2, {"correlation_id": n}) for n in (5, 6, 7, 8)]})
    profile = space(device, host)
    assert sorted((k.step or 0, k.count) for k in profile.kernels) == [(0, 2), (12, 1), (13, 1)]
    assert profile.steps == (12, 13)


def test_events_that_stand_for_several_count_so(xplane_pb2, profile_of):
    message = xplane_pb2.XSpace()
    plane = message.planes.add(name="/device:GPU:0")
    plane.event_metadata[1].name = "gemm"
    plane.lines.add(name="Stream #7").events.add(metadata_id=1, num_occurrences=12, duration_ps=24_000)
    (row,) = profile_of(message.SerializeToString()).kernels
    assert (row.count, row.duration_ns) == (12, 24)


def test_a_tpu_is_refused_with_the_reason(space):
    profile = space({"name": "/device:TPU:0", "lines": {"XLA Ops": [("fusion", 0, 5, {})]}})
    assert "TPU" in profile.no_kernels_reason


def test_errors_of_the_profiler_are_missing_and_its_warnings_are_notes(space):
    profile = space(gpu({}), errors=["CUPTI\nfailed", "CUPTI\nfailed"], warnings=["slow"])
    assert profile.missing == ("the profiler reported an error: CUPTI failed",)
    assert profile.notes == ("the profiler warned: slow",)


def test_a_file_cut_off_gives_the_planes_before_the_cut(space):
    first = gpu({"Stream #7": [("gemm", 0, 5, {})]}, index=0)
    second = gpu({"Stream #7": [("gemm", 0, 5, {})] * 50}, index=1)
    profile = space(first, second, cut=-20)
    assert [(k.device, k.count) for k in profile.kernels] == [(0, 1)]
    assert profile.missing[0].startswith("the file is cut off or damaged")


HLO_SCRIPT = """
import json, sys
import jax, jax.numpy as jnp
def f(a, b, c):
    with jax.named_scope("dense"):
        return jnp.tanh(a.astype(jnp.bfloat16) @ b) + c
shapes = [jax.ShapeDtypeStruct((8, 16), jnp.float32), jax.ShapeDtypeStruct((16, 4), jnp.bfloat16),
          jax.ShapeDtypeStruct((4,), jnp.bfloat16)]
module = jax.jit(f).lower(*shapes).compiler_ir("hlo").as_hlo_module()
sys.stdout.buffer.write(module.as_serialized_hlo_module_proto())
"""


@pytest.fixture(scope="module")
def hlo_module():
    """A module as XLA itself writes it, from a process of its own, so that JAX is not loaded into this one."""
    done = subprocess.run(
        [sys.executable, "-c", HLO_SCRIPT],
        capture_output=True,
        check=False,
        env={"JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"},
    )
    if done.returncode:
        pytest.skip(f"JAX, which writes the HLO module, does not run here: {done.stderr[-200:]!r}")
    return done.stdout


def test_data_types_and_shapes_come_from_the_hlo_module_of_the_file(space, hlo_module):
    proto = b"\x0a" + encoded_varint(len(hlo_module)) + hlo_module
    metadata_plane = {"name": "/host:metadata", "metadata": {"jit_f(17)": {"hlo_proto": proto}}}
    stats = {"hlo_module": "jit_f", "program_id": 17}
    for name in (
        "dot.1",
        "dot.2",
        "dot.3",
        "dot.4",
        "dot.5",
        "dot_general.1",
        "dot_general.2",
        "dot_general.4",
    ):
        profile = space(metadata_plane, gpu({"Stream #7": [("gemm", 0, 5, stats | {"hlo_op": name})]}))
        (row,) = profile.kernels
        if row.input_dtypes is not None:
            assert row.input_dtypes == ("bfloat16", "bfloat16")
            assert row.input_shapes == ((8, 16), (16, 4))
            assert row.op == "dot_general"
            assert row.layer.endswith("dense")
            return
    pytest.fail("no instruction of the module is the product")


def test_a_damaged_hlo_module_leaves_types_unknown(space):
    metadata_plane = {"name": "/host:metadata", "metadata": {"jit_f(17)": {"hlo_proto": b"\x0a\x05ab"}}}
    stats = {"hlo_module": "jit_f", "program_id": 17, "hlo_op": "dot.1"}
    (row,) = space(metadata_plane, gpu({"Stream #7": [("gemm", 0, 5, stats)]})).kernels
    assert (row.input_dtypes, row.op) == (None, "dot.1")


def test_triton_products_of_a_real_file_have_the_types_of_their_operands(shared):
    profile = read_profile(shared / "data/profiles/xplane/mi350_jax_te_attention.xplane.pb")
    products = [kernel for kernel in profile.kernels if kernel.name.startswith("gemm_fusion_dot")]
    assert products
    assert {kernel.input_dtypes for kernel in products} == {("bfloat16", "bfloat16")}
    # XLA itself calls two of the products "transpose": there the name of the HLO operation is told instead.
    assert {kernel.op for kernel in products} == {"dot_general", "dot"}
    assert {len(kernel.input_shapes) for kernel in products} == {2}

"""All reference profiles, against the manifest and against computations that share no code with the readers."""

from __future__ import annotations

import csv
import gzip
import json
import re
import shutil
import sqlite3
import subprocess
from collections import Counter
from fractions import Fraction

import pytest

from mixte.profiles import Weight, read_profile
from mixte.profiles._recognise import recognise


@pytest.fixture(scope="module")
def profiles(shared):
    return shared / "data" / "profiles"


@pytest.fixture(scope="module")
def manifest(profiles):
    with (profiles / "MANIFEST.tsv").open(encoding="utf-8") as file:
        return {row["file"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


@pytest.fixture(scope="module")
def read(profiles):
    """Read each profile once."""
    known = {}

    def reader(name):
        if name not in known:
            known[name] = read_profile(profiles / name)
        return known[name]

    return reader


def names_of(kind):
    """The files of one folder, listed at collection, where no fixture is at hand."""
    from pathlib import Path

    folder = Path(__file__).resolve().parents[5] / "shared" / "data" / "profiles"
    return sorted(str(path.relative_to(folder)) for path in folder.glob(f"{kind}/*")) or ["(no reference data)"]


def test_every_file_is_recognised_by_its_content_alone(profiles, manifest, tmp_path):
    for name, row in manifest.items():
        renamed = tmp_path / "no-suffix"
        renamed.unlink(missing_ok=True)
        renamed.symlink_to(profiles / name)
        assert recognise(renamed) == row["format"], name


def test_every_file_gives_the_launches_and_the_time_of_the_manifest(manifest, read):
    for name, row in manifest.items():
        profile = read(name)
        if row["kernel_launches"] != "-":
            assert sum(kernel.count or 0 for kernel in profile.kernels) == int(row["kernel_launches"]), name
        if row["kernel_time_ms"] != "-":
            # The manifest gives three decimals; nvprof's texts round every row to five significant digits.
            allowed_ms = 0.0005 + 5e-7 * float(row["kernel_time_ms"])
            assert profile.gpu_time_ns == pytest.approx(
                1e6 * float(row["kernel_time_ms"]), abs=1e6 * allowed_ms
            ), name
        weight = {"launches": Weight.LAUNCHES}.get(row["basis"], Weight.TIME)
        assert profile.weight is weight, name
        assert not profile.partial, name


def test_a_file_without_kernels_says_why(manifest, read):
    reasons = {name: read(name).no_kernels_reason for name, row in manifest.items() if row["basis"] == "none"}
    assert reasons == {
        "handmade/nvprof_no_kernels.txt": "nvprof profiled no kernels",
        "handmade/torch_table_cpu_only.txt": "the table has no GPU columns: only the CPU was profiled",
        "kineto/a100_cpu_ops_only.json.gz": "the file holds what the CPU did, and nothing of a GPU",
        "kineto/mtia_inference.json.gz": "the trace is of an MTIA accelerator (ARTEMIS), not of a GPU",
        "nsys_sqlite/rtx5060ti_no_kernel_table.sqlite": (
            "no kernels were recorded: the file holds CUDA calls only"
        ),
    }


def test_gpus_are_named_where_the_file_names_them(manifest, read):
    for name, row in manifest.items():
        profile = read(name)
        named = {gpu.name for gpu in profile.gpus if gpu.name}
        # "NVIDIA A100-PG509-200 (8 listed)": the name, then a remark.
        expected = re.split(r" \(|, name|^\dx ", row["gpu"])[0]
        if named and "class" not in row["gpu"] and not row["gpu"].startswith("2x"):
            assert named == {expected}, name


def test_compute_capability_is_that_of_the_manifest(manifest, read):
    for name, row in manifest.items():
        found = {gpu.compute_capability for gpu in read(name).gpus} - {None}
        written = re.match(r"(\d+)\.(\d+)", row["compute_capability"])
        if found:
            assert written is not None, name
            assert found == {(int(written[1]), int(written[2]))}, name


def whole_trace(path):
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    document = json.loads(data, parse_float=Fraction)
    return document["traceEvents"] if isinstance(document, dict) else document


@pytest.mark.parametrize("name", names_of("kineto"))
def test_kineto_kernels_are_those_that_a_plain_json_parser_finds(profiles, read, name):
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for event in whole_trace(profiles / name):
        if str(event.get("cat")).lower() == "kernel" and event.get("ph") == "X":
            counts[event["name"].strip()] += 1
            sums[event["name"].strip()] += Fraction(event["dur"]) * 1000
    profile = read(name)
    if profile.weight is Weight.LAUNCHES:
        assert not counts
        return
    found_counts: Counter[str] = Counter()
    found_sums: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for kernel in profile.kernels:
        found_counts[kernel.name] += kernel.count
        found_sums[kernel.name] += kernel.duration_ns
        rows[kernel.name] += 1
    assert found_counts == counts
    for kernel, duration_ns in sums.items():
        # Each row is rounded once, by half a nanosecond at most; so much the sum of the rows may be off.
        assert abs(found_sums[kernel] - duration_ns) <= Fraction(rows[kernel], 2) + Fraction(1, 1000)


@pytest.mark.parametrize("name", names_of("nsys_sqlite"))
def test_nsys_kernels_are_those_that_sql_finds(profiles, read, name):
    database = sqlite3.connect(f"file:{profiles / name}?mode=ro&immutable=1", uri=True)
    try:
        expected = database.execute(
            "SELECT value, deviceId, streamId, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "JOIN StringIds ON demangledName = id GROUP BY value, deviceId, streamId"
        ).fetchall()
    except sqlite3.OperationalError:
        expected = []  # one file has no such table
    finally:
        database.close()
    found: dict[tuple[str, int, int], list[int]] = {}
    for kernel in read(name).kernels:
        sums = found.setdefault((kernel.name, kernel.device, kernel.stream), [0, 0])
        sums[0] += kernel.count
        sums[1] += kernel.duration_ns
    assert {(row[0].strip(), row[1], row[2]): [row[3], row[4]] for row in expected} == found


@pytest.mark.parametrize("name", names_of("xplane"))
def test_xplane_kernels_are_those_that_protobuf_finds(profiles, read, name, xplane_pb2):
    space = xplane_pb2.XSpace.FromString((profiles / name).read_bytes())
    expected: dict[tuple[str, int, int, str], list[int]] = {}
    for plane in space.planes:
        if not plane.name.startswith("/device:GPU:"):
            continue
        for line in plane.lines:
            stream = int(re.match(r"Stream #(\d+)", line.name)[1])
            for event in line.events:
                kernel = plane.event_metadata[event.metadata_id].name
                key = (kernel, int(plane.name.rpartition(":")[2]), stream, hlo_op(plane, event))
                sums = expected.setdefault(key, [0, 0])
                sums[0] += 1
                sums[1] += event.duration_ps
    found: dict[tuple[str, int, int], list[int]] = {}
    for kernel in read(name).kernels:
        sums = found.setdefault((kernel.name, kernel.device, kernel.stream), [0, 0, 0])
        sums[0] += kernel.count
        sums[1] += kernel.duration_ns
        sums[2] += 1
    totals: dict[tuple[str, int, int], list[int]] = {}
    for (kernel, device, stream, _), (count, duration_ps) in expected.items():
        sums = totals.setdefault((kernel, device, stream), [0, 0])
        sums[0] += count
        sums[1] += duration_ps
    assert found.keys() == totals.keys()
    for key, (count, duration_ns, rows) in found.items():
        assert count == totals[key][0]
        assert abs(1000 * duration_ns - totals[key][1]) <= 500 * rows  # each row is rounded once


def hlo_op(plane, event):
    for stat in event.stats:
        if plane.stat_metadata[stat.metadata_id].name == "hlo_op":
            return plane.stat_metadata[stat.ref_value].name or stat.str_value
    return ""


def test_ncu_times_are_those_of_the_durations_or_of_cycles_over_frequency(profiles, read):
    for name in names_of("ncu_csv"):
        metrics: dict[str, dict[str, tuple[str, str]]] = {}
        lines = (profiles / name).read_text(encoding="utf-8-sig").splitlines()
        header = next(index for index, line in enumerate(lines) if line.startswith('"ID"'))
        for row in csv.DictReader(lines[header:]):
            metrics.setdefault(row["ID"], {})[row["Metric Name"]] = (row["Metric Value"], row["Metric Unit"])
        total_ns = 0.0
        for launch in metrics.values():
            if "gpu__time_duration.sum" in launch:
                value, unit = launch["gpu__time_duration.sum"]
                assert unit == "ns"
                total_ns += float(value.replace(",", ""))
            elif "sm__cycles_elapsed.avg.per_second" in launch:
                value, unit = launch["sm__cycles_elapsed.avg.per_second"]
                per_ns = float(value.replace(",", "")) * {"cycle/nsecond": 1, "cycle/second": 1e-9}[unit]
                total_ns += float(launch["sm__cycles_elapsed.avg"][0].replace(",", "")) / per_ns
        profile = read(name)
        assert (profile.gpu_time_ns or 0) == pytest.approx(total_ns, abs=0.5 * len(profile.kernels)), name
        assert sum(kernel.count for kernel in profile.kernels) == len(metrics), name


def test_ncu_counters_are_those_in_the_file(profiles, read):
    name = "ncu_csv/a100_bert_flashattn_fp16.csv"
    lines = (profiles / name).read_text(encoding="utf-8").splitlines()
    metric = "sm__inst_executed_pipe_tensor.sum"
    expected = sorted(
        float(row["Metric Value"].replace(",", ""))
        for row in csv.DictReader(lines)
        if row["Metric Name"] == metric
    )
    found = sorted(value for kernel in read(name).kernels for value in [kernel.counters[metric]] * kernel.count)
    assert found == expected
    assert 0.0 in found


def test_rocprofv3_dispatches_are_those_that_a_plain_json_parser_finds(profiles, read):
    name = "rocprof/mi350x_train_rocprofv3.json.gz"
    with gzip.open(profiles / name) as file:
        tool = json.load(file)["rocprofiler-sdk-tool"][0]
    names = {symbol["kernel_id"]: symbol["formatted_kernel_name"] for symbol in tool["kernel_symbols"]}
    nodes = {agent["id"]["handle"]: agent["node_id"] for agent in tool["agents"]}
    expected: dict[tuple[str, int, int], list[int]] = {}
    for dispatch in tool["buffer_records"]["kernel_dispatch"]:
        info = dispatch["dispatch_info"]
        key = (
            names[info["kernel_id"]].strip(),
            nodes[info["agent_id"]["handle"]],
            dispatch["stream_id"]["handle"],
        )
        sums = expected.setdefault(key, [0, 0])
        sums[0] += 1
        sums[1] += dispatch["end_timestamp"] - dispatch["start_timestamp"]
    profile = read(name)
    assert expected == {
        (kernel.name, kernel.device, kernel.stream): [kernel.count, kernel.duration_ns]
        for kernel in profile.kernels
    }
    assert {gpu.architecture for gpu in profile.gpus} == {"gfx950"}


def test_the_sqlite_shell_agrees_on_the_nvprof_database(profiles, read):
    shell = shutil.which("sqlite3")
    if shell is None:
        pytest.skip("the sqlite3 shell, which is the oracle, is not installed")
    query = (
        "SELECT value, count(*), sum(end - start) FROM (SELECT name, start, end FROM CUPTI_ACTIVITY_KIND_KERNEL "
        "UNION ALL SELECT name, start, end FROM CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) "
        "JOIN StringTable ON name = _id_ GROUP BY value ORDER BY value"
    )
    done = subprocess.run(
        [shell, "-readonly", "-csv", str(profiles / "handmade/nvprof_v100.nvvp"), query],
        check=True,
        capture_output=True,
        text=True,
    )
    expected = [(row[0], int(row[1]), int(row[2])) for row in csv.reader(done.stdout.splitlines())]
    found = sorted(
        (kernel.name, kernel.count, kernel.duration_ns) for kernel in read("handmade/nvprof_v100.nvvp").kernels
    )
    assert found == expected

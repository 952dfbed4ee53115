"""Speed and memory of reading profiles, and HolisticTraceAnalysis on the same file, in one run.

    python benchmarks/verify.py [--hta PYTHON] [--trace NAME] [--megabytes 150] [--repeats 3] [--record FILE] [--check]

PYTHON (or the variable MIXTE_HTA_PYTHON) is the interpreter of an environment that has HolisticTraceAnalysis:

    python -m venv /tmp/hta && /tmp/hta/bin/pip install HolisticTraceAnalysis==0.5.0

Without it only this project is measured. Files are made from the reference profiles: a PyTorch trace whose events
are repeated, one copy after the other in time and with identifiers of their own, and an Nsight Systems database
whose kernels are repeated to a million. Every measurement is a process of its own: seconds are those of reading
alone (imports excluded) by the wall clock and by the processor, memory is the process's peak. The two take turns,
so that whatever else the machine does meets both. One run of each comes first and does not count.

--check exits with 1 unless reading takes at most a tenth of the rival's time and half of its memory, a million
kernels less than 2 s, and `mixte verify` on a small file less than 0.5 s.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

import mixte

PROFILES = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "profiles"
SMALL = "handmade/nvprof_t4_summary_bom.csv"
DATABASE = "nsys_sqlite/h100_fp32_simt_2gpu.sqlite"
KERNELS = 1_000_000
TIME_RATIO, MEMORY_RATIO, DATABASE_S, SMALL_S = 0.1, 0.5, 2.0, 0.5

# Each prints one line of JSON. The clock of the processor is what a busy machine distorts least.
OURS = """
import json, resource, sys, time
from mixte.profiles import read_profile
wall, cpu = time.perf_counter(), time.process_time()
profile = read_profile(sys.argv[1])
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_bytes": peak, "gpu_time_ns": profile.gpu_time_ns,
                  "kernels": sum(k.count for k in profile.kernels), "rows": len(profile.kernels),
                  "linked": sum(k.count for k in profile.kernels if k.op)}))
"""
RIVAL = """
import importlib.metadata, json, logging, platform, resource, sys, time
logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
wall, cpu = time.perf_counter(), time.process_time()
trace = Trace(trace_files={0: sys.argv[1]}, trace_dir="")
trace.parse_traces(use_multiprocessing=False)
frame = trace.get_trace(0)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
versions = {name: importlib.metadata.version(name) for name in ("HolisticTraceAnalysis", "pandas", "numpy")}
print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_bytes": peak, "rows": len(frame),
                  "versions": versions | {"Python": platform.python_version()}}))
"""


def make_trace(source: Path, target: Path, size_bytes: int) -> int:
    """Write a trace of at least a size whose events are those of a real one, repeated; give how many times."""
    data = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    document = json.loads(data)
    events = document.pop("traceEvents")
    timed = [event for event in events if event.get("ph") == "X"]
    begin = min(event["ts"] for event in timed)
    span = max(event["ts"] + event["dur"] for event in timed) - begin + 1000
    span = int(span) if isinstance(begin, int) else span
    with target.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2)[:-2] + ',\n  "traceEvents": [\n')
        copies = 0
        while file.tell() < size_bytes:
            for event in events:
                if copies == 0 or event.get("ph") != "M":
                    text = json.dumps(moved(event, copies, span))
                    first = copies == 0 and event is events[0]
                    file.write(("" if first else ",\n") + "  {\n    " + text[1:-1] + "\n  }")
            copies += 1
        file.write("\n  ]\n}\n")
    return copies


def moved(event: dict, copy: int, span: float) -> dict:
    """Move an event by some copies of the whole trace, with identifiers of its own."""
    event = dict(event)
    if "ts" in event:
        event["ts"] += copy * span
    if isinstance(event.get("id"), int):
        event["id"] += copy * 10_000_000
    arguments = dict(event.get("args", {}))
    for name in ("correlation", "External id", "external id", "Python id", "Python parent id"):
        if isinstance(arguments.get(name), int):
            arguments[name] += copy * 10_000_000
    return event | ({"args": arguments} if arguments else {})


def make_database(source: Path, target: Path, kernels: int) -> None:
    """Write a database with so many kernels, those of a real one repeated, each copy later and with own ids."""
    target.write_bytes(source.read_bytes())
    with sqlite3.connect(target) as connection:
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        query = f"SELECT count(*), max(end) - min(start), max(correlationId) + 1 FROM {table}"  # noqa: S608
        count, span, ids = connection.execute(query).fetchone()
        shifted = {"start": "start + ?1", "end": "end + ?1", "correlationId": "correlationId + ?2"}
        select = ", ".join(shifted.get(column, column) for column in columns)
        connection.execute(f"CREATE TEMP TABLE once AS SELECT * FROM {table}")  # noqa: S608 - our own words
        for copy in range(1, -(-kernels // count)):
            values = (copy * span, copy * ids)
            connection.execute(f"INSERT INTO {table} SELECT {select} FROM once", values)  # noqa: S608
        connection.execute(f"DELETE FROM {table} WHERE rowid > {kernels}")  # noqa: S608 - our own number
    connection.close()


def measure(python: str, script: str, path: Path) -> dict:
    """Run a script on a file in a process of its own."""
    done = subprocess.run([python, "-c", script, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed on {path}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def in_turns(path: Path, rival: str | None, repeats: int) -> tuple[list[dict], list[dict]]:
    ours, theirs = [], []
    for run in range(repeats + 1):
        for python, script, samples in ((sys.executable, OURS, ours), (rival, RIVAL, theirs)):
            if python is not None:
                sample = measure(python, script, path)
                if run:
                    samples.append(sample)
    return ours, theirs


def small_file_s(repeats: int) -> list[float]:
    """Seconds of `mixte verify` on a small file, from start to end of the process."""
    script = (
        "import subprocess, sys, time; begin = time.perf_counter(); "
        "subprocess.run([sys.executable, '-m', 'mixte', 'verify', sys.argv[1]], check=True, capture_output=True); "
        "print(time.perf_counter() - begin)"
    )
    command = [sys.executable, "-c", script, str(PROFILES / SMALL)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats + 1)]
    return [float(run.stdout) for run in runs[1:]]


def median(samples: list[dict], key: str) -> float:
    return statistics.median(sample[key] for sample in samples)


def line(name: str, samples: list[dict]) -> str:
    wall = [sample["wall_s"] for sample in samples]
    return (
        f"  {name:<30} {statistics.median(wall):7.2f} s ({min(wall):.2f} to {max(wall):.2f})"
        f"  processor {median(samples, 'cpu_s'):6.2f} s  peak {median(samples, 'peak_bytes') / 2**20:5.0f} MiB"
    )


def report_trace(ours: list[dict], theirs: list[dict]) -> bool:
    print(line("mixte", ours))
    if not theirs:
        print("  HolisticTraceAnalysis was not measured: give its interpreter with --hta")
        return True
    print(line(f"HolisticTraceAnalysis {theirs[0]['versions']['HolisticTraceAnalysis']}", theirs))
    ratios = {key: median(ours, key) / median(theirs, key) for key in ("wall_s", "cpu_s", "peak_bytes")}
    met = max(ratios["wall_s"], ratios["cpu_s"]) <= TIME_RATIO and ratios["peak_bytes"] <= MEMORY_RATIO
    print(
        f"  mixte takes {ratios['wall_s']:.1%} of the time ({ratios['cpu_s']:.1%} of the processor's) and "
        f"{ratios['peak_bytes']:.1%} of the memory: {'met' if met else 'NOT MET'} (at most 10% and 50%)"
    )
    return met


def main() -> int:
    arguments = _arguments()
    if not PROFILES.is_dir():
        print(f"the reference profiles {PROFILES} are not here")
        return 0
    met = []
    with tempfile.TemporaryDirectory(prefix="mixte-bench-") as folder:
        trace, database = Path(folder) / "trace.json", Path(folder) / "report.sqlite"
        copies = make_trace(PROFILES / "kineto" / arguments.trace, trace, arguments.megabytes * 10**6)
        ours, theirs = in_turns(trace, arguments.hta, arguments.repeats)
        print(
            f"PyTorch trace of {trace.stat().st_size / 1e6:.0f} MB: {arguments.trace}, {copies} times; "
            f"{ours[0]['kernels']} kernels, {ours[0]['linked']} with their operators"
        )
        met.append(report_trace(ours, theirs))
        make_database(PROFILES / DATABASE, database, KERNELS)
        million, _ = in_turns(database, None, arguments.repeats)
        met.append(median(million, "wall_s") < DATABASE_S)
        print(
            f"Nsight Systems database of {database.stat().st_size / 1e6:.0f} MB, {million[0]['kernels']} kernels"
        )
        print(line("mixte", million), "met" if met[-1] else "NOT MET", f"(below {DATABASE_S:g} s)")
    small = small_file_s(arguments.repeats)
    met.append(statistics.median(small) < SMALL_S)
    print(f"mixte verify {SMALL}, the whole process")
    print(f"  {statistics.median(small):.2f} s", "met" if met[-1] else "NOT MET", f"(below {SMALL_S:g} s)")
    versions = {"mixte": mixte.__version__, "Python": platform.python_version(), "msgspec": msgspec.__version__}
    print(
        f"{versions}; rival: {theirs[0]['versions'] if theirs else None}; {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}, {platform.platform()}"
    )
    if arguments.record:
        samples = {"trace": ours, "trace_rival": theirs, "database": million, "small_file_s": small}
        arguments.record.write_text(
            json.dumps({"versions": versions, "samples": samples}, indent=1), encoding="utf-8"
        )
    return 1 if arguments.check and not all(met) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hta", metavar="PYTHON", default=os.environ.get("MIXTE_HTA_PYTHON"))
    parser.add_argument("--trace", metavar="NAME", default="a100_resnet_ddp_tf32.json.gz")
    parser.add_argument("--megabytes", type=int, default=150)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

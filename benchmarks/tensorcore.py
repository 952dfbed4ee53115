"""Speed of the Tensor Core arithmetic, and agreement with mmaemu, both in one run.

    python benchmarks/tensorcore.py [--mmaemu PYTHON] [--size 512] [--repeats 5] [--threads 2] [--record FILE]

PYTHON is the interpreter of an environment that has mmaemu (pip install mmaemu, which needs PyTorch). Without it
only this project is measured. Products are M = N = K = size; a multiply-add is one product added to one output.
--record writes the digests of mmaemu's results, which tests/unit/tensorcore/test_mmaemu.py compares with ours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import mixte
from mixte.formats import decode, round_to
from mixte.tensorcore import Chain, Restart, SplitK, matmul

UNITS = [
    ("volta", "float16", "float32"),
    ("volta", "float16", "float16"),
    ("turing", "float16", "float32"),
    ("ampere", "float16", "float32"),
    ("ampere", "bfloat16", "float32"),
    ("ampere", "tf32", "float32"),
    ("hopper", "float16", "float32"),
    ("ada", "float8_e4m3fn", "float32"),
    ("hopper", "float8_e4m3fn", "float32"),
    ("blackwell", "float8_e4m3fn", "float32"),
]
RIVAL_UNITS = ["ada", "hopper"]  # float8_e4m3fn with a float32 accumulator: what mmaemu has too

# Runs in mmaemu's environment. Reads a request as JSON from standard input, writes one line of JSON.
RIVAL = r"""
import hashlib, json, platform, sys, time, warnings
import mmaemu, numpy as np, torch
warnings.simplefilter("ignore")
request = json.load(sys.stdin)
torch.set_num_threads(request["threads"])

def tensor(codes, fmt):
    return torch.from_numpy(np.array(codes)).view(getattr(torch, fmt))

digests, seconds = [], {}
exec(request["codes"])
for case in request["cases"]:
    a, b = operands(case)
    split = 1 if case["parts"] == 1 else (case["parts"], case["scheme"])
    d = mmaemu.accumulate(tensor(a, case["a"]), tensor(b, case["b"]), use_fast_accum=case["restart"] is None,
                          profile=case["arch"], splitk=split, backend="reference")
    digests.append(hashlib.sha256(np.ascontiguousarray(d.numpy()).view("<u4").tobytes()).hexdigest())
n = request["size"]
for arch in request["units"]:
    x, y = (torch.randn(n, n, generator=torch.Generator().manual_seed(s)).to(torch.float8_e4m3fn) for s in (0, 1))
    how = dict(use_fast_accum=True, profile=arch, splitk=1, backend="reference")
    mmaemu.accumulate(x, y, **how)
    seconds[arch] = []
    for _ in range(request["repeats"]):
        start = time.perf_counter()
        mmaemu.accumulate(x, y, **how)
        seconds[arch].append(time.perf_counter() - start)
print(json.dumps({"digests": digests, "seconds": seconds, "versions": {
    "mmaemu": mmaemu.__version__, "torch": torch.__version__, "Python": platform.python_version()}}))
"""

# The operands of a case, from a hash: the same for ever, whatever the versions of the libraries.
CODES = r'''
def codes(case, side, count):
    """uint8 codes: finite numbers with exponents around 0 ("tame"), any finite ones ("wild"), or any ("special")."""
    raw = np.frombuffer(hashlib.shake_256(f"{case['seed']}{side}".encode()).digest(count), np.uint8).astype(int)
    mantissa_bits, low = (3, 5) if case[side] == "float8_e4m3fn" else (2, 11)
    if case["kind"] == "tame":
        exponent = ((raw >> mantissa_bits) & 3) + low
        raw = (raw & (0x80 | (1 << mantissa_bits) - 1)) | exponent << mantissa_bits
    if case["kind"] == "wild":
        raw = np.where((raw & 0x7F) > (0x7E if mantissa_bits == 3 else 0x7B), 0, raw)
    return raw.astype(np.uint8)

def operands(case):
    """A as (M, K) and B as (N, K)."""
    m, n, k = case["shape"]
    return codes(case, "a", m * k).reshape(m, k), codes(case, "b", n * k).reshape(n, k)
'''


def cases() -> list[dict]:
    """What mmaemu and this project are compared on: formats, lengths, restarts, splits, special values."""
    made = []
    formats = ["float8_e4m3fn", "float8_e5m2"]
    for arch, splits in (("ada", ["serial", "pairwise"]), ("hopper", ["contiguous"])):
        for a in formats:
            for b in formats:
                for kind, k in (("tame", 1040), ("wild", 336), ("special", 16)):
                    made.append(_case(arch, a, b, kind, (24, 32, k)))
                made.append(_case(arch, a, b, "tame", (16, 16, 1040), restart=128))
            made.extend(
                _case(arch, a, a, "tame", (16, 16, 1104), restart=restart, parts=parts, scheme=scheme)
                for scheme in splits
                for parts in (2, 5)
                for restart in (None, 128)
            )
    return made


def _case(arch, a, b, kind, shape, *, restart=None, parts=1, scheme="none") -> dict:
    seed = "-".join(map(str, (arch, a, b, kind, *shape, restart, parts, scheme)))
    return {
        "arch": arch,
        "a": a,
        "b": b,
        "kind": kind,
        "shape": shape,
        "restart": restart,
        "parts": parts,
        "scheme": scheme,
        "seed": seed,
    }


def accumulation(case: dict) -> Chain | Restart | SplitK:
    if case["parts"] > 1:
        contiguous = case["scheme"] == "contiguous"
        return SplitK(
            parts=case["parts"],
            tile=128 if contiguous else 64,
            deal="contiguous" if contiguous else "in_turn",
            combine="pairwise" if case["scheme"] == "pairwise" else "serial",
            restart=case["restart"],
        )
    return Chain() if case["restart"] is None else Restart(every=case["restart"])


def digest(case: dict, operands) -> str:
    """The SHA-256 of our result's bits."""
    a, b = operands(case)
    d = matmul(
        decode(a, case["a"]),
        decode(b, case["b"]).T,
        arch=case["arch"],
        input=(case["a"], case["b"]),
        accumulation=accumulation(case),
    )
    return hashlib.sha256(np.ascontiguousarray(d).view("<u4").tobytes()).hexdigest()


def measure(size: int, repeats: int, threads: int) -> list[tuple[str, list[float], float]]:
    """Wall-clock seconds of every repeat, and CPU seconds of them all, for each unit; after one warm-up."""
    results = []
    for arch, fmt, accumulate in UNITS:
        rng = np.random.default_rng(0)
        a, b = (np.asarray(round_to(rng.standard_normal((size, size)), fmt), np.float32) for _ in range(2))
        how = {"arch": arch, "input": fmt, "accumulate": accumulate, "threads": threads}
        matmul(a, b, **how)
        seconds, cpu = [], time.process_time()
        for _ in range(repeats):
            start = time.perf_counter()
            matmul(a, b, **how)
            seconds.append(time.perf_counter() - start)
        results.append((f"{arch} {fmt} -> {accumulate}", seconds, time.process_time() - cpu))
    return results


def report(name: str, seconds: list[float], size: int, cpu: float | None = None) -> None:
    work = size**3 / 1e6
    per_cpu = "" if cpu is None else f"{work * len(seconds) / cpu:8.0f}"
    print(f"{name:36} {work / statistics.median(seconds):8.0f} {work / min(seconds):8.0f} {per_cpu}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mmaemu", metavar="PYTHON", help="interpreter of an environment that has mmaemu")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--record", metavar="FILE", type=Path, help="write mmaemu's digests there")
    arguments = parser.parse_args()
    print(f"mixte {mixte.__version__}, numpy {np.__version__}, Python {platform.python_version()}")
    print(f"{_cpu_name()}, {os.cpu_count()} CPUs, {arguments.threads} threads, load {os.getloadavg()[0]:.1f}")
    print(
        f"\nmillion multiply-adds a second, M = N = K = {arguments.size}, {arguments.repeats} repeats after a warm-up"
    )
    print(f"{'':36} {'median':>8} {'best':>8} {'per CPU s':>8}")
    for name, seconds, cpu in measure(arguments.size, arguments.repeats, arguments.threads):
        report(name, seconds, arguments.size, cpu)
    return compare(arguments) if arguments.mmaemu else 0


def compare(arguments: argparse.Namespace) -> int:
    """Run mmaemu in its own environment: its speed, and whether all results agree."""
    compared = cases()
    request = {
        "threads": arguments.threads,
        "cases": compared,
        "codes": CODES,
        "size": arguments.size,
        "repeats": arguments.repeats,
        "units": RIVAL_UNITS,
    }
    done = subprocess.run(
        [arguments.mmaemu, "-c", RIVAL], input=json.dumps(request), capture_output=True, text=True, check=False
    )
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return 1
    answer = json.loads(done.stdout)
    for arch, seconds in answer["seconds"].items():
        report(f"mmaemu: {arch} float8_e4m3fn -> float32", seconds, arguments.size)
    print(", ".join(f"{name} {version}" for name, version in answer["versions"].items()))
    scope: dict = {"np": np, "hashlib": hashlib}
    exec(CODES, scope)  # noqa: S102 - the same text runs in both environments
    agree = sum(
        digest(case, scope["operands"]) == theirs
        for case, theirs in zip(compared, answer["digests"], strict=True)
    )
    print(f"\nbit-exact agreement with mmaemu: {agree} of {len(compared)} products")
    if arguments.record:
        rows = [{**case, "sha256": theirs} for case, theirs in zip(compared, answer["digests"], strict=True)]
        lines = ",\n  ".join(json.dumps(row) for row in rows)
        arguments.record.write_text(
            f'{{"mmaemu": "{answer["versions"]["mmaemu"]}", "cases": [\n  {lines}\n]}}\n'
        )
    return 0 if agree == len(compared) else 1


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown CPU"
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown CPU")


if __name__ == "__main__":
    sys.exit(main())

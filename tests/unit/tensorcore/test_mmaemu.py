"""Agreement with mmaemu, an independent model of float8 products validated on GPUs by its authors.

mmaemu_digests.json holds the SHA-256 of its results, written by `benchmarks/tensorcore.py --mmaemu PYTHON --record
FILE`, which runs it. The operands come from a hash, so that they are the same wherever this runs.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from mixte.formats import FORMATS, decode
from mixte.tensorcore import Chain, Restart, SplitK, matmul

RECORDED = json.loads((Path(__file__).parent / "mmaemu_digests.json").read_text(encoding="utf-8"))


def codes(case, side, count):
    """Codes of finite numbers with exponents around 0 ("tame"), of any finite numbers ("wild"), or any ("special")."""
    fmt = FORMATS[case[side]]
    raw = np.frombuffer(hashlib.shake_256(f"{case['seed']}{side}".encode()).digest(count), np.uint8).astype(int)
    if case["kind"] == "tame":
        exponent = ((raw >> fmt.mantissa_bits) & 3) + fmt.bias - (2 if fmt.mantissa_bits == 3 else 4)
        raw = (raw & (0x80 | ((1 << fmt.mantissa_bits) - 1))) | exponent << fmt.mantissa_bits
    if case["kind"] == "wild":
        raw = np.where(np.isfinite(decode(raw, fmt)), raw, 0)
    return raw


def accumulation(case):
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


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["seed"])
def test_bits_are_those_of_mmaemu(case):
    rows, columns, length = case["shape"]
    a = decode(codes(case, "a", rows * length), case["a"]).reshape(rows, length)
    b = decode(codes(case, "b", columns * length), case["b"]).reshape(columns, length).T
    d = matmul(a, b, arch=case["arch"], input=(case["a"], case["b"]), accumulation=accumulation(case))
    assert hashlib.sha256(np.ascontiguousarray(d).view("<u4").tobytes()).hexdigest() == case["sha256"]


def test_the_record_covers_every_pair_of_formats_restarts_splits_and_special_values():
    cases = RECORDED["cases"]
    assert {(case["arch"], case["a"], case["b"]) for case in cases} == {
        (arch, a, b)
        for arch in ("ada", "hopper")
        for a in ("float8_e4m3fn", "float8_e5m2")
        for b in ("float8_e4m3fn", "float8_e5m2")
    }
    assert {case["kind"] for case in cases} == {"tame", "wild", "special"}
    assert {case["scheme"] for case in cases} == {"none", "serial", "pairwise", "contiguous"}
    assert {case["restart"] for case in cases} == {None, 128}

"""Every recorded result of real GPUs, bit for bit."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from mixte.tensorcore import dot_scalar, dot_unit, matmul

ARCHITECTURES = {
    "Volta": "volta",
    "Ampere": "ampere",
    "Ada Lovelace": "ada",
    "Hopper": "hopper",
    "Blackwell": "blackwell",
}
FORMATS = {
    "fp16": "float16",
    "bf16": "bfloat16",
    "tf32": "tf32",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "fp32": "float32",
}
SETS = [
    *(f"{gpu}_{kind}" for gpu in ("V100",) for kind in ("fp16_fp32", "fp16_fp16")),
    *(
        f"{gpu}_{kind}"
        for gpu in ("A100", "A2", "Ada", "L40S", "H100", "H200", "B200")
        for kind in ("bf16_fp32", "fp16_fp32", "fp16_fp16", "tf32_fp32")
    ),
    *(f"{gpu}_{kind}" for gpu in ("Ada", "L40S") for kind in ("e4m3_fp32", "e5m2_fp32")),
    *(f"Ada_{kind}" for kind in ("e4m3_fp16", "e5m2_fp16")),
    *(
        f"{gpu}_{kind}"
        for gpu in ("H100", "H200", "B200")
        for kind in ("e4m3_fp32", "e4m3_fp16", "e5m2_fp32", "e5m2_fp16")
    ),
]


@pytest.fixture(scope="module")
def recorded(shared):
    """Return the arrays of a set, and how matmul and dot_unit are asked for it."""
    folder = shared / "data" / "tensor_core_vectors"
    with (folder / "manifest.csv").open(newline="") as lines:
        rows = {row["file"].removesuffix(".npz"): row for row in csv.DictReader(lines)}

    def load(name):
        row = rows[name]
        with np.load(folder / row["file"]) as arrays:
            data = {key: arrays[key] for key in "abcd"}
        c = data["c"].view(np.float32) if row["c_used"] == "1" else np.zeros(len(data["d"]), np.float32)
        instruction = "mma.sync" if row["instruction"].startswith("mma.sync") else None
        how = {
            "arch": ARCHITECTURES[row["arch"]],
            "accumulate": FORMATS[row["output"]],
            "instruction": instruction,
        }
        return data["a"], data["b"], c, data["d"], FORMATS[row["input"]], how

    load.names = sorted(rows)
    return load


def test_no_recorded_set_is_left_out(recorded):
    assert sorted(SETS) == recorded.names
    assert len(SETS) == 48


@pytest.mark.parametrize("name", SETS)
def test_every_row_is_bit_exact(name, recorded):
    a, b, c, d, fmt, how = recorded(name)
    result = matmul(a[:, None, :], b[:, :, None], c[:, None, None], input=fmt, **how)[:, 0, 0]
    assert result.dtype == how["accumulate"]
    assert np.array_equal(result.astype(np.float32).view(np.uint32), d)
    assert len(d) == 3000


@pytest.mark.parametrize("name", [name for name in SETS if not name.startswith(("L40S", "H200", "A2"))])
def test_scalar_twin_is_bit_exact_too(name, recorded):
    a, b, c, d, fmt, how = recorded(name)
    unit = dot_unit(how["arch"], fmt, accumulate=how["accumulate"], instruction=how["instruction"])
    if how["accumulate"] == "float16":
        c = c.astype(np.float16).astype(np.float32)
    for row in range(0, 3000, 61):
        result = dot_scalar(a[row].tolist(), b[row].tolist(), float(c[row]), unit)
        assert np.float32(result).view(np.uint32) == d[row]


@pytest.mark.parametrize("name", ["V100_fp16_fp32", "A100_bf16_fp32", "H100_e5m2_fp16", "B200_tf32_fp32"])
def test_negating_a_and_c_negates_d(name, recorded):
    a, b, c, d, fmt, how = recorded(name)
    result = matmul(-a[:, None, :], b[:, :, None], -c[:, None, None], input=fmt, **how)[:, 0, 0]
    assert np.array_equal(-result.astype(np.float32), d.view(np.float32))

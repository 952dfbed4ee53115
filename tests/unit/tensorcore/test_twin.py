"""The array code against its scalar twin, on random operands of every unit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from mixte.formats import BLOCK_FORMATS, FORMATS, decode, round_to, to_blocks
from mixte.tensorcore import ARCHITECTURES, dot_scalar, dot_unit, inputs_of, matmul

PLAIN = [
    (arch, fmt, accumulate, instruction)
    for arch in ARCHITECTURES
    for fmt in inputs_of(arch)
    if fmt in FORMATS
    for accumulate in (("float32",) if fmt in {"bfloat16", "tf32"} else ("float32", "float16"))
    for instruction in ((None, "mma.sync") if arch in {"hopper", "blackwell"} and "float8" in fmt else (None,))
]


def codes(name, count, draw):
    """Numbers of a format: any of its codes, or those whose magnitude lies near 1."""
    fmt = FORMATS[name]
    raw = np.array(draw(st.lists(st.integers(0, 2**fmt.bits - 1), min_size=count, max_size=count)))
    values = decode(raw, fmt).astype(np.float64)
    if draw(st.booleans()):
        values = np.where(np.isfinite(values), values, 0)
    if draw(st.booleans()):  # tame exponents, where alignment and rounding decide
        exponent = np.frexp(values)[1]
        values = np.where(np.isfinite(values), np.ldexp(values, exponent % 7 - exponent), values)
        values = np.asarray(round_to(values, fmt, overflow="saturate"))
    return values


@pytest.mark.parametrize(("arch", "fmt", "accumulate", "instruction"), PLAIN)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_matmul_and_scalar_agree(arch, fmt, accumulate, instruction, data):
    rows, columns, length = (data.draw(st.integers(1, top)) for top in (3, 4, 70))
    a = codes(fmt, rows * length, data.draw).reshape(rows, length)
    b = codes(fmt, length * columns, data.draw).reshape(length, columns)
    c = codes(accumulate, rows * columns, data.draw).reshape(rows, columns)
    how = {"accumulate": accumulate, "instruction": instruction}
    result = matmul(a, b, c, arch=arch, input=fmt, threads=1, **how)
    unit = dot_unit(arch, fmt, **how)
    for i in range(rows):
        for j in range(columns):
            expected = np.array(dot_scalar(a[i].tolist(), b[:, j].tolist(), float(c[i, j]), unit), accumulate)
            same = result[i, j] == expected and np.signbit(result[i, j]) == np.signbit(expected)
            assert same or (np.isnan(result[i, j]) and np.isnan(expected))


@pytest.mark.parametrize("formats", [("float8_e4m3fn", "float8_e5m2"), ("float4_e2m1fn", "float6_e3m2fn")])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_mixed_formats_agree_with_the_scalar(formats, data):
    a, b = codes(formats[0], 40, data.draw), codes(formats[1], 40, data.draw)
    result = matmul(a[None], b[:, None], arch="blackwell", input=formats)[0, 0]
    expected = dot_scalar(a.tolist(), b.tolist(), 0.0, dot_unit("blackwell", *formats))
    assert np.array_equal(result, np.float32(expected), equal_nan=True)


@pytest.mark.parametrize("instruction", [None, "mxf8f6f4"])
@pytest.mark.parametrize("name", sorted(BLOCK_FORMATS))
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_block_formats_agree_with_the_scalar(name, instruction, data):
    if name == "nvfp4" and instruction:
        instruction = None
    length = data.draw(st.integers(1, 150))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    spread = data.draw(st.sampled_from([1, 8, 40]))
    x, y = (
        rng.standard_normal((2, length)) * np.exp2(rng.integers(-spread, spread, (2, length))) for _ in range(2)
    )
    a, b = to_blocks(x, name), to_blocks(y.T, name, axis=0)
    c = np.float32(data.draw(st.floats(-4, 4, width=32)))
    result = matmul(a, b, c, arch="blackwell", input=name, instruction=instruction)
    unit = dot_unit("blackwell", name, instruction=instruction)
    size, emin = a.format.block_size, a.format.scale.emin
    for i in range(2):
        for j in range(2):
            scales = np.repeat(a.scales[i], size)[:length], np.repeat(b.scales[:, j], size)[:length]
            scales = scales[0].tolist(), scales[1].tolist()
            factors = a.elements[i].tolist(), b.elements[:, j].tolist()
            assert result[i, j] == np.float32(
                dot_scalar(*factors, float(c), unit, scales=scales, scale_emin=emin)
            )


@pytest.mark.parametrize(("arch", "fmt", "accumulate", "instruction"), PLAIN)
def test_one_wild_value_changes_no_other_output(arch, fmt, accumulate, instruction):
    # It moves the tile from the narrow to the wide implementation: both must give the same bits.
    rng = np.random.default_rng(11)
    a = np.asarray(round_to(rng.standard_normal((9, 48)), fmt))
    b = np.asarray(round_to(rng.standard_normal((48, 33)), fmt))
    how = {"arch": arch, "input": fmt, "accumulate": accumulate, "instruction": instruction}
    c = round_to(rng.standard_normal((9, 33)), accumulate)
    tame = matmul(a, b, c, **how)
    wild = c.copy()
    wild[4, 5] = 2.0**-140 if accumulate == "float32" else np.nan
    result = matmul(a, b, wild, **how)
    differs = result != tame
    differs[4, 5] = False
    assert not differs.any()


def test_wide_exponents_within_one_tile_are_exact():
    rng = np.random.default_rng(12)
    a = np.asarray(
        round_to(np.ldexp(rng.standard_normal((5, 24)), rng.integers(-120, 120, (5, 24))), "bfloat16")
    )
    b = np.asarray(
        round_to(np.ldexp(rng.standard_normal((24, 6)), rng.integers(-120, 120, (24, 6))), "bfloat16")
    )
    result = matmul(a, b, arch="ampere", input="bfloat16")
    unit = dot_unit("ampere", "bfloat16")
    expected = [[dot_scalar(row.tolist(), column.tolist(), 0.0, unit) for column in b.T] for row in a]
    assert np.array_equal(result, np.array(expected, np.float32), equal_nan=True)

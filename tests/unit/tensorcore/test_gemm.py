"""Restarts, split-K and the scaled product."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mixte import InputError
from mixte.formats import round_to, to_blocks
from mixte.tensorcore import Chain, Restart, SplitK, matmul, scaled_matmul

E4M3 = "float8_e4m3fn"


@pytest.fixture(scope="module")
def operands():
    rng = np.random.default_rng(13)
    return (
        np.asarray(round_to(rng.standard_normal(shape), E4M3), np.float32) for shape in ((5, 700), (700, 7))
    )


@pytest.fixture(scope="module")
def a(operands):
    return next(operands)


@pytest.fixture(scope="module")
def b(a, operands):
    return next(operands)


def product(a, b, ks, accumulation=None):
    """The chain over some k, as separate calls would compute it."""
    how = {} if accumulation is None else {"accumulation": accumulation}
    return matmul(a[:, ks], b[ks], arch="hopper", input=E4M3, **how)


def test_restart_adds_chains_of_128(a, b):
    expected = np.zeros((5, 7), np.float32)
    for start in range(0, 700, 128):
        expected = expected + product(a, b, np.arange(start, min(start + 128, 700)))
    assert np.array_equal(product(a, b, np.arange(700), Restart()), expected)
    assert not np.array_equal(product(a, b, np.arange(700), Restart()), product(a, b, np.arange(700)))


def test_contiguous_split_gives_each_part_a_run_of_tiles(a, b):
    # 6 tiles of 128 (the last of 60) in 4 parts: runs of 2 tiles, and nothing for the last part.
    runs = [np.arange(0, 256), np.arange(256, 512), np.arange(512, 700)]
    expected = (product(a, b, runs[0]) + product(a, b, runs[1])) + product(a, b, runs[2])
    assert np.array_equal(product(a, b, np.arange(700), SplitK(parts=4)), expected)


def test_split_in_turn_restarts_within_the_tiles_of_a_part(a, b):
    split = SplitK(parts=3, tile=64, deal="in_turn", restart=128)
    parts = [np.flatnonzero(np.arange(700) // 64 % 3 == part) for part in range(3)]
    expected = sum((product(a, b, ks, Restart()) for ks in parts[1:]), start=product(a, b, parts[0], Restart()))
    assert np.array_equal(product(a, b, np.arange(700), split), expected)


def test_pairwise_combination_starts_from_the_last_part(a, b):
    p = [product(a, b, np.flatnonzero(np.arange(700) // 64 % 5 == part)) for part in range(5)]
    split = SplitK(parts=5, tile=64, deal="in_turn", combine="pairwise")
    # h = 3: p4 + (p0 + p3) + p1 + p2, for 1 + 3 reaches the last part.
    assert np.array_equal(product(a, b, np.arange(700), split), ((p[4] + (p[0] + p[3])) + p[1]) + p[2])


def test_one_part_is_one_chain(a, b):
    split = SplitK(parts=1, combine="pairwise")
    assert np.array_equal(product(a, b, np.arange(700), split), product(a, b, np.arange(700), Chain()))


@pytest.mark.parametrize("accumulation", [Restart(), SplitK(parts=2)])
def test_c_with_a_cut_k_is_refused(a, b, accumulation):
    with pytest.raises(InputError, match="add C to the result"):
        matmul(a, b, 1.0, arch="hopper", input=E4M3, accumulation=accumulation)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Restart(every=0), "every must be at least 1, got 0"),
        (lambda: SplitK(parts=0), "parts must be at least 1"),
        (lambda: SplitK(parts=2, tile=0), "tile must be at least 1"),
        (lambda: SplitK(parts=2, restart=0), "restart must be at least 1"),
        (lambda: SplitK(parts=2, deal="round"), "'round'.*contiguous, in_turn"),
        (lambda: SplitK(parts=2, combine="tree"), "'tree'.*serial, pairwise"),
    ],
)
def test_cut_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("output", ["float32", "bfloat16", "float16", E4M3, "float8_e5m2"])
def test_epilogue_scales_in_float32_and_then_rounds(a, b, output):
    scales = {"scale_a": 0.37, "scale_b": 1.9}
    result = scaled_matmul(a, b, arch="ada", accumulation=Restart(), output=output, **scales)
    alpha = np.float32(0.37) * np.float32(1.9)
    y = matmul(a, b, arch="ada", input=E4M3, accumulation=Restart()) * alpha
    dtype = getattr(ml_dtypes, output, None) or np.dtype(output)
    assert np.array_equal(result, y.astype(dtype).astype(np.float32))


def test_float8_output_is_scaled_and_saturates(a, b):
    result = scaled_matmul(a, b, arch="ada", accumulation=Chain(), output=E4M3, scale_output=1e4)
    y = matmul(a, b, arch="ada", input=E4M3) * np.float32(1e4)
    assert np.array_equal(np.abs(result), np.full((5, 7), 448.0))
    assert np.array_equal(np.signbit(result), np.signbit(y))


def test_tensor_scales_of_nvfp4_belong_to_the_epilogue():
    rng = np.random.default_rng(14)
    x, y = (
        to_blocks(rng.standard_normal((3, 64)), "nvfp4"),
        to_blocks(rng.standard_normal((64, 4)), "nvfp4", axis=0),
    )
    result = scaled_matmul(
        x,
        y,
        scale_a=x.tensor_scale,
        scale_b=y.tensor_scale,
        arch="blackwell",
        input="nvfp4",
        accumulation=Chain(),
    )
    exact = x.dequantize().astype(np.float64) @ y.dequantize()
    # 35 fraction bits lose nothing here; four roundings to float32 remain: alpha, d, y and dequantize (of 64 terms).
    size = np.abs(x.dequantize()).astype(np.float64) @ np.abs(y.dequantize())
    assert (np.abs(result - exact) <= size * 8 * 2.0**-24).all()


def test_nan_of_the_epilogue_is_canonical(a, b):
    result = scaled_matmul(a, b, scale_a=np.nan, arch="ada", accumulation=Chain(), output="bfloat16")
    assert set(result.view(np.uint32).ravel().tolist()) == {0x7FFFFFFF}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"output": "int8"}, "'int8'.*float32, bfloat16"),
        ({"output": "float16", "scale_output": 2.0}, "scale_output is for a float8 output"),
    ],
)
def test_epilogue_that_makes_no_sense_is_refused(a, b, arguments, message):
    with pytest.raises(InputError, match=message):
        scaled_matmul(a, b, arch="ada", accumulation=Chain(), **arguments)

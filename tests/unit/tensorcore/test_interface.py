"""Shapes, dtypes, threads, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mixte import InputError
from mixte.formats import round_to, to_blocks
from mixte.tensorcore import ARCHITECTURES, dot_unit, inputs_of, matmul


@pytest.fixture(scope="module")
def random():
    rng = np.random.default_rng(15)
    return lambda *shape: np.asarray(round_to(rng.standard_normal(shape), "float16"), np.float32)


def test_leading_axes_broadcast_as_in_numpy(random):
    a, b, c = random(2, 1, 3, 20), random(4, 20, 5), random(4, 1, 5)
    d = matmul(a, b, c, arch="ampere")
    assert d.shape == (2, 4, 3, 5)
    for i in range(2):
        for j in range(4):
            assert np.array_equal(d[i, j], matmul(a[i, 0], b[j], c[j], arch="ampere"))


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (300, 7, 9), (7, 300, 9), (1, 2000, 5), (2000, 1, 5), (33, 17, 130)]
)
@pytest.mark.parametrize("arch", ["volta", "hopper"])
def test_tiles_and_threads_do_not_change_a_bit(random, arch, shape):
    rows, columns, length = shape
    a, b = random(rows, length), random(length, columns)
    d = matmul(a, b, arch=arch, threads=1)
    assert np.array_equal(matmul(a, b, arch=arch, threads=3), d)
    assert np.array_equal(matmul(b.T, a.T, arch=arch).T, d)
    rows_alone = np.concatenate([matmul(a[i : i + 1], b, arch=arch) for i in range(0, rows, max(1, rows // 5))])
    assert np.array_equal(rows_alone, d[:: max(1, rows // 5)])


def test_result_is_close_to_the_exact_product(random):
    a, b = random(40, 512), random(512, 30)
    exact = a.astype(np.float64) @ b
    # Each of 128 blocks of 4 truncates four products, c and the sum by less than 2**-23 of the largest term or sum.
    bound = 128 * 6 * 2.0**-23 * (np.abs(a).astype(np.float64) @ np.abs(b))
    assert (np.abs(matmul(a, b, arch="volta") - exact) < bound).all()


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 3, 0)])
def test_empty_matrices_give_empty_or_c(shape):
    rows, columns, length = shape
    d = matmul(np.zeros((rows, length)), np.zeros((length, columns)), 2.0, arch="volta")
    assert np.array_equal(d, np.full((rows, columns), 2.0, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_any_dtype_that_holds_the_values_is_taken(dtype):
    a = np.arange(6).reshape(2, 3).astype(dtype)
    assert matmul(a, a.T, arch="turing").tolist() == [[5.0, 14.0], [14.0, 50.0]]


def test_dtype_of_the_format_itself_is_taken():
    a = np.ones((2, 8)).astype(ml_dtypes.float8_e4m3fn)
    assert matmul(a, a.T, arch="ada", input="float8_e4m3fn").tolist() == [[8.0, 8.0], [8.0, 8.0]]


def test_arguments_are_left_alone(random):
    a, b, c = random(3, 8), random(8, 4), random(3, 4)
    kept = [x.copy() for x in (a, b, c)]
    matmul(a, b, c, arch="ampere")
    assert all(np.array_equal(x, y) for x, y in zip((a, b, c), kept, strict=True))


def test_c_is_rounded_to_the_accumulator():
    zero = np.zeros((1, 1))
    assert matmul(zero, zero, 1 + 2.0**-11 + 2.0**-20, arch="volta", accumulate="float16")[0, 0] == 1 + 2.0**-10
    assert matmul(zero, zero, 1e300, arch="volta")[0, 0] == np.inf


def test_operands_can_be_rounded_on_the_way_in(random):
    a, b = np.random.default_rng(16).standard_normal((2, 3, 3))
    rounded = matmul(np.float16(a), np.float16(b), arch="volta")
    assert np.array_equal(matmul(a, b, arch="volta", rounding="nearest_even"), rounded)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_listed_input_has_a_unit_with_a_source(arch):
    for name in inputs_of(arch):
        unit = dot_unit(arch, name)
        assert unit.source
        assert unit.evidence in {"recorded", "published"}


def test_what_no_recording_covers_says_so():
    assert dot_unit("volta", "float16").evidence == "recorded"
    assert dot_unit("turing", "float16").evidence == "published"
    assert dot_unit("hopper", "tf32").evidence == "published"
    assert dot_unit("hopper", "float8_e5m2", accumulate="float16").evidence == "published"
    assert dot_unit("blackwell", "nvfp4").evidence == "published"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arch": "pascal"}, r"'pascal'.*volta, turing, ampere, ada, hopper, blackwell.*V100 is volta"),
        (
            {"arch": "volta", "input": "bfloat16"},
            r"volta do not multiply bfloat16 \(ampere, ada, hopper, blackwell can\).*multiply: float16",
        ),
        ({"arch": "hopper", "input": "float32"}, r"hopper do not multiply float32 \(no architecture can\)"),
        ({"arch": "ada", "input": "fp8"}, r"unknown format 'fp8'.*float8_e5m2, float8_e4m3fn"),
        ({"arch": "ampere", "input": "bfloat16", "accumulate": "float16"}, "bfloat16 in float32 only"),
        ({"arch": "ampere", "accumulate": "float64"}, "'float64'.*float32, float16"),
        ({"arch": "ampere", "input": ("float16", "bfloat16")}, "float16 by bfloat16: use one format"),
        ({"arch": "volta", "instruction": "wgmma"}, "no instruction 'wgmma' for float16.*It has: mma"),
        ({"arch": "volta", "threads": 0}, "threads must be at least 1"),
        ({"arch": "volta", "rounding": "stochastic"}, "not rounded stochastically here.*round_to first"),
        ({"arch": "volta", "rounding": "up"}, "unknown rounding 'up'"),
    ],
)
def test_what_the_hardware_lacks_is_refused_with_what_it_has(arguments, message):
    with pytest.raises(InputError, match=message):
        matmul(np.ones((2, 2)), np.ones((2, 2)), **arguments)


@pytest.mark.parametrize(
    ("a", "b", "c", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 3)), None, "A has 3 columns and B has 2 rows"),
        (np.ones(3), np.ones((3, 1)), None, r"A must be a matrix.*got 1 dimension"),
        (np.ones((2, 1, 3)), np.ones((4, 3, 1)), None, r"leading axes of A, \(2,\), and of B, \(4,\)"),
        (np.ones((2, 3)), np.ones((3, 2)), np.ones(5), r"C has shape \(5,\).*\(2, 2\)"),
        (
            np.full((1, 2), 0.1),
            np.ones((2, 1)),
            None,
            r"A\[0, 0\] = 0.1 is not a number of float16.*rounding='nearest_even'",
        ),
        (np.ones((1, 2)), np.array([[1.0], [1e6]]), None, r"B\[1, 0\] = 1000000.0 is not"),
        (np.ones((1, 2), complex), np.ones((2, 1)), None, "complex"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(a, b, c, message):
    with pytest.raises(InputError, match=message):
        matmul(a, b, c, arch="volta")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: (np.ones((2, 32)), to_blocks(np.ones((32, 2)), "mxfp4", axis=0)),
            r"A must be in the block format mxfp4, got ndarray.*axis=-1",
        ),
        (
            lambda: (to_blocks(np.ones((2, 32)), "nvfp4"), None),
            "A must be in the block format mxfp4, got nvfp4",
        ),
        (
            lambda: (to_blocks(np.ones((2, 32)), "mxfp4", axis=0), None),
            r"blocks of A lie along axis 0.*sums over axis 1",
        ),
    ],
)
def test_blocks_that_do_not_fit_are_refused(make, message):
    a, b = make()
    with pytest.raises(InputError, match=message):
        matmul(
            a, to_blocks(np.ones((32, 2)), "mxfp4", axis=0) if b is None else b, arch="blackwell", input="mxfp4"
        )


def test_blocks_for_a_plain_input_are_refused():
    a = to_blocks(np.ones((2, 32)), "mxfp4")
    with pytest.raises(InputError, match="A is in the block format mxfp4, but input says float16"):
        matmul(a, np.ones((32, 2)), arch="blackwell")

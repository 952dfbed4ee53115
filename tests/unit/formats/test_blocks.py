"""Block formats: MX against gfloat's block quantiser, NVFP4 against the steps of its paper."""

from __future__ import annotations

import numpy as np
import pytest
from gfloat import BlockFormatInfo
from gfloat.block import compute_scale_amax, quantize_block

from mixte import InputError
from mixte.formats import BLOCK_FORMATS, NVFP4, block_format, is_member, round_scalar, to_blocks

MX = sorted(name for name in BLOCK_FORMATS if name.startswith("mx"))


@pytest.mark.parametrize("name", MX)
def test_mx_blocks_are_those_of_gfloat(name, gfloat_format):
    fmt = BLOCK_FORMATS[name]
    info = BlockFormatInfo(name, gfloat_format(fmt.element.name), 32, gfloat_format("float8_e8m0fnu"))
    rng = np.random.default_rng(7)
    x = (rng.standard_normal((40, 64)) * np.exp2(rng.integers(-20, 20, (40, 64)))).astype(np.float32)
    x[0], x[1, :32], x[2] = 0, 1e-44, np.finfo(np.float32).max
    expected = [
        [quantize_block(info, block.astype(np.float64), compute_scale_amax) for block in np.split(row, 2)]
        for row in x
    ]
    assert np.array_equal(to_blocks(x, fmt).dequantize(), np.reshape(expected, x.shape).astype(np.float32))


@pytest.mark.parametrize("name", sorted(BLOCK_FORMATS))
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_elements_and_scales_are_numbers_of_their_formats_and_lie_along_the_axis(name, axis):
    fmt = BLOCK_FORMATS[name]
    x = np.random.default_rng(8).standard_normal((70, 33, 40)).astype(np.float32)
    blocks = to_blocks(x, fmt, axis=axis)
    assert is_member(blocks.elements, fmt.element).all()
    assert is_member(blocks.scales, fmt.scale).all()
    shape = list(x.shape)
    shape[axis] = -(-shape[axis] // fmt.block_size)
    assert blocks.scales.shape == tuple(shape)
    moved = to_blocks(np.moveaxis(x, axis, -1), fmt)
    assert np.array_equal(blocks.dequantize(), np.moveaxis(moved.dequantize(), -1, axis))


def test_nvfp4_takes_the_steps_of_its_paper():
    x = (np.random.default_rng(9).standard_normal((6, 48)) * 3).astype(np.float32)
    blocks = to_blocks(x, "nvfp4")
    one = np.float32(1)
    encode = np.float32(6 * 448) / np.abs(x).max()
    assert blocks.tensor_scale == float(one / encode)
    for row in range(6):
        for block in range(3):
            part = x[row, 16 * block : 16 * block + 16]
            wanted = np.abs(part).max() / np.float32(6) * encode
            scale = np.float32(round_scalar(float(wanted), NVFP4.scale, overflow="saturate"))
            assert blocks.scales[row, block] == scale
            factor = one / (scale * (one / encode))
            expected = [round_scalar(float(value * factor), NVFP4.element) for value in part]
            assert blocks.elements[row, 16 * block : 16 * block + 16].tolist() == expected


def test_largest_element_of_an_nvfp4_tensor_is_kept():
    x = np.zeros((2, 32), np.float32)
    x[1, 17] = -123.0
    assert to_blocks(x, "nvfp4").dequantize()[1, 17] == pytest.approx(-123.0, rel=2.0**-22)  # three roundings


@pytest.mark.parametrize("name", sorted(BLOCK_FORMATS))
def test_zeros_stay_zeros(name):
    assert not to_blocks(np.zeros((2, 40)), name).dequantize().any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_mx_block_with_a_non_finite_element_stands_for_nan_and_the_others_do_not(bad):
    x = np.ones((1, 64), np.float32)
    x[0, 3] = bad
    blocks = to_blocks(x, "mxfp4")
    assert np.isnan(blocks.dequantize()[0]).tolist() == [True] * 32 + [False] * 32
    assert is_member(blocks.elements, "float4_e2m1fn").all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nvfp4_tensor_with_a_non_finite_element_stands_for_nan(bad):
    x = np.ones((2, 32), np.float32)
    x[0, 3] = bad
    assert np.isnan(to_blocks(x, "nvfp4").dequantize()).all()


def test_storage_counts_the_scales():
    assert BLOCK_FORMATS["mxfp8_e4m3"].bits_per_element == 8.25
    assert BLOCK_FORMATS["mxfp4"].bits_per_element == 4.25
    assert NVFP4.bits_per_element == 4.5


def test_elements_can_be_rounded_stochastically():
    x = np.full((1, 32), 1.2, np.float32)
    x[0, 0] = 4.0
    rng = np.random.default_rng(10)
    elements = to_blocks(x, "mxfp4", rounding="stochastic", generator=rng).elements
    assert set(elements[0, 1:].tolist()) == {1.0, 1.5}


def test_unknown_block_format_names_all():
    with pytest.raises(InputError, match=r"'mxfp5'.*mxfp8_e5m2.*nvfp4"):
        block_format("mxfp5")


@pytest.mark.parametrize(("x", "axis"), [(np.zeros(3), 1), (np.float32(1), -1)])
def test_axis_that_the_array_lacks_is_refused(x, axis):
    with pytest.raises(InputError, match=f"axis {axis}"):
        to_blocks(x, "nvfp4", axis=axis)

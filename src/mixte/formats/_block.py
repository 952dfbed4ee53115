"""Block formats: narrow elements that share a scale, and NVFP4 with a second scale for the whole tensor."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from mixte._errors import InputError
from mixte.formats._array import round_to
from mixte.formats._table import (
    FLOAT4_E2M1FN,
    FLOAT6_E2M3FN,
    FLOAT6_E3M2FN,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT8_E8M0FNU,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from mixte.formats._float import FloatFormat
    from mixte.formats._modes import Rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFormat:
    """A format of blocks: ``block_size`` elements, one scale, and for some a scale of the whole tensor.

    Attributes:
        name: The format's name.
        element: The format of the elements.
        scale: The format of a block's scale.
        block_size: Elements in a block.
        has_tensor_scale: True if a float32 scale of the whole tensor multiplies the scales of the blocks.
        source: The specification that defines it.
    """

    name: str
    element: FloatFormat
    scale: FloatFormat
    block_size: int
    has_tensor_scale: bool
    source: str

    def __str__(self) -> str:
        return self.name

    @property
    def bits_per_element(self) -> float:
        """Storage for one element, its share of the block's scale included (not that of the tensor's)."""
        return self.element.bits + self.scale.bits / self.block_size

    @property
    def max(self) -> float:
        """The largest magnitude that a block can hold, with a tensor scale of 1."""
        return self.element.max * self.scale.max


_MX = "OCP Microscaling Formats (MX) Specification 1.0"


def _mx(name: str, element: FloatFormat) -> BlockFormat:
    return BlockFormat(
        name=name, element=element, scale=FLOAT8_E8M0FNU, block_size=32, has_tensor_scale=False, source=_MX
    )


MXFP8_E5M2 = _mx("mxfp8_e5m2", FLOAT8_E5M2)
MXFP8_E4M3 = _mx("mxfp8_e4m3", FLOAT8_E4M3FN)
MXFP6_E3M2 = _mx("mxfp6_e3m2", FLOAT6_E3M2FN)
MXFP6_E2M3 = _mx("mxfp6_e2m3", FLOAT6_E2M3FN)
MXFP4 = _mx("mxfp4", FLOAT4_E2M1FN)
NVFP4 = BlockFormat(
    name="nvfp4",
    element=FLOAT4_E2M1FN,
    scale=FLOAT8_E4M3FN,
    block_size=16,
    has_tensor_scale=True,
    source="NVIDIA, Pretraining large language models with NVFP4, arXiv 2509.25149, appendix",
)

BLOCK_FORMATS: Mapping[str, BlockFormat] = MappingProxyType(
    {fmt.name: fmt for fmt in (MXFP8_E5M2, MXFP8_E4M3, MXFP6_E3M2, MXFP6_E2M3, MXFP4, NVFP4)}
)
"""Every block format by its name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockScaled:
    """An array in a block format, its elements and scales kept as values.

    Attributes:
        format: The block format.
        elements: float32, the shape of the array; numbers of ``format.element``.
        scales: float32, the shape of the array except along ``axis``, where there is one scale for each block;
            numbers of ``format.scale``.
        tensor_scale: What multiplies the whole; None in a format without one.
        axis: The axis along which the blocks lie, not negative.
    """

    format: BlockFormat
    elements: NDArray[np.float32]
    scales: NDArray[np.float32]
    tensor_scale: float | None
    axis: int

    def dequantize(self) -> NDArray[np.float32]:
        """Return the values that the blocks stand for, as float32: element x block scale x tensor scale.

        The product of element and scale is exact; one rounding to float32 follows if there is a tensor scale.
        """
        repeated = np.repeat(self.scales, self.format.block_size, axis=self.axis)
        length = self.elements.shape[self.axis]
        exact = self.elements.astype(np.float64) * np.take(repeated, range(length), axis=self.axis)
        if self.tensor_scale is not None:
            exact *= self.tensor_scale
        with np.errstate(over="ignore"):
            return exact.astype(np.float32)


def block_format(name: str | BlockFormat) -> BlockFormat:
    """Return the block format of that name.

    Raises:
        InputError: There is no block format of that name.
    """
    if isinstance(name, BlockFormat):
        return name
    try:
        return BLOCK_FORMATS[name]
    except KeyError:
        near = get_close_matches(name, BLOCK_FORMATS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise InputError(
            f"unknown block format '{name}'.{hint} The block formats are: {', '.join(BLOCK_FORMATS)}."
        ) from None


def to_blocks(
    x: ArrayLike,
    fmt: BlockFormat | str,
    *,
    axis: int = -1,
    rounding: Rounding = "nearest_even",
    generator: np.random.Generator | None = None,
) -> BlockScaled:
    """Bring an array into a block format.

    MX formats follow the OCP specification, section 6.3: a block's scale is 2**(floor(log2(largest magnitude))
    - emax of the element format), and the elements are rounded with saturation. NVFP4 follows the appendix of
    arXiv 2509.25149, step by step in float32.

    Args:
        x: Array of at least one dimension; taken as float32.
        fmt: The block format, or its name.
        axis: The axis along which the blocks lie: the one that a matrix product sums over. The last block may
            be short.
        rounding: How the elements are rounded. Scales are always rounded as the format's source says.
        generator: As in :func:`round_to`.

    Returns:
        The elements and scales. A block that holds NaN or an infinity gets the scale NaN, and so stands for NaN
        as a whole; in NVFP4, whose tensor scale depends on every element, the whole tensor does. A block of
        zeros gets the smallest scale (MX) or the scale 0 (NVFP4).

    Raises:
        InputError: An unknown format, an axis that the array does not have, or a wrong generator.

    Example:
        >>> import numpy as np
        >>> to_blocks(np.float32([[1.0, 7.0]]), "mxfp4").dequantize().tolist()
        [[1.0, 6.0]]
    """
    fmt = block_format(fmt)
    values = np.asarray(round_to(np.asarray(x), "float32"), np.float32)
    if not -values.ndim <= axis < values.ndim:
        raise InputError(f"axis {axis} is out of range for an array of {values.ndim} dimensions.")
    axis %= values.ndim
    blocks = _split(values, fmt.block_size, axis)
    largest = np.abs(blocks).max(axis=-1, initial=0)
    tensor_scale: float | None = None
    if fmt.has_tensor_scale:
        scales, tensor_scale, scaled = _nvfp4(blocks, largest, fmt)
    else:
        scales = _mx_scales(largest, fmt)
        scaled = blocks.astype(np.float64) / scales[..., None]
    elements = round_to(scaled, fmt.element, rounding=rounding, overflow="saturate", generator=generator)
    elements[np.isnan(scales)] = 0  # the scale says NaN for the block, and most element formats have none
    return BlockScaled(
        format=fmt,
        elements=_join(elements.astype(np.float32), values.shape, axis),
        scales=np.moveaxis(scales, -1, axis),
        tensor_scale=tensor_scale,
        axis=axis,
    )


def _split(values: NDArray[np.float32], size: int, axis: int) -> NDArray[np.float32]:
    """Return the blocks along a new last axis, the last one padded with zeros."""
    moved = np.moveaxis(values, axis, -1)
    missing = -moved.shape[-1] % size
    padded = np.pad(moved, [(0, 0)] * (moved.ndim - 1) + [(0, missing)])
    return padded.reshape(*padded.shape[:-1], -1, size)


def _join(blocks: NDArray[np.float32], shape: tuple[int, ...], axis: int) -> NDArray[np.float32]:
    flat = blocks.reshape(*blocks.shape[:-2], -1)[..., : shape[axis]]
    return np.ascontiguousarray(np.moveaxis(flat, -1, axis))


def _mx_scales(largest: NDArray[np.float32], fmt: BlockFormat) -> NDArray[np.float32]:
    """The power of two that brings the largest magnitude into the element format's last binade."""
    exponent = np.frexp(largest)[1] - 1 - fmt.element.emax
    scales = np.ldexp(np.float32(1), np.clip(exponent, fmt.scale.emin, fmt.scale.emax))
    scales = np.where(largest == 0, np.float32(fmt.scale.smallest), scales)
    return np.where(np.isfinite(largest), scales, np.float32(np.nan))


def _nvfp4(
    blocks: NDArray[np.float32], largest: NDArray[np.float32], fmt: BlockFormat
) -> tuple[NDArray[np.float32], float, NDArray[np.float32]]:
    """Return the blocks' scales, the tensor's scale, and the scaled elements; every step rounds to float32."""
    limit = np.float32(np.finfo(np.float32).max)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        encode = np.float32(fmt.element.max * fmt.scale.max) / largest.max(initial=0)
        encode = np.minimum(encode, limit)
        if encode == 0:
            encode = np.float32(np.nan)  # an infinity among the elements
        decode = np.float32(1) / encode
        wanted = largest / np.float32(fmt.element.max) * encode
        scales = np.asarray(round_to(wanted, fmt.scale, overflow="saturate"), np.float32)
        factor = np.minimum(np.float32(1) / (scales * decode), limit)
        scaled = blocks * factor[..., None]
    return scales, float(decode), scaled

"""Matrix products and convolutions in numpy, by a given matrix product, with their gradients.

A convolution is computed as GPUs' implicit matrix products have it: forward, K runs over the positions of the filter
and, within a position, over the input channels; for the gradient of the input over the positions and the output
channels, of the gradient upsampled by the strides; for that of the filter over the images and the output positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

import numpy as np

from mixte._errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float32]"
MatrixProduct: TypeAlias = "Callable[[Array, Array], Array]"
"""From (..., M, K) and (..., K, N) to (..., M, N)."""


class HostProduct(Protocol):
    """A function that is linear in each of two arrays, with its gradients."""

    def forward(self, a: Array, b: Array, multiply: MatrixProduct) -> Array:
        """Return the product."""
        ...

    def gradient_a(self, dy: Array, b: Array, shape: tuple[int, ...], multiply: MatrixProduct) -> Array:
        """Return the gradient of the first operand, whose shape is given."""
        ...

    def gradient_b(self, dy: Array, a: Array, shape: tuple[int, ...], multiply: MatrixProduct) -> Array:
        """Return the gradient of the second operand, whose shape is given."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Contraction:
    """A product of two arrays by Einstein's summation convention, each letter once in an array.

    Attributes:
        a: The letters of the first operand's axes.
        b: Those of the second.
        out: Those of the result. Every letter of it is in an operand, and one that is in a single operand is in it.
    """

    a: str
    b: str
    out: str

    def forward(self, a: Array, b: Array, multiply: MatrixProduct) -> Array:
        sizes = _sizes(self.a, a) | _sizes(self.b, b)
        batch = [c for c in self.out if c in self.a and c in self.b]
        rows = [c for c in self.out if c not in self.b]
        columns = [c for c in self.out if c not in self.a]
        summed = [c for c in self.a if c in self.b and c not in self.out]

        def count(letters: list[str]) -> int:
            return math.prod(sizes[c] for c in letters)

        left = _ordered(a, self.a, [*batch, *rows, *summed]).reshape(count(batch), count(rows), count(summed))
        right = _ordered(b, self.b, [*batch, *summed, *columns]).reshape(
            count(batch), count(summed), count(columns)
        )
        letters = [*batch, *rows, *columns]
        result = multiply(left, right).reshape([sizes[c] for c in letters])
        return _ordered(result, "".join(letters), list(self.out))

    def gradient_a(self, dy: Array, b: Array, shape: tuple[int, ...], multiply: MatrixProduct) -> Array:
        del shape
        return Contraction(self.out, self.b, self.a).forward(dy, b, multiply)

    def gradient_b(self, dy: Array, a: Array, shape: tuple[int, ...], multiply: MatrixProduct) -> Array:
        del shape
        return Contraction(self.a, self.out, self.b).forward(a, dy, multiply)


def contraction(equation: str) -> Contraction:
    """Read an equation such as ``"abc,cd->abd"``.

    Raises:
        InputError: It is none of two operands, has an ellipsis, repeats a letter in an operand, or sums a single
            operand over an axis.
    """
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    a, comma, b = inputs.partition(",")
    letters_once = all(len(set(part)) == len(part) for part in (a, b, out))
    complete = set(a) ^ set(b) <= set(out) <= set(a) | set(b)
    if not (arrow and comma) or not (a + b + out).isalpha() or not letters_once or not complete:
        raise InputError(
            f"the product '{equation}' is none that the exact model computes: two operands, each letter once in an "
            "operand, and every letter of a single operand in the result."
        )
    return Contraction(a, b, out)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution with channels last: x (N, *space, C), filter (*window, C / groups, F), y (N, *space, F).

    Attributes:
        strides: For each spatial axis.
        dilations: For each spatial axis.
        padding: Zeros before and after, for each spatial axis.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    def forward(self, a: Array, b: Array, multiply: MatrixProduct) -> Array:
        groups = a.shape[-1] // b.shape[-2]
        padded = np.pad(a, ((0, 0), *self.padding, (0, 0)))
        parts = [
            self._correlate(x, w, multiply)
            for x, w in zip(np.split(padded, groups, axis=-1), np.split(b, groups, axis=-1), strict=True)
        ]
        return np.concatenate(parts, axis=-1)

    def output_size(self, size: Sequence[int | None], window: Sequence[int]) -> tuple[int | None, ...]:
        """Return the size of the result along its spatial axes; None where that of the input is None."""
        return tuple(
            None if n is None else (n + sum(zeros) - gap * (taps - 1) - 1) // step + 1
            for n, taps, step, gap, zeros in zip(
                size, window, self.strides, self.dilations, self.padding, strict=True
            )
        )

    def _correlate(self, x: Array, w: Array, multiply: MatrixProduct) -> Array:
        patches = _patches(x, w.shape[:-2], self.strides, self.dilations)
        rows = patches.reshape(-1, math.prod(w.shape[:-1]))
        return multiply(rows, w.reshape(-1, w.shape[-1])).reshape(*patches.shape[: x.ndim - 1], w.shape[-1])

    def gradient_a(self, dy: Array, b: Array, shape: tuple[int, ...], multiply: MatrixProduct) -> Array:
        groups = shape[-1] // b.shape[-2]
        window, axes = b.shape[:-2], range(len(self.strides))
        reach = [self.dilations[i] * (window[i] - 1) for i in axes]
        padded = [shape[1 + i] + sum(self.padding[i]) for i in axes]
        # dy with zeros between its values, so that it meets the filter, turned round, at stride 1.
        spread = np.zeros((shape[0], *(padded[i] + reach[i] for i in axes), dy.shape[-1]), np.float32)
        spots = tuple(
            slice(reach[i], reach[i] + (dy.shape[1 + i] - 1) * self.strides[i] + 1, self.strides[i])
            for i in axes
        )
        spread[(slice(None), *spots)] = dy
        turned = np.flip(b, axis=tuple(axes)).swapaxes(-1, -2)
        plain = Convolution(
            strides=(1,) * len(window), dilations=self.dilations, padding=((0, 0),) * len(window)
        )
        parts = [
            plain._correlate(x, w, multiply)
            for x, w in zip(np.split(spread, groups, axis=-1), np.split(turned, groups, axis=-2), strict=True)
        ]
        whole = np.concatenate(parts, axis=-1)
        inside = tuple(slice(self.padding[i][0], self.padding[i][0] + shape[1 + i]) for i in axes)
        return whole[(slice(None), *inside)]

    def gradient_b(self, dy: Array, a: Array, shape: tuple[int, ...], multiply: MatrixProduct) -> Array:
        groups = a.shape[-1] // shape[-2]
        padded = np.pad(a, ((0, 0), *self.padding, (0, 0)))
        parts: list[Array] = []
        for x, d in zip(np.split(padded, groups, axis=-1), np.split(dy, groups, axis=-1), strict=True):
            patches = _patches(x, shape[:-2], self.strides, self.dilations).reshape(-1, math.prod(shape[:-1]))
            parts.append(multiply(patches.T, d.reshape(-1, d.shape[-1])).reshape(*shape[:-1], d.shape[-1]))
        return np.concatenate(parts, axis=-1)


def convolution(
    size: Sequence[int | None],
    window: Sequence[int],
    *,
    strides: int | Sequence[int],
    dilations: int | Sequence[int],
    padding: str,
) -> Convolution:
    """Return a convolution by the arguments that Keras has for it.

    Args:
        size: Of the input, along its spatial axes.
        window: Of the filter.
        strides: One, or one for each axis.
        dilations: One, or one for each axis.
        padding: ``"valid"`` or ``"same"``: as many outputs as size / stride, rounded up, with the odd zero after.

    Raises:
        InputError: The padding depends on a size that is not known.
    """
    rank = len(window)
    steps = (strides,) * rank if isinstance(strides, int) else tuple(strides)
    gaps = (dilations,) * rank if isinstance(dilations, int) else tuple(dilations)
    zeros: list[tuple[int, int]] = []
    for i in range(rank):
        total = 0
        if padding.lower() == "same":
            length = size[i]
            if length is None:
                raise InputError(
                    "the exact model pads a convolution by the size of its input: give the model's Input a size "
                    "along every spatial axis."
                )
            outputs = -(-length // steps[i])
            total = max((outputs - 1) * steps[i] + gaps[i] * (window[i] - 1) + 1 - length, 0)
        zeros.append((total // 2, total - total // 2))
    return Convolution(strides=steps, dilations=gaps, padding=tuple(zeros))


def _sizes(letters: str, array: Array) -> dict[str, int]:
    return dict(zip(letters, array.shape, strict=True))


def _ordered(array: Array, letters: str, order: list[str]) -> Array:
    return array.transpose([letters.index(c) for c in order])


def _patches(
    x: Array, window: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> NDArray[Any]:
    """Return a view (N, *outputs, *window, C) of what the filter meets at each output."""
    axes = tuple(range(1, 1 + len(window)))
    reach = tuple(d * (w - 1) + 1 for d, w in zip(dilations, window, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(x, reach, axis=axes)  # (N, *outputs, C, *reach)
    outputs = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilations)
    chosen = views[(slice(None), *outputs, slice(None), *taps)]
    return np.moveaxis(chosen, 1 + len(window), -1)

"""Compute the products of chosen layers on the host, bit for bit as an architecture's Tensor Cores do.

Keras's own operations are replaced here, not the backend's: whatever the backend, they have one signature. Those
that the exact model does not cover stay in float32 accumulation, with a warning.
"""

from __future__ import annotations

import functools
import string
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from keras.src import backend as keras_backend  # where Keras's layers find these operations is not public

from mixte._errors import MixteWarning
from mixte.formats import round_to
from mixte.keras._emulation_float8 import FORWARD, GRADIENT
from mixte.keras._emulation_host import Contraction, contraction, convolution
from mixte.keras._emulation_scope import ExactProducts, products
from mixte.keras._emulation_tensors import cast, float_name, on_host, read, variable_types, with_gradient
from mixte.keras._framework import keras
from mixte.tensorcore import matmul as tensor_core_matmul

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.formats import FloatFormat
    from mixte.keras._emulation_host import Array, HostProduct

_NOT_COVERED = ("depthwise_conv", "separable_conv", "conv_transpose", "dot_product_attention")
_OPERANDS = ("x1", "inputs", "x2", "kernel")
_INSTALLED: list[bool] = []
_keras_numpy: Any = keras_backend.numpy
_keras_nn: Any = keras_backend.nn


def install_exact_operations() -> None:
    """Replace Keras's products, if that has not been done in this process. Outside exact layers they stay."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    for name, replacement in (
        ("matmul", _matmul),
        ("einsum", _einsum),
        ("tensordot", _tensordot),
        ("dot", _dot),
    ):
        setattr(_keras_numpy, name, _exactly(getattr(_keras_numpy, name), replacement))
    _keras_nn.conv = _exactly(_keras_nn.conv, _conv)
    for name in _NOT_COVERED:
        setattr(_keras_nn, name, _warning(getattr(_keras_nn, name), name))
    for name in ("lstm", "gru"):
        setattr(keras_backend, name, _not_fused(getattr(keras_backend, name)))


def _exactly(original: Callable[..., Any], replacement: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        mode = products()
        if not isinstance(mode, ExactProducts):
            return original(*args, **kwargs)
        tensors, rest = _operands(args, kwargs)
        if tensors is None:
            return original(*args, **kwargs)
        return replacement(mode, *tensors, *rest[0], **rest[1])

    return function


def _operands(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, Any] | None, Any]:
    """Take the two operands out of the arguments; None if they are not two tensors of one 16-bit dtype."""
    named = [kwargs[name] for name in _OPERANDS if name in kwargs]
    others = {name: value for name, value in kwargs.items() if name not in _OPERANDS}
    values = [*args, *named]
    first = 1 if values and isinstance(values[0], str) else 0  # after an einsum's subscripts
    pair = [read(x) if isinstance(x, variable_types) else x for x in values[first : first + 2]]
    if {float_name(x) for x in pair} not in ({"float16"}, {"bfloat16"}) or len(values) < first + 2:
        return None, None
    return (pair[0], pair[1]), ([*values[:first], *values[first + 2 :]], others)


def _warning(original: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if isinstance(products(), ExactProducts):
            warnings.warn(
                f"{name} is not covered by the exact Tensor Core model: in this layer it accumulates in float32.",
                category=MixteWarning,
                stacklevel=3,
            )
        return original(*args, **kwargs)

    return function


def _not_fused(original: Callable[..., Any]) -> Callable[..., Any]:
    """Make a layer take its own products, one by one, as it does where the backend has no fused function."""

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if isinstance(products(), ExactProducts):
            raise NotImplementedError  # Keras's LSTM and GRU catch it, and loop over their own steps
        return original(*args, **kwargs)

    return function


def _matmul(mode: ExactProducts, a: Any, b: Any) -> Any:
    vector_a, vector_b = a.ndim == 1, b.ndim == 1
    letters = string.ascii_letters
    batch = max(len(a.shape) - 2, len(b.shape) - 2, 0)
    row, column, inner = letters[batch], letters[batch + 1], letters[batch + 2]
    left = inner if vector_a else letters[batch - (len(a.shape) - 2) : batch] + row + inner
    right = inner if vector_b else letters[batch - (len(b.shape) - 2) : batch] + inner + column
    out = letters[:batch] + ("" if vector_a else row) + ("" if vector_b else column)
    a, b = _broadcast(a, left, b, right, letters[:batch])
    return _contract(mode, Contraction(left, right, out), a, b)


def _broadcast(a: Any, left: str, b: Any, right: str, batch: str) -> tuple[Any, Any]:
    """Repeat axes of size 1 along which the other operand is longer."""
    sizes = {
        c: max(x.shape[part.index(c)] or 0 for x, part in ((a, left), (b, right)) if c in part) for c in batch
    }

    def repeated(x: Any, part: str) -> Any:
        shape = [
            sizes.get(c, size) if size == 1 and c in batch else size
            for c, size in zip(part, x.shape, strict=True)
        ]
        return x if shape == list(x.shape) else keras.ops.broadcast_to(x, shape)

    return repeated(a, left), repeated(b, right)


def _dot(mode: ExactProducts, a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return _tensordot(mode, a, b, ([-1], [-1 if b.ndim == 1 else -2]))


def _tensordot(mode: ExactProducts, a: Any, b: Any, axes: Any = 2) -> Any:
    if isinstance(axes, int):
        axes = (list(range(a.ndim - axes, a.ndim)), list(range(axes)))
    first, second = ([part] if isinstance(part, int) else list(part) for part in axes)
    left = list(string.ascii_letters[: a.ndim])
    right = list(string.ascii_letters[a.ndim : a.ndim + b.ndim])
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    out = [c for c in left if c not in right] + [c for c in right if c not in left]
    return _contract(mode, Contraction("".join(left), "".join(right), "".join(out)), a, b)


def _einsum(mode: ExactProducts, a: Any, b: Any, subscripts: str, **_: Any) -> Any:
    return _contract(mode, contraction(_spelled_out(subscripts, a.ndim, b.ndim)), a, b)


def _spelled_out(subscripts: str, rank_a: int, rank_b: int) -> str:
    """Replace ``...`` by letters that the equation does not have, the same in both operands."""
    if "..." not in subscripts:
        return subscripts
    free = [c for c in string.ascii_letters if c not in subscripts]
    parts = subscripts.replace(" ", "").split("->")[0].split(",")
    counts = [rank - len(part.replace("...", "")) for part, rank in zip(parts, (rank_a, rank_b), strict=True)]
    most = max(counts)
    spelled = [
        part.replace("...", "".join(free[most - n : most])) for part, n in zip(parts, counts, strict=True)
    ]
    out = subscripts.replace(" ", "").split("->")[1].replace("...", "".join(free[:most]))
    return f"{','.join(spelled)}->{out}"


def _contract(mode: ExactProducts, product: Contraction, a: Any, b: Any) -> Any:
    sizes = dict(zip(product.a + product.b, [*a.shape, *b.shape], strict=True))
    return _exact(mode, product, a, b, tuple(sizes[c] for c in product.out))


def _conv(  # noqa: PLR0917 - the parameters of Keras's function
    mode: ExactProducts,
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    first = (data_format or keras.config.image_data_format()) == "channels_first"
    if first:
        inputs = keras.ops.moveaxis(inputs, 1, -1)
    window = kernel.shape[:-2]
    product = convolution(inputs.shape[1:-1], window, strides=strides, dilations=dilation_rate, padding=padding)
    shape = (inputs.shape[0], *product.output_size(inputs.shape[1:-1], window), kernel.shape[-1])
    y = _exact(mode, product, inputs, kernel, shape)
    return keras.ops.moveaxis(y, -1, 1) if first else y


def _exact(mode: ExactProducts, product: HostProduct, a: Any, b: Any, shape: tuple[int | None, ...]) -> Any:
    dtype = float_name(a)
    forward = _multiply(mode, dtype, FORWARD, FORWARD)
    from_left, from_right = _multiply(mode, dtype, GRADIENT, FORWARD), _multiply(mode, dtype, FORWARD, GRADIENT)

    def value(x: Any, w: Any) -> Any:
        return on_host(lambda x, w: product.forward(np.asarray(x), np.asarray(w), forward), shape, x, w)

    def gradients(operands: tuple[Any, ...], dy: Any) -> tuple[Any, ...]:
        x, w = operands
        dx = on_host(
            lambda dy, w, x: product.gradient_a(_array(dy), _array(w), x.shape, from_left), x.shape, dy, w, x
        )
        dw = on_host(
            lambda dy, x, w: product.gradient_b(_array(dy), _array(x), w.shape, from_right), w.shape, dy, x, w
        )
        return dx, dw

    return cast(with_gradient(value, gradients)(cast(a, "float32"), cast(b, "float32")), dtype or "float32")


def _array(x: Any) -> Array:
    return np.asarray(x, np.float32)


def _multiply(
    mode: ExactProducts, dtype: str | None, left: FloatFormat, right: FloatFormat
) -> Callable[[Array, Array], Array]:
    """Return the matrix product of the mode: of operands in their own dtype, or in two float8 formats."""
    if mode.operands == "compute":
        return lambda a, b: np.asarray(tensor_core_matmul(a, b, arch=mode.arch, input=dtype or ""), np.float32)  # type: ignore[arg-type]

    def multiply(a: Array, b: Array) -> Array:
        (a, scale_a), (b, scale_b) = _scaled(a, left), _scaled(b, right)
        y = tensor_core_matmul(a, b, arch=mode.arch, input=(left.name, right.name))  # type: ignore[arg-type]
        return np.asarray(y, np.float32) * (np.float32(1) / scale_a * (np.float32(1) / scale_b))

    return multiply


def _scaled(x: Array, fmt: FloatFormat) -> tuple[Array, np.float32]:
    """Scale an array so that its largest magnitude is the format's largest number, and round it."""
    amax = np.abs(x).max(initial=np.float32(0))
    scale = np.float32(1)
    if np.isfinite(amax) and amax > 0:
        with np.errstate(over="ignore"):
            scale = np.minimum(np.float32(fmt.max) / amax, np.float32(2.0**126))
    return round_to(x * scale, fmt), scale

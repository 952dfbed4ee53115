"""Compute products of 16-bit tensors in float32, and round the result to 16 bits, once.

The tensors of an emulated layer are the real ones: float16 tensors under ``mixed_float16``. All that is replaced
is the arithmetic of the operations that a processor does slowly, not at all, or with another accumulator than a
GPU. For each of them the operands, which float32 holds exactly, are widened, and the result is narrowed. The
derivative of widening is narrowing: the gradients round where those of the real operation do.

A float16 result beyond 65504 becomes infinity in the narrowing, and NaN stays NaN: IEEE 754 conversion, to
nearest even, which ``tests/conformance/emulation`` compares with ``mixte.formats.round_to``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mixte.keras._emulation_float8 import round_gradient, round_operand
from mixte.keras._emulation_scope import Float8Products, products
from mixte.keras._emulation_tensors import cast, float_name, read, variable_types
from mixte.keras._framework import keras

if TYPE_CHECKING:
    from collections.abc import Callable

# The arguments by which the backends' functions are told the dtype of their result.
_RESULT_DTYPE = ("preferred_element_type", "output_type")


def compute_wide(function: Callable[..., Any], *, rounds_operands: bool = False) -> Callable[..., Any]:
    """Make a function of a backend compute 16-bit operands in float32 inside emulated layers.

    Elsewhere, and where the operands are not all of one 16-bit dtype, it is the function itself.

    Args:
        function: A function of tensors, in positional or named arguments or in lists in them, whose floating
            results have their common dtype.
        rounds_operands: As for ``call_wide``.
    """

    @functools.wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        if products() is None:
            return function(*args, **kwargs)
        return call_wide(function, args, kwargs, rounds_operands=rounds_operands)

    return wide


def call_wide(function: Callable[..., Any], args: Any, kwargs: Any, *, rounds_operands: bool = False) -> Any:
    """Call a function with its 16-bit tensors widened, and narrow what it returns.

    Args:
        function: The function.
        args: Its positional arguments.
        kwargs: Its named arguments.
        rounds_operands: Whether it is a matrix product, whose operands a float8 layer rounds further.
    """
    if any(isinstance(x, variable_types) for x in (*args, *kwargs.values())):
        # Read in the precision that the layer reads them in.
        args, kwargs = keras.tree.map_structure(
            lambda x: read(x) if isinstance(x, variable_types) else x, (args, kwargs)
        )
    common = _common_dtype(args, kwargs)
    float8 = rounds_operands and isinstance(products(), Float8Products)
    if common == "float32" and float8:
        # On a processor, Keras widens the operands of PyTorch's float16 products itself.
        return _in_float8(function, args, kwargs)
    if common not in ("float16", "bfloat16"):
        return function(*args, **kwargs)
    result_dtype = common
    for name in _RESULT_DTYPE:
        if kwargs.get(name) is not None:
            kwargs = dict(kwargs)
            result_dtype = keras.backend.standardize_dtype(kwargs.pop(name))
    args, kwargs = keras.tree.map_structure(lambda x: _widened(x, common), (args, kwargs))
    result = _in_float8(function, args, kwargs) if float8 else function(*args, **kwargs)
    return keras.tree.map_structure(lambda y: _narrowed(y, result_dtype), result)


def _in_float8(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a product of float32 tensors with its operands, and later its gradients, rounded to float8."""
    args, kwargs = keras.tree.map_structure(_to_float8, (args, kwargs))
    return keras.tree.map_structure(_gradient_to_float8, function(*args, **kwargs))


def _common_dtype(args: Any, kwargs: Any) -> str | None:
    """Return the dtype that all floating tensors have; None if there are none, or of several."""
    names = {float_name(value) for value in keras.tree.flatten((args, kwargs))} - {None}
    return names.pop() if len(names) == 1 else None


def _widened(x: Any, narrow: str) -> Any:
    return cast(x, "float32") if float_name(x) == narrow else x


def _narrowed(y: Any, dtype: str) -> Any:
    return cast(y, dtype) if float_name(y) == "float32" else y


def _to_float8(x: Any) -> Any:
    return round_operand(x) if float_name(x) == "float32" else x


def _gradient_to_float8(y: Any) -> Any:
    return round_gradient(y) if float_name(y) == "float32" else y

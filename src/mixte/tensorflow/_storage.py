"""Float32 storage for TensorFlow 2 code: variables made in a context are stored in float32, read in 16 bits."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mixte._errors import InputError
from mixte.tensorflow._autocast_variable import AutocastVariable, master_weight
from mixte.tensorflow._framework import tf

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_COMPUTE_DTYPES: Final = ("float16", "bfloat16", "float32")


@contextmanager
def float32_variable_storage(compute_dtype: str = "float16") -> Generator[None]:
    """Store the trainable variables made in this context in float32 and read them in the compute dtype.

    For code of ``tf.Module`` and ``tf.Variable`` without Keras. Every trainable variable of dtype float16,
    bfloat16 or float32 that is made inside becomes an ``AutocastVariable``. A variable that is not trainable,
    or of another dtype, is made as asked. Only the making matters: a module that makes its variables at its
    first call must be called inside for the first time. Contexts nest, the innermost decides, so a part of a
    model stays in float32 inside ``float32_variable_storage("float32")``.

    Inputs are not cast: give the model tensors of the compute dtype. And a Keras layer manages its dtypes
    itself: use ``mixte.keras`` for it.

    Args:
        compute_dtype: ``"float16"``, ``"bfloat16"``, or ``"float32"``, which makes plain variables. A
            ``tf.DType`` of that name will do.

    Raises:
        InputError: If the dtype is none of these, or if a variable is made under a distribution strategy of
            more than one replica, which is not supported yet.

    Example:
        >>> with float32_variable_storage("float16"):
        ...     weights = tf.Variable([[0.5], [0.25]])
        >>> y = tf.constant([[2.0, 4.0]], tf.float16) @ weights
        >>> y.dtype.name, weights.dtype.name, float(y[0, 0])
        ('float16', 'float32', 2.0)
    """
    name = compute_dtype.name if isinstance(compute_dtype, tf.DType) else compute_dtype
    if name not in _COMPUTE_DTYPES:
        raise InputError(f"compute_dtype is {compute_dtype!r}. It must be one of {', '.join(_COMPUTE_DTYPES)}.")

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        return _create(next_creator, arguments, tf.as_dtype(name))

    with tf.variable_creator_scope(create):
        yield


def _create(next_creator: Callable[..., Any], arguments: dict[str, Any], compute_dtype: Any) -> Any:
    if not _is_trainable(arguments) or not _may_be_stored_in_float32(arguments):
        return next_creator(**arguments)
    if arguments.get("dtype") is not None:
        arguments["dtype"] = tf.float32
    arguments["initial_value"] = _in_float32(arguments["initial_value"])
    variable = master_weight(next_creator(**arguments))  # an outer context may have wrapped it already
    if variable.dtype.base_dtype != tf.float32 or compute_dtype == tf.float32:
        return variable
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise InputError(
            "float32_variable_storage is used under a tf.distribute strategy of more than one replica, which "
            "is not supported yet. Train on one replica, or without float32_variable_storage."
        )
    return AutocastVariable(variable, compute_dtype)


def _is_trainable(arguments: dict[str, Any]) -> bool:
    trainable = arguments.get("trainable")
    if trainable is None:
        return arguments.get("synchronization") != tf.VariableSynchronization.ON_READ
    return bool(trainable)


def _may_be_stored_in_float32(arguments: dict[str, Any]) -> bool:
    """Tell whether the dtype asked for, if any was, is a narrow floating one and there is a value to cast."""
    dtype = arguments.get("dtype")
    narrow = dtype is None or tf.as_dtype(dtype) in {tf.float16, tf.bfloat16, tf.float32}
    return narrow and arguments.get("initial_value") is not None  # None: an import from a graph definition


def _in_float32(initial_value: Any) -> Any:
    """Return the initial value, or the function that gives it, widened to float32 if it is a 16-bit one."""
    if callable(initial_value) and not tf.is_tensor(initial_value):
        # A value that is restored from a checkpoint carries its origin with it, and is float32 by storage.
        return (
            initial_value
            if hasattr(initial_value, "checkpoint_position")
            else lambda: _widened(initial_value())
        )
    return _widened(initial_value)


def _widened(value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    return (
        value
        if dtype is None or tf.as_dtype(dtype) not in {tf.float16, tf.bfloat16}
        else tf.cast(value, tf.float32)
    )

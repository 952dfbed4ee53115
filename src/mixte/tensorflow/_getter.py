"""Float32 storage for TensorFlow 1 code: a getter for tf.compat.v1.variable_scope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.tensorflow._framework import tf

if TYPE_CHECKING:
    from collections.abc import Callable


def float32_variable_storage_getter(  # noqa: PLR0917 - a getter inside may call this one by position
    getter: Callable[..., Any],
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    trainable: bool | None = None,
    **arguments: Any,
) -> Any:
    """Store trainable variables in float32 and hand them out in the dtype asked for.

    Pass it to ``tf.compat.v1.variable_scope(..., custom_getter=float32_variable_storage_getter)``. A
    ``get_variable`` in the scope that asks for a 16-bit floating dtype then makes a float32 variable and
    returns its value cast to that dtype: a tensor, not a variable. Gradients of the loss flow through the cast
    to the variable and arrive in float32; ``tf.compat.v1.trainable_variables()`` has the variables themselves.
    A regularizer sees the float32 variable, because weight decay underflows in float16.

    Variables that are not trainable, and those of any other dtype, are made as asked.

    The name is NVIDIA's, whose mixed-precision guide for TensorFlow 1 introduced this getter.

    Args:
        getter: The getter to make the variable with, given by TensorFlow.
        name: Name of the variable.
        shape: Its shape, or None if the initializer is a value.
        dtype: The dtype to hand out; float32 if None.
        initializer: A function, or a value, which is cast to float32.
        trainable: As in ``get_variable``; None means trainable unless ``synchronization`` is ``ON_READ``.
        **arguments: The other arguments of ``get_variable``, passed on.

    Example:
        >>> with tf.Graph().as_default():
        ...     with tf.compat.v1.variable_scope("fp32_storage", custom_getter=float32_variable_storage_getter):
        ...         weights = tf.compat.v1.get_variable("weights", [104, 16], tf.float16)
        ...     weights.dtype.name, tf.compat.v1.trainable_variables()[0].dtype.base_dtype.name
        ('float16', 'float32')
    """
    asked = tf.as_dtype(tf.float32 if dtype is None else dtype).base_dtype
    read_only = arguments.get("synchronization") == tf.VariableSynchronization.ON_READ
    trains = not read_only if trainable is None else trainable
    arguments["trainable"] = trainable
    if not trains or asked not in {tf.float16, tf.bfloat16}:
        return getter(name, shape, dtype=dtype, initializer=initializer, **arguments)
    if initializer is not None and not callable(initializer):
        initializer = tf.cast(initializer, tf.float32)
    variable = getter(name, shape, dtype=tf.float32, initializer=initializer, **arguments)
    # A new cast at each get_variable, also of a shared variable, so that it belongs to the graph (or, eagerly,
    # to the gradient tape) of that use.
    return tf.cast(variable, asked, name=f"{name.rsplit('/', 1)[-1]}_{asked.name}")

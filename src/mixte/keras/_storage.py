"""Store the variables of a model that was just made in another dtype, in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BACKEND, in_stateless_scope, keras

if TYPE_CHECKING:
    from collections.abc import Iterable


def can_store_anew(model: Any) -> bool:
    """Tell whether nothing depends yet on the dtype of a model's variables: no optimizer, no stateless call."""
    return not (in_stateless_scope() or getattr(getattr(model, "optimizer", None), "built", False))


def store_in(model: Any, variables: Iterable[tuple[Any, str]]) -> None:
    """Give variables another dtype, and their values with it.

    Keras makes all variables of a model in the global policy's dtype; which layer is to have another is known only
    when the model is.

    Args:
        model: The model, for which ``can_store_anew`` holds.
        variables: Keras variables in it, each with the dtype to store it in.
    """
    changes = list(variables)
    for variable, dtype in changes:
        value = keras.ops.cast(variable.value, dtype)
        variable._dtype = dtype  # noqa: SLF001 - read-only in public
        if BACKEND == "tensorflow":
            _replace_on_tensorflow(variable, value)
        else:
            variable._initialize(value)  # noqa: SLF001 - as Keras does for a new variable
    if changes and BACKEND == "torch":
        for layer in model._flatten_layers():  # noqa: SLF001 - `layers` are the direct ones only
            layer._track_variables()  # noqa: SLF001 - PyTorch's modules hold the parameters themselves


def _replace_on_tensorflow(variable: Any, value: Any) -> None:
    import tensorflow as tf

    with tf.init_scope():  # the model may be in a tf.function right now
        variable._initialize(value)  # noqa: SLF001 - as above

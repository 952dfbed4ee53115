"""The value of a variable at this moment, as a tensor."""

from __future__ import annotations

from typing import Any

from mixte.keras._framework import BACKEND, keras


def read(variable: Any) -> Any:
    """Return the present value of a Keras variable, or of a variable of the backend, as a tensor.

    ``keras.ops.convert_to_tensor`` does not do it: on TensorFlow it returns the variable itself, which later
    shows its later value.
    """
    value = variable.value if isinstance(variable, keras.Variable) else variable
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.convert_to_tensor(value)
    return value

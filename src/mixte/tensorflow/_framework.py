"""The one place that imports TensorFlow, and says what to do where it is missing."""

from __future__ import annotations

from mixte._errors import MissingFrameworkError

try:
    import tensorflow as tf
except ModuleNotFoundError as error:
    if error.name != "tensorflow":
        raise  # TensorFlow is there and broken: its own message says more
    raise MissingFrameworkError.for_extra("TensorFlow", "tensorflow") from error

__all__ = ["tf"]

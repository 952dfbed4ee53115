"""Import Keras and its backend once, with an error that names the extra to install.

Everything of Keras that is not public is imported here and nowhere else, each with the reason: when Keras
moves it, this is the one file to change.
"""

from __future__ import annotations

import os
from typing import Any

from mixte._errors import MissingFrameworkError

_EXTRAS = {"tensorflow": ("TensorFlow", "tensorflow"), "jax": ("JAX", "jax"), "torch": ("PyTorch", "torch")}

try:
    import keras as _keras
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing == "keras":
        raise MissingFrameworkError(
            "Keras is not installed. Install it together with a backend, for example: "
            "pip install 'mixte[tensorflow]' (or [jax], [torch], or [tensorflow-cpu] without a GPU)"
        ) from error
    if missing in _EXTRAS:
        framework, extra = _EXTRAS[missing]
        configured = os.environ.get("KERAS_BACKEND", "Keras's configuration file, or its default")
        raise MissingFrameworkError(
            f"Keras is to run on {framework} (from {configured}), which is not installed. Install it with: "
            f"pip install 'mixte[{extra}]', or choose an installed backend with KERAS_BACKEND."
        ) from error
    raise

from keras.src.backend import (  # noqa: E402 - not before the check above
    compute_output_spec,  # calls a function on symbolic tensors; public only as a method of operations
)
from keras.src.backend.common.masking import (  # noqa: E402
    get_keras_mask,  # where layers leave a mask on a tensor for losses and metrics
    set_keras_mask,
)
from keras.src.backend.common.stateless_scope import (  # noqa: E402
    in_stateless_scope,  # whether a StatelessScope is active is not public
)
from keras.src.dtype_policies import (  # noqa: E402
    dtype_policy as dtype_policy_module,  # where a layer without a dtype looks for the global policy
)
from keras.src.optimizers.base_optimizer import (  # noqa: E402
    BaseOptimizer,  # the base of every optimizer, below the backend's mix-ins
)
from keras.src.utils import (  # noqa: E402
    rng_utils as rng_module,  # from where keras.utils and tf.keras.utils take set_random_seed
)

__all__ = [
    "BACKEND",
    "BaseOptimizer",
    "compute_output_spec",
    "dtype_policy_module",
    "get_keras_mask",
    "in_stateless_scope",
    "keras",
    "rng_module",
    "set_keras_mask",
    "to_host",
]

keras: Any = _keras
"""Keras, of whose values nothing is known statically."""

BACKEND: str = keras.backend.backend()
"""``"tensorflow"``, ``"jax"`` or ``"torch"``."""

if BACKEND not in _EXTRAS:
    raise MissingFrameworkError(
        f"Keras runs on {BACKEND!r}, which cannot train. Set KERAS_BACKEND to one of: {', '.join(_EXTRAS)}."
    )


def to_host(tensor: Any) -> Any:
    """Copy a tensor of the backend to a numpy array. Waits for the device."""
    return keras.ops.convert_to_numpy(tensor)

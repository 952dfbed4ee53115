"""The operations of a loss-scaling law on the scalars of the current backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mixte.keras._framework import BACKEND

if TYPE_CHECKING:
    from mixte.scaling import ArrayOps


def _jax_ops() -> ArrayOps:
    from jax import numpy

    jnp = cast("Any", numpy)  # its functions take more, in other names, than a law gives

    class JaxOps:
        """``ArrayOps`` for jax.numpy: eager, or traced."""

        where = staticmethod(jnp.where)
        minimum = staticmethod(jnp.minimum)
        maximum = staticmethod(jnp.maximum)
        isfinite = staticmethod(jnp.isfinite)
        logical_and = staticmethod(jnp.logical_and)
        logical_or = staticmethod(jnp.logical_or)
        logical_not = staticmethod(jnp.logical_not)
        log2 = staticmethod(jnp.log2)
        exp2 = staticmethod(jnp.exp2)
        sqrt = staticmethod(jnp.sqrt)

        @staticmethod
        def float32(x: Any) -> Any:
            return jnp.asarray(x, dtype="float32")

        @staticmethod
        def int32(x: Any) -> Any:
            return jnp.asarray(x, dtype="int32")

    return JaxOps()


def _torch_ops() -> ArrayOps:
    import torch

    functions = cast("Any", torch)  # as above

    class TorchOps:
        """``ArrayOps`` for PyTorch's scalar tensors.

        A Python number becomes a tensor on the processor. PyTorch lets such a scalar take part in an operation
        on any device, so no transfer is waited for.
        """

        where = staticmethod(functions.where)
        minimum = staticmethod(functions.minimum)
        maximum = staticmethod(functions.maximum)
        isfinite = staticmethod(functions.isfinite)
        logical_and = staticmethod(functions.logical_and)
        logical_or = staticmethod(functions.logical_or)
        logical_not = staticmethod(functions.logical_not)
        log2 = staticmethod(functions.log2)
        exp2 = staticmethod(functions.exp2)
        sqrt = staticmethod(functions.sqrt)

        @staticmethod
        def float32(x: Any) -> Any:
            return x.to(torch.float32) if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch.float32)

        @staticmethod
        def int32(x: Any) -> Any:
            return x.to(torch.int32) if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=torch.int32)

    return TorchOps()


def _tensorflow_ops() -> ArrayOps:
    from mixte.tensorflow import TENSORFLOW

    return TENSORFLOW


ARRAY_OPS: ArrayOps = {"jax": _jax_ops, "torch": _torch_ops, "tensorflow": _tensorflow_ops}[BACKEND]()
"""The current backend's operations."""

"""The operations of a loss-scaling law on the scalars of the current backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BACKEND

if TYPE_CHECKING:
    from mixte.scaling import ArrayOps


def _jax_ops() -> ArrayOps:
    from jax import numpy as jnp

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

    class TorchOps:
        """``ArrayOps`` for PyTorch's scalar tensors.

        A Python number becomes a tensor on the processor. PyTorch lets such a scalar take part in an operation
        on any device, so no transfer is waited for.
        """

        where = staticmethod(torch.where)
        minimum = staticmethod(torch.minimum)
        maximum = staticmethod(torch.maximum)
        isfinite = staticmethod(torch.isfinite)
        logical_and = staticmethod(torch.logical_and)
        logical_or = staticmethod(torch.logical_or)
        logical_not = staticmethod(torch.logical_not)
        log2 = staticmethod(torch.log2)
        exp2 = staticmethod(torch.exp2)
        sqrt = staticmethod(torch.sqrt)

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

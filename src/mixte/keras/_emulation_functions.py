"""The functions of each backend that compute in float32 inside emulated layers, and how they are reached.

On TensorFlow and JAX the public functions are replaced, once per process: Keras and users' layers look them up in
the module when they call them. On PyTorch a function mode sees every call, those of ``torch.nn`` modules included,
and nothing is replaced. Outside emulated layers all of them are what they were.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from mixte.keras._emulation_scope import products
from mixte.keras._emulation_wide import call_wide, compute_wide
from mixte.keras._framework import BACKEND

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

# Those of which float8 recipes round the operands.
_MATRIX_PRODUCTS = frozenset(
    {"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "dot", "dot_general", "einsum", "tensordot", "linear"}
)

_INSTALLED: list[bool] = []


def install_functions() -> None:
    """Replace the backend's functions, if that has not been done in this process."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    places = {"tensorflow": _tensorflow, "jax": _jax, "torch": dict}[BACKEND]()
    for owner, names in places.items():
        for name in names.split():
            if hasattr(owner, name):
                wide = compute_wide(getattr(owner, name), rounds_operands=name in _MATRIX_PRODUCTS)
                setattr(owner, name, wide)


def _tensorflow() -> dict[Any, str]:
    import tensorflow as tf

    # Products, and whatever sums: TensorFlow's float16 kernels for processors accumulate in float16, so that a sum
    # of 20,000 x 0.01 over the first axis is 128; those for GPUs accumulate in float32. The derivative of a
    # broadcasting operation is such a sum.
    products_ = "matmul einsum tensordot matvec"
    sums = "reduce_sum reduce_mean reduce_std reduce_variance reduce_prod reduce_logsumexp cumsum reduce_euclidean_norm"
    broadcasting = "add subtract multiply divide"
    return {
        tf: f"{products_} {sums} {broadcasting}",
        tf.linalg: f"{products_} norm l2_normalize",
        tf.math: f"{sums} {broadcasting} l2_normalize segment_sum unsorted_segment_sum",
        tf.nn: "convolution conv1d conv2d conv3d depthwise_conv2d separable_conv2d atrous_conv2d conv_transpose "
        "conv1d_transpose conv2d_transpose conv3d_transpose avg_pool avg_pool1d avg_pool2d avg_pool3d "
        "softmax log_softmax gelu moments l2_normalize local_response_normalization",
        tf.Tensor: "__matmul__ __rmatmul__ __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__",
    }


def _jax() -> dict[Any, str]:
    import jax

    # jax.numpy sums float16 in float32 by itself.
    return {
        jax.numpy: "matmul dot einsum tensordot inner vdot outer kron convolve",
        jax.lax: "dot dot_general batch_matmul conv conv_general_dilated conv_with_general_padding conv_transpose",
        jax.nn: "dot_product_attention",
    }


def function_mode() -> AbstractContextManager[Any]:
    """Return what an emulated layer's call runs in, besides the functions that are replaced."""
    return _TORCH_MODE() if BACKEND == "torch" else nullcontext()


if BACKEND == "torch":
    import torch
    from torch.overrides import TorchFunctionMode

    # PyTorch sums float16 in float32 on a processor too.
    _names = {
        torch: "matmul mm bmm mv dot inner outer ger einsum tensordot addmm addbmm baddbmm addmv bilinear "
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc kron chain_matmul",
        torch.Tensor: "matmul __matmul__ __rmatmul__ mm bmm mv dot inner outer ger addmm addbmm baddbmm addmv",
        torch.linalg: "matmul multi_dot vecdot",
        torch.nn.functional: "linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d "
        "conv_transpose3d scaled_dot_product_attention",
    }
    _FOUND = [(name, getattr(owner, name)) for owner, names in _names.items() for name in names.split()]
    _WIDE = {function for _, function in _FOUND}
    _MATRIX = {function for name, function in _FOUND if name in _MATRIX_PRODUCTS}

    class _TORCH_MODE(TorchFunctionMode):  # noqa: N801 - stands for a constant
        """Computes the products among the functions that are called in float32."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in _WIDE and products() is not None:
                return call_wide(func, args, kwargs or {}, rounds_operands=func in _MATRIX)
            return func(*args, **(kwargs or {}))

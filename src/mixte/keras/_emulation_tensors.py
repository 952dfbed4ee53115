"""What emulation needs to know of a backend's tensors: their dtype, how they are read, how they are converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BACKEND, keras

if TYPE_CHECKING:
    from collections.abc import Callable

if BACKEND == "tensorflow":
    import tensorflow as tf

    variable_types: tuple[type, ...] = (keras.Variable, tf.Variable)
    """What stands for a tensor that has to be read first."""
    _NAMES: dict[Any, str] = {dtype: dtype.name for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64)}

    def float_name(x: Any) -> str | None:
        """Return the name of a dense tensor's floating dtype; None for anything else."""
        return _NAMES.get(x.dtype) if isinstance(x, tf.Tensor) else None

    def read(x: Any) -> Any:
        """Return the tensor that a variable stands for, in the precision that the layer reads it in."""
        return tf.convert_to_tensor(x)

    def cast(x: Any, dtype: str) -> Any:
        """Convert a tensor; to fewer bits with a rounding that no compiler takes out again."""
        return tf.cast(x, dtype)

    def with_gradient(
        forward: Callable[..., Any], backward: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]
    ) -> Callable[..., Any]:
        """Return a function of tensors with a gradient of its own.

        Args:
            forward: From the tensors to one tensor.
            backward: From the tensors and the gradient of the result to the gradients of the tensors.
        """

        def function(*xs: Any) -> Any:
            return forward(*xs), lambda dy: backward(xs, dy)

        return tf.custom_gradient(function)

    def on_host(function: Callable[..., Any], shape: tuple[int | None, ...], *xs: Any) -> Any:
        """Call a function of numpy arrays on tensors.

        Args:
            function: From float32 arrays to one float32 array.
            shape: The shape of the result; None for a size that is known only when it runs.
            xs: The tensors.
        """
        y = tf.numpy_function(function, xs, tf.float32)
        y.set_shape(shape)
        return y

elif BACKEND == "jax":
    import jax

    variable_types = (keras.Variable,)
    _WIDTHS = {jax.numpy.dtype(name): name for name in ("float16", "bfloat16", "float32", "float64")}

    def float_name(x: Any) -> str | None:
        return _WIDTHS.get(x.dtype) if isinstance(x, jax.Array) else None

    def read(x: Any) -> Any:
        return keras.ops.convert_to_tensor(x)

    def cast(x: Any, dtype: str) -> Any:
        # By its flag xla_allow_excess_precision, XLA may take a conversion to 16 bits and back out. The barrier
        # stands on the narrow side of every conversion, and so does that of the derivative.
        if dtype == "float32":
            return jax.lax.optimization_barrier(x).astype(dtype)
        return jax.lax.optimization_barrier(x.astype(dtype))

    def with_gradient(
        forward: Callable[..., Any], backward: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]
    ) -> Callable[..., Any]:
        function = jax.custom_vjp(forward)
        function.defvjp(lambda *xs: (forward(*xs), xs), backward)
        return function

    def on_host(function: Callable[..., Any], shape: tuple[int | None, ...], *xs: Any) -> Any:
        result = jax.ShapeDtypeStruct(shape, "float32")
        return jax.pure_callback(function, result, *xs, vmap_method="sequential")

else:
    import torch

    variable_types = (keras.Variable,)

    def float_name(x: Any) -> str | None:
        if not isinstance(x, torch.Tensor) or x.layout != torch.strided or not x.is_floating_point():
            return None
        return str(x.dtype).removeprefix("torch.")

    def read(x: Any) -> Any:
        return keras.ops.convert_to_tensor(x)

    def cast(x: Any, dtype: str) -> Any:
        return x.to(getattr(torch, dtype))

    def with_gradient(
        forward: Callable[..., Any], backward: Callable[[tuple[Any, ...], Any], tuple[Any, ...]]
    ) -> Callable[..., Any]:
        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *xs: Any) -> Any:
                ctx.save_for_backward(*xs)
                return forward(*xs)

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                return backward(ctx.saved_tensors, *gradients)

        return Function.apply

    def on_host(function: Callable[..., Any], shape: tuple[int | None, ...], *xs: Any) -> Any:
        del shape
        arrays = [x.detach().cpu().numpy() for x in xs]
        return torch.from_numpy(function(*arrays)).to(xs[0].device)

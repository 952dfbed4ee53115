"""Where a tensor's value is at hand: eagerly, in one graph, or in one trace and in no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from mixte.keras._framework import BACKEND, in_stateless_scope

_Function = TypeVar("_Function", bound=Callable[..., Any])


def is_tracer(tensor: Any) -> bool:
    """Tell whether a value is a JAX tracer: inside ``jit``, ``grad`` or another transformation."""
    if BACKEND != "jax":
        return False
    import jax

    return isinstance(tensor, jax.core.Tracer)


def stale_trace(tensor: Any) -> bool:
    """Tell whether JAX traces this value where a variable's own value would be baked into the program."""
    return is_tracer(tensor) and not in_stateless_scope()


def here() -> Any:
    """Return the graph or trace that an operation would now go to; None where it would run at once."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    if BACKEND == "jax":
        from jax._src import core  # the current trace has no public name

        return None if core.trace_state_clean() else core.trace_ctx.trace
    return None


def home(tensor: Any) -> Any:
    """Return the graph or trace that a tensor belongs to; None for one that has a value.

    A tensor may be used where ``home(tensor) is here()``. Anywhere else it would leak out of its trace, or its
    value of this moment would be baked into another.
    """
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return None if isinstance(tensor, tf.__internal__.EagerTensor) else tensor.graph
    return tensor._trace if is_tracer(tensor) else None  # noqa: SLF001 - as above


def compiled_once(function: Any) -> Any:
    """Return a function of tensors that runs as one compiled piece when it is called eagerly.

    Hundreds of operations on scalars, one by one, take milliseconds: each costs more to start than to do.
    """
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    import jax

    return jax.jit(function)


def not_converted(function: _Function) -> _Function:
    """Keep AutoGraph from rewriting a function, and all that it calls, when a user's ``tf.function`` is traced.

    It has nothing to rewrite in here: it would only take its time, and lose its way where the sources changed.
    """
    if BACKEND != "tensorflow":
        return function
    import tensorflow as tf

    return tf.autograph.experimental.do_not_convert(function)

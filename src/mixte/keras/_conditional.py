"""Apply an update only if a flag on the device says so, in the way that costs least on each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BACKEND, keras
from mixte.keras._tracing import is_tracer
from mixte.keras._variables import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Note = tuple[Any, Callable[[], Any]]


def apply_if(
    finite: Any,
    update: Callable[[], object],
    *,
    affected: Callable[[], Sequence[Any]],
    notes: Sequence[Note] = (),
) -> None:
    """Run ``update`` if ``finite`` holds; otherwise ``affected`` keep their values to the last bit, and note why.

    Three ways, chosen when the step is traced:

    - A Python branch, where the flag's value is at hand: eager TensorFlow and JAX, and PyTorch, which waits for
      the device once, as its own GradScaler does.
    - ``tf.cond``, in a TensorFlow graph that is not compiled: the branch not taken costs nothing.
    - Selection, under XLA (``jit_compile=True``, and JAX under ``jit``): the update is computed always, and
      each variable takes its new or its old value. XLA fuses the selection into the update; its conditional
      copies every variable instead (with three layers of 2048 x 2048 a Keras step took 211 ms, of which 68 ms
      without the conditional).

    Args:
        finite: Scalar bool tensor.
        update: Assigns new values to ``affected`` and to nothing else.
        affected: Returns the variables that ``update`` may change. Asked only where the update is selected.
        notes: Variables, each with a function that computes what to write into it if ``finite`` does not hold.
    """
    if BACKEND == "torch" or not _is_traced(finite):
        if bool(finite):
            update()
        else:
            _write(notes)
    elif BACKEND == "tensorflow" and not (compiles_with_xla(finite) or _merges_replicas()):
        import tensorflow as tf

        def run() -> None:
            update()

        def skip() -> None:
            _write(notes)

        tf.cond(finite, run, skip)
    else:
        _select(finite, update, affected())
        for variable, compute in notes:
            variable.assign(_value_if_not(finite, read(variable), compute))


def _write(notes: Sequence[Note]) -> None:
    for variable, compute in notes:
        variable.assign(compute())


def _value_if_not(finite: Any, old: Any, compute: Callable[[], Any]) -> Any:
    """Return the old value, or a computed one if the flag does not hold: without computing it otherwise."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.cond(finite, lambda: old, compute)
    import jax

    return jax.lax.cond(finite, lambda: old, compute)


def _is_traced(flag: Any) -> bool:
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return not isinstance(flag, tf.__internal__.EagerTensor)
    return is_tracer(flag)


def compiles_with_xla(tensor: Any) -> bool:
    """Tell whether a value belongs to a program that XLA will compile: JAX under ``jit``, TensorFlow's jit_compile."""
    if BACKEND != "tensorflow":
        return is_tracer(tensor)
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util  # the only place that knows; not public

    graph = tf.compat.v1.get_default_graph()
    return not tf.executing_eagerly() and bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def _merges_replicas() -> bool:
    """Tell whether updates here merge replicas: a distribution strategy cannot have that inside a conditional."""
    import tensorflow as tf

    return not tf.__internal__.distribute.strategy_supports_no_merge_call()


def _select(finite: Any, update: Callable[[], object], affected: Sequence[Any]) -> None:
    before = [read(variable) for variable in affected]
    update()
    for variable, old in zip(affected, before, strict=True):
        new = read(variable)
        if new is not old:
            variable.assign(keras.ops.where(finite, new, old))

"""Apply an update only if a flag on the device says so, in the way that costs least on each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._framework import BACKEND, keras
from mixte.keras._replicas import choose_for_all, merges_replicas
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
    - ``tf.cond``, in a TensorFlow graph that is not compiled: the branch not taken costs nothing. Where a strategy
      merges its replicas for an update, one around all of them.
    - Selection, under XLA (``jit_compile=True``, and JAX under ``jit``): the update is computed always, and
      each variable takes its new or its old value. XLA fuses the selection into the update; its conditional
      copies every variable instead.

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
    elif BACKEND == "tensorflow" and not compiles_with_xla(finite) and merges_replicas():
        choose_for_all(finite, update, lambda: _write(notes))
    elif BACKEND == "tensorflow" and not compiles_with_xla(finite):

        def run() -> Any:
            update()
            return finite

        def skip() -> Any:
            _write(notes)
            return finite

        choose(finite, run, skip)
    else:
        if BACKEND == "jax":
            with _Selecting(finite):
                update()
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
        return choose(finite, lambda: old, compute)
    import jax

    return jax.lax.cond(finite, lambda: old, compute)


def choose(flag: Any, if_true: Callable[[], Any], if_false: Callable[[], Any]) -> Any:
    """Return what one of two functions returns, a tensor, without running the other. On TensorFlow.

    In a graph for processors alone the conditional stays one operation. TensorFlow would take it apart into a switch
    for each tensor that either side uses, hundreds for an update: more than the step itself for small variables.
    Where several devices are there, it must: a conditional in one piece runs on one device.
    """
    import tensorflow as tf

    if not _is_traced(flag):
        return if_true() if bool(flag) else if_false()
    result = tf.cond(flag, if_true, if_false)
    graph = tf.compat.v1.get_default_graph()
    if len(tf.config.list_logical_devices()) == 1 and not compiles_with_xla(flag):
        _keep_in_one_piece(graph, result)
    return result


def _keep_in_one_piece(graph: Any, result: Any) -> None:
    """Keep TensorFlow from taking the conditional apart that a tensor of a graph is the result of."""
    from tensorflow.core.framework import attr_value_pb2

    for source in result.op.inputs:
        if source.graph is graph and source.op.type in ("If", "StatelessIf"):
            source.op._set_attr("_lower_using_switch_merge", attr_value_pb2.AttrValue(b=False))  # noqa: SLF001 - no public way


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


class _Selecting(keras.StatelessScope):
    """A scope in which a variable that is assigned takes the new value if a flag holds, else keeps its own.

    The selection is made where the value is assigned, so that what the optimizer computes next from the variable
    starts from the selected value. Selected afterwards, XLA would keep two versions of every moment, and copy it.

    Args:
        flag: Scalar bool tensor.
    """

    def __init__(self, flag: Any) -> None:
        super().__init__()
        self._flag = flag
        self._assigned: dict[int, Any] = {}

    def get_current_value(self, variable: Any) -> Any:
        """Return the value of a variable in this scope, or in the one around it."""
        value = super().get_current_value(variable)
        return self.original_scope.get_current_value(variable) if value is None else value

    def add_update(self, update: tuple[Any, Any]) -> None:
        """Note a new value for a variable."""
        variable, value = update
        self._assigned[id(variable)] = variable
        super().add_update((variable, keras.ops.where(self._flag, value, read(variable))))

    def __exit__(self, *error: object) -> None:
        """Hand the values on to the scope around this one."""
        super().__exit__(*error)
        for variable in self._assigned.values():
            self.original_scope.add_update((variable, super().get_current_value(variable)))


def _select(finite: Any, update: Callable[[], object], affected: Sequence[Any]) -> None:
    before = [read(variable) for variable in affected]
    update()
    for variable, old in zip(affected, before, strict=True):
        new = read(variable)
        if new is not old:
            variable.assign(keras.ops.where(finite, new, old))

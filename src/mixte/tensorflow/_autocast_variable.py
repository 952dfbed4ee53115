"""A variable that is stored in float32 and read in the compute dtype."""

from __future__ import annotations

from typing import Any, final
from weakref import ref

from mixte.tensorflow._framework import tf


@final
class AutocastVariable(tf.Variable, tf.__internal__.types.Tensor):
    """A float32 variable whose value, wherever it is used as a tensor, is cast to the compute dtype.

    Made by ``float32_variable_storage``; it wraps the float32 variable and stands for it everywhere:

    - as a tensor (an operand, an argument of an operation, ``value()``, a slice, a gather) it has the compute
      dtype. A gather casts the gathered rows only;
    - its gradient by ``tf.GradientTape`` is float32, and sparse where the variable's would be;
    - ``assign`` and its relatives change the float32 value; 16-bit arguments are widened. Another autocast
      variable is copied in float32, without a detour through the compute dtype;
    - ``dtype``, ``numpy()`` and checkpoints are those of the float32 variable, under the keys that the variable
      has without mixte: a float32 run reads the checkpoint of a mixed one, and the reverse.

    Not a subclass of TensorFlow's own resource variable: its eager operations read those straight from memory,
    past any Python method, and would see float32. Keras 2's AutoCastVariable wraps for the same reason.

    Arithmetic on the value, such as a moving average of the weights, is done in the compute dtype like any
    other; take ``master_weight(variable)`` to do it in float32.
    """

    def __init__(self, variable: Any, compute_dtype: Any) -> None:
        # The base's constructor makes a new variable: it must not run.
        self._variable = variable
        self._compute_dtype = tf.as_dtype(compute_dtype)

    @property
    def compute_dtype(self) -> Any:
        """The dtype that the value is read in."""
        return self._compute_dtype

    @property
    def master(self) -> Any:
        """The float32 variable."""
        return self._variable

    def value(self) -> Any:
        """Return the value in the compute dtype."""
        return tf.cast(self._variable.value(), self._compute_dtype)

    def read_value(self) -> Any:
        """Return the value in the compute dtype, read at this point of the program."""
        return tf.cast(self._variable.read_value(), self._compute_dtype)

    def sparse_read(self, indices: Any, name: str | None = None) -> Any:
        """Gather rows and cast them."""
        return tf.cast(self._variable.sparse_read(indices, name=name), self._compute_dtype)

    def gather_nd(self, indices: Any, name: str | None = None) -> Any:
        """Gather slices and cast them."""
        return tf.cast(self._variable.gather_nd(indices, name=name), self._compute_dtype)

    def assign(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Set the float32 value."""
        return self._changed("assign", value, use_locking, name, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add to the float32 value."""
        return self._changed("assign_add", delta, use_locking, name, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract from the float32 value."""
        return self._changed("assign_sub", delta, use_locking, name, read_value)

    def _changed(self, method: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> Any:
        if isinstance(value, AutocastVariable):
            value = value.master
        elif hasattr(value, "dtype") and value.dtype != self._variable.dtype:
            value = tf.cast(value, self._variable.dtype)
        result = getattr(self._variable, method)(value, use_locking, name, read_value)
        # As TensorFlow's own: the variable itself for chaining; in a TensorFlow 1 graph, what must be run.
        chained = read_value and tf.compat.v1.executing_eagerly_outside_functions()
        return self if chained else result

    def __tf_tensor__(self, dtype: Any = None, name: str | None = None) -> Any:
        """Convert to a tensor of the compute dtype, for TensorFlow's operations."""
        if dtype is not None and not dtype.is_compatible_with(self._compute_dtype):
            raise ValueError(
                f"{self.name} is read in {self._compute_dtype.name}, but a tensor of dtype {dtype.name} was "
                "asked for. Cast the other operand, or take mixte.tensorflow.master_weight() for float32."
            )
        return tf.cast(self._variable.value(), self._compute_dtype, name=name)

    def _dense_var_to_tensor(self, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:  # noqa: ARG002 - TensorFlow's signature
        return self.__tf_tensor__(dtype, name)

    def _export_to_saved_model_graph(self, object_map: Any, *arguments: Any, **named: Any) -> Any:
        tensors = self._variable._export_to_saved_model_graph(object_map, *arguments, **named)  # noqa: SLF001 - as tf.Module does
        object_map[self] = object_map[self._variable]  # the exported object is found under this one too
        return tensors

    def _copy_trackable_to_cpu(self, object_map: Any) -> None:
        self._variable._copy_trackable_to_cpu(object_map)  # noqa: SLF001 - its own method
        object_map[self] = object_map[self._variable]

    def __tf_tracing_type__(self, context: Any) -> Any:
        # Without this a tf.function would take an argument of this class for a numpy array.
        return _ThisVariable(self)

    def _should_act_as_resource_variable(self) -> None:
        """Mark this class, by its presence, for TensorFlow's gradients and optimizers, which use the handle."""

    def __getattr__(self, name: str) -> Any:
        # Special methods are not passed on unseen: TensorFlow would take this object for the variable inside.
        if name.startswith("__") or name == "_variable":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._variable, name)

    def __repr__(self) -> str:
        return f"<AutocastVariable of {self._variable!r}, read in {self._compute_dtype.name}>"


@final
class _ThisVariable(tf.types.experimental.TraceType):
    """The type of one variable among the arguments of a ``tf.function``: another variable means a new trace."""

    def __init__(self, variable: AutocastVariable) -> None:
        self._reference = ref(variable)
        self._hash = id(variable)

    def is_subtype_of(self, other: Any) -> bool:
        return self == other

    def most_specific_common_supertype(self, others: Any) -> Any:
        return self if all(self == other for other in others) else None

    def placeholder_value(self, placeholder_context: Any) -> Any:  # noqa: ARG002 - TensorFlow's signature
        return self._reference()

    def cast(self, value: Any, cast_context: Any) -> Any:  # noqa: ARG002 - TensorFlow's signature
        if value is not self._reference():
            raise ValueError(f"{value!r} is not the variable that the function was traced with.")
        return value

    def __eq__(self, other: object) -> bool:
        # By identity: variables themselves compare element by element.
        return isinstance(other, _ThisVariable) and self._reference() is other._reference() is not None

    def __hash__(self) -> int:
        return self._hash


def _property_of_the_variable(name: str) -> property:
    return property(lambda self: getattr(self._variable, name))


def _method_of_the_variable(name: str) -> Any:
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        return getattr(self._variable, name)(*arguments, **named)

    method.__name__ = name
    return method


# tf.Variable defines these, mostly as NotImplementedError, so __getattr__ never sees them.
_PROPERTIES = (
    *("aggregation", "constraint", "device", "dtype", "graph", "initial_value", "initializer", "name", "op"),
    *("shape", "synchronization", "trainable", "_shared_name"),
)
_METHODS = (
    *("eval", "get_shape", "load", "set_shape", "to_proto"),
    *(
        "scatter_add",
        "scatter_div",
        "scatter_max",
        "scatter_min",
        "scatter_mul",
        "scatter_sub",
        "scatter_update",
    ),
    *("batch_scatter_update", "scatter_nd_add", "scatter_nd_sub", "scatter_nd_update"),
    # Checkpoints and SavedModels
    *("_serialize_to_tensors", "_restore_from_tensors", "_gather_saveables_for_checkpoint"),
    "_write_object_proto",
    # Conversions to Python and numpy values, and the in-place operators, which TensorFlow refuses with advice
    *("__array__", "__bool__", "__complex__", "__float__", "__int__"),
    *("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"),
)


def _stand_for_the_variable() -> None:
    for name in _PROPERTIES:
        setattr(AutocastVariable, name, _property_of_the_variable(name))
    for name in _METHODS:
        setattr(AutocastVariable, name, _method_of_the_variable(name))


_stand_for_the_variable()


def master_weight(variable: Any) -> Any:
    """Return the float32 variable behind an autocast variable; any other variable as it is.

    For arithmetic that must not be done in the compute dtype: moving averages, weight decay, norms.
    """
    return variable.master if isinstance(variable, AutocastVariable) else variable

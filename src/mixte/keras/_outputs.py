"""Find the layers whose values are a model's outputs."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from mixte.keras._framework import BACKEND, compute_output_spec, keras


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """A call of a layer inside a model: whether it was given an input of the model, and returned an output."""

    layer: Any
    takes_input: bool
    gives_output: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trace:
    """What a symbolic call of a subclassed model showed.

    Attributes:
        calls: The calls of its layers.
        other_outputs: The dtypes of the outputs that no layer returned, but code of the model.
    """

    calls: tuple[_Call, ...]
    other_outputs: tuple[str, ...]


def output_layers(model: Any) -> list[Any]:
    """Return the layers that produce a model's outputs; none where that cannot be told.

    In a functional or sequential model, the graph tells. Where an output comes from an operation that is no
    layer (``keras.ops.add(a, b)``), the layers that feed it count. In a model that is an output layer itself,
    its own output layers count too. A subclassed model is traced once, on symbolic tensors of the shapes that
    it was built with; it has to be built.
    """
    found: list[Any] = []
    for layer in _direct_output_layers(model):
        found.append(layer)
        if isinstance(layer, keras.Model):
            found += output_layers(layer)
    return found


def _direct_output_layers(model: Any) -> list[Any]:
    if not isinstance(model, keras.Model):
        return []
    functional = _graph(model)
    if functional is not None:
        return _producers(functional)
    if isinstance(model, keras.Sequential):
        return list(model.layers[-1:])
    return _traced_output_layers(model)


def _graph(model: Any) -> Any:
    """Return the functional model that a functional or built sequential model runs; None for others."""
    functional = getattr(model, "_functional", None) if isinstance(model, keras.Sequential) else model
    return functional if hasattr(functional, "_operations") else None


def _producers(functional: Any) -> list[Any]:
    inputs = {id(tensor) for tensor in keras.tree.flatten(functional.inputs)}
    pending = list(keras.tree.flatten(functional.outputs))
    layers: list[Any] = []
    seen: set[int] = set()
    while pending:
        tensor = pending.pop()
        if id(tensor) in seen or id(tensor) in inputs:
            continue
        seen.add(id(tensor))
        operation, node_index, _ = tensor._keras_history  # noqa: SLF001 - the documented way to walk a graph
        if isinstance(operation, keras.Layer):
            layers.append(operation)
        else:
            node = operation._inbound_nodes[node_index]  # noqa: SLF001 - as above
            pending += node.input_tensors
    return layers


def layers_fed_by_inputs(model: Any) -> list[Any]:
    """Return the layers of a subclassed model that are called on its inputs as they are, not cast.

    None in a functional or sequential model, which leaves its inputs to its layers.
    """
    if not has_hidden_outputs(model):
        return []
    return [call.layer for call in _trace(model).calls if call.takes_input]


def dtypes_of_outputs_by_code(model: Any) -> tuple[str, ...]:
    """Return the dtypes of a subclassed model's outputs that no layer gives: ``ops.softmax(self.head(x))``, say.

    None in a functional or sequential model: there the layers that feed the operation count as output layers.
    """
    if not has_hidden_outputs(model):
        return ()
    return _trace(model).other_outputs


def has_hidden_outputs(model: Any) -> bool:
    """Tell whether only a call can show which layers give the outputs: the model is a subclassed one."""
    return isinstance(model, keras.Model) and not isinstance(model, keras.Sequential) and _graph(model) is None


def _traced_output_layers(model: Any) -> list[Any]:
    return [call.layer for call in _trace(model).calls if call.gives_output]


def _trace(model: Any) -> _Trace:
    """Call a subclassed model on symbolic tensors, and see which layers its inputs and outputs pass.

    Empty where the model is not built, or cannot be called so.
    """
    shapes = getattr(model, "_build_shapes_dict", None) or {}
    arguments = [_symbolic(shape) for shape in shapes.values()]
    if not model.built or not arguments or any(argument is None for argument in arguments):
        return _NOTHING_SEEN
    calls: list[tuple[Any, list[Any], list[Any]]] = []
    traces: list[_Trace] = []
    layers = list(model._flatten_layers(include_self=False))  # noqa: SLF001 - `layers` are the direct ones only

    def call(*values: Any) -> Any:
        result = model.call(*values)
        traces.append(_read(calls, inputs=keras.tree.flatten(values), outputs=keras.tree.flatten(result)))
        return result

    own = {
        id(layer): vars(layer)["call"] for layer in layers if "call" in vars(layer)
    }  # an emulated layer's, say
    for layer in layers:
        object.__setattr__(layer, "call", _listening(layer, layer.call, calls))
    try:
        compute_output_spec(call, *arguments)
    except Exception:  # noqa: BLE001 - a user's model may refuse symbolic tensors in any way: then it is unknown
        return _NOTHING_SEEN
    finally:
        for layer in layers:
            if id(layer) in own:
                object.__setattr__(layer, "call", own[id(layer)])
            else:
                object.__delattr__(layer, "call")
    return traces[-1]


_NOTHING_SEEN = _Trace(calls=(), other_outputs=())


def _read(calls: list[tuple[Any, list[Any], list[Any]]], *, inputs: list[Any], outputs: list[Any]) -> _Trace:
    returned = [tensor for _, _, got in calls for tensor in got]
    others = [each for each in outputs if hasattr(each, "dtype") and not _share([each], [*returned, *inputs])]
    return _Trace(
        calls=tuple(
            _Call(layer=layer, takes_input=_share(given, inputs), gives_output=_share(got, outputs))
            for layer, given, got in calls
        ),
        other_outputs=tuple(keras.backend.standardize_dtype(each.dtype) for each in others),
    )


def _listening(layer: Any, call: Any, calls: list[tuple[Any, list[Any], list[Any]]]) -> Any:
    @functools.wraps(call)  # Keras reads its signature
    def listen(*args: Any, **kwargs: Any) -> Any:
        result = _in_compute_dtype(layer, call(*args, **kwargs))
        calls.append((layer, keras.tree.flatten((args, kwargs)), keras.tree.flatten(result)))
        return result

    return listen


def _in_compute_dtype(layer: Any, result: Any) -> Any:
    """Correct what a layer of Keras returned on symbolic tensors.

    On PyTorch a variable has its own dtype there, not the one that it is read in: a layer that computes in float16
    from float32 variables seems to return float32.
    """
    own = type(layer).__module__.partition(".")[0] == "keras" and not isinstance(layer, keras.Model)
    if BACKEND != "torch" or not own or layer.compute_dtype == layer.variable_dtype:
        return result

    def correct(value: Any) -> Any:
        stale = getattr(value, "dtype", None) is not None and value.is_floating_point()
        return keras.ops.cast(value, layer.compute_dtype) if stale else value

    return keras.tree.map_structure(correct, result)


def _share(some: list[Any], others: list[Any]) -> bool:
    return any(one is other for one in some for other in others)


def _symbolic(shape: Any) -> Any:
    """Return symbolic tensors for a shape, or for a structure of shapes; None if it holds anything else."""
    if isinstance(shape, (tuple, list)) and all(size is None or isinstance(size, int) for size in shape):
        return keras.KerasTensor(tuple(shape), dtype="float32")
    if isinstance(shape, dict):
        inner = {key: _symbolic(value) for key, value in shape.items()}
        return None if any(value is None for value in inner.values()) else inner
    if isinstance(shape, (tuple, list)) and shape:
        items = [_symbolic(value) for value in shape]
        return None if any(item is None for item in items) else items
    return None

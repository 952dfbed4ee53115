"""Bring the dtypes in a functional model's graph up to date after its layers changed their precision."""

from __future__ import annotations

from typing import Any

from mixte.keras._framework import keras

_SIXTEEN_BIT = ("float16", "bfloat16")

SymbolicDtypes = tuple[tuple[Any, str], ...]
"""Symbolic tensors and input layers, each with its dtype."""


def symbolic_dtypes(model: Any) -> SymbolicDtypes:
    """Return the dtypes in the graphs of a model and of those inside it, for ``restore_symbolic_dtypes``."""
    holders: dict[int, Any] = {}
    for graph in _graphs(model):
        for nodes in graph._nodes_by_depth.values():  # noqa: SLF001 - no public walk exists
            for node in nodes:
                if isinstance(node.operation, keras.layers.InputLayer):
                    holders[id(node.operation)] = node.operation
                holders.update((id(tensor), tensor) for tensor in node.outputs)
    return tuple((holder, holder._dtype) for holder in holders.values())  # noqa: SLF001 - read-only in public


def restore_symbolic_dtypes(dtypes: SymbolicDtypes) -> None:
    """Set dtypes back to what they were."""
    for holder, dtype in dtypes:
        holder._dtype = dtype  # noqa: SLF001 - read-only in public


def refresh_symbolic_dtypes(model: Any) -> None:
    """Infer the dtype of every symbolic tensor of a functional or sequential model again, from its layers.

    Keras infers them once, when the graph is made. A stale one misleads whoever builds on ``model.output``, and
    a 16-bit one at the input rounds the data, or overflows, before a float32 first layer sees it. A nested
    model comes before the model around it.
    """
    for graph in _graphs(model):
        _refresh(graph)


def _graphs(model: Any) -> list[Any]:
    """Return the graphs of the functional and sequential models in a model, the model's own last."""
    models = [layer for layer in model._flatten_layers() if layer is not model]  # noqa: SLF001 - yields nested models
    graphs = [getattr(layer, "_functional", None) or layer for layer in (*models, model)]
    return [graph for graph in graphs if hasattr(graph, "_nodes_by_depth")]


def _refresh(graph: Any) -> None:
    for depth in sorted(graph._nodes_by_depth, reverse=True):  # noqa: SLF001 - no public walk in order exists
        for node in graph._nodes_by_depth[depth]:  # noqa: SLF001
            if isinstance(node.operation, keras.layers.InputLayer):
                _widen_input(node.operation)
            elif not node.is_input:
                _infer(node)


def _widen_input(layer: Any) -> None:
    """Let data enter in float32: the first layer casts it to what that layer computes in.

    A sequential model without an ``Input`` gives its input the compute dtype of its first layer.
    """
    if layer.dtype in _SIXTEEN_BIT and layer.name.startswith("input_layer"):
        layer._dtype = "float32"  # noqa: SLF001 - read-only in public
        for tensor in keras.tree.flatten(layer.output):
            tensor._dtype = "float32"  # noqa: SLF001


def _infer(node: Any) -> None:
    arguments = node.arguments
    try:
        spec = node.operation.compute_output_spec(*arguments.args, **arguments.kwargs)
    except Exception:  # noqa: BLE001 - a user's layer may not support a second inference: its dtype stays as it was
        return
    for old, new in zip(node.outputs, keras.tree.flatten(spec), strict=False):
        old._dtype = new.dtype  # noqa: SLF001 - read-only in public

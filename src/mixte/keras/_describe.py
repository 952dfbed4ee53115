"""Describe the layers of a Keras model as the rules of a policy see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mixte.keras._framework import keras
from mixte.keras._outputs import output_layers
from mixte.policy import LayerDescription

if TYPE_CHECKING:
    from collections.abc import Iterator


def describe_layers(model: Any) -> list[LayerDescription]:
    """Describe a model and every layer in it, in the order of a walk from the root.

    A layer that is reached on several ways, because it is shared, is described once, at the first.

    Args:
        model: A ``keras.Model``, or any ``keras.Layer``. Layers that are created only when the model is built
            are missing before that.
    """
    outputs = {id(layer) for layer in output_layers(model)}
    return list(_walk(model, path="", owner=None, outputs=outputs, seen=set()))


def sublayers(layer: Any) -> list[Any]:
    """Return the layers directly inside a layer, without what only Keras put there."""
    inner = layer._flatten_layers(include_self=False, recursive=False)  # noqa: SLF001 - `layers` is for models only
    return [sub for sub in inner if not isinstance(sub, keras.layers.InputLayer)]


def explicit_dtype(layer: Any) -> str | None:
    """Return the name of the dtype policy that the script gave to this layer by ``dtype=``, or None.

    A name was written by a person; a layer that is built by another layer is handed a policy object instead.
    Known exactly for layers made under ``mixte.keras.use``; of others Keras keeps the constructor's arguments if
    all of them are plain values. A layer that was read from a file, or copied, has the dtype of its configuration,
    which no script gave.
    """
    if layer.dtype_policy.quantization_mode is not None:  # quantised: no policy is to take that back
        return layer.dtype_policy.name
    if _made_from_configuration(layer):
        return None
    if hasattr(layer, "_mixte_dtype_argument"):
        return layer._mixte_dtype_argument  # noqa: SLF001 - ours
    value = _arguments(layer).get("dtype")
    return value if isinstance(value, str) else None


def _arguments(layer: Any) -> dict[str, Any]:
    """Return the constructor's arguments, with defaults, if all of them are plain values; else nothing."""
    return getattr(getattr(layer, "_auto_config", None), "config", {})


def _made_from_configuration(layer: Any) -> bool:
    """Tell whether a layer was made by ``from_config``: when a model is loaded or cloned.

    Its arguments are then those of ``get_config``: with ``trainable``, which hardly any script writes, and with
    initializers and the like as configurations, which no script writes.
    """
    if isinstance(layer, keras.layers.Wrapper):  # whose arguments are never plain
        return _made_from_configuration(layer.layer)
    arguments = _arguments(layer)
    if not arguments.keys() >= {"trainable", "dtype"}:
        return False
    try:
        configuration = layer.get_config()
    except Exception:  # noqa: BLE001 - a layer of the script's own may have none
        return False
    nested = [key for key, value in configuration.items() if isinstance(value, dict) and key != "dtype"]
    return all(isinstance(arguments.get(key), dict) for key in nested)


def _walk(
    layer: Any, *, path: str, owner: LayerDescription | None, outputs: set[int], seen: set[int]
) -> Iterator[LayerDescription]:
    if id(layer) in seen:
        return
    seen.add(id(layer))
    description = LayerDescription(
        path=path,
        class_names=tuple(
            base.__name__
            for base in type(layer).__mro__
            if issubclass(base, keras.Layer) and base is not object
        ),
        is_output=id(layer) in outputs,
        activation=_activation_name(layer),
        has_activity_regularizer=getattr(layer, "activity_regularizer", None) is not None,
        dtype_set_by_user=_dtype_by_script(layer, owner),
        owner=owner,
        layer=layer,
    )
    yield description
    inner_owner = description if _is_keras_layer(layer) else None
    for sub in sublayers(layer):
        name = f"{path}/{sub.name}" if path else sub.name
        yield from _walk(sub, path=name, owner=inner_owner, outputs=outputs, seen=seen)


def wraps_layers_of_script(layer: Any) -> bool:
    """Tell whether the layers inside a Keras layer were made by the script, each with a precision of its own.

    Others, such as an attention layer's projections, are made by the layer, and take its precision from it.
    """
    return (
        isinstance(layer, (keras.layers.Wrapper, keras.layers.StackedRNNCells))
        or type(layer) is keras.layers.RNN
    )


def _dtype_by_script(layer: Any, owner: LayerDescription | None) -> str | None:
    if owner is None or wraps_layers_of_script(owner.layer):
        return explicit_dtype(layer)
    if isinstance(owner.layer, keras.layers.Bidirectional):  # it copies the layer of the script
        mark = getattr(layer, "_mixte_dtype_argument", None)
        return owner.dtype_set_by_user if mark is None else mark
    if layer.dtype_policy.quantization_mode is not None:
        return layer.dtype_policy.name
    return owner.dtype_set_by_user  # a part that the owner made itself


def _is_keras_layer(layer: Any) -> bool:
    """Tell whether the layer's own class is Keras's, and not a model: its sublayers then implement it."""
    return not isinstance(layer, keras.Model) and type(layer).__module__.partition(".")[0] == "keras"


def _activation_name(layer: Any) -> str | None:
    activation = getattr(layer, "activation", None)
    return getattr(activation, "__name__", None) if callable(activation) else None

"""Give the layers of a model an emulated arithmetic, and take it away again, leaving no trace in what is saved."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from mixte.keras._emulation_functions import function_mode, install_functions
from mixte.keras._emulation_scope import entered, is_outermost, products
from mixte.keras._framework import keras

if TYPE_CHECKING:
    from mixte.keras._emulation_scope import Products


def attach(layer: Any, entry: Products) -> None:
    """Give a layer's ``call`` an arithmetic. Not seen by Keras's tracking, so that no saved model has it."""
    install_functions()
    detach(layer)
    original = layer.call

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_outermost():
            with entered(entry), function_mode():
                return original(*args, **kwargs)
        if products() is None:  # while the model is exported
            return original(*args, **kwargs)
        with entered(entry):
            return original(*args, **kwargs)

    object.__setattr__(layer, "call", call)
    object.__setattr__(layer, "_mixte_products", entry)


def attached(layer: Any) -> Products | None:
    """Return the arithmetic that a layer was given, or None."""
    return getattr(layer, "_mixte_products", None)


def detach(layer: Any) -> None:
    """Give a layer its own ``call`` back."""
    if attached(layer) is not None:
        object.__delattr__(layer, "call")
        object.__delattr__(layer, "_mixte_products")


_PATCHED: list[bool] = []


def keep_out_of_exports() -> None:
    """Let ``Model.export`` trace the layers as they are without emulation. Once per process."""
    if _PATCHED:
        return
    _PATCHED.append(True)
    original = keras.Model.export

    @functools.wraps(original)
    def export(self: Any, *args: Any, **kwargs: Any) -> Any:
        with entered(None):
            return original(self, *args, **kwargs)

    keras.Model.export = export

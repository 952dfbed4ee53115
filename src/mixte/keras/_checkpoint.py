"""What a loss-scaling optimizer writes into Keras's files beside what the optimizer inside it would, and reads back.

A file has the inner optimizer's variables where Keras would have saved that optimizer alone, and in its format: so a
process without loss scaling, and without mixte, finds them. Once more they are where Keras's own scaler looks for
them. What only this project knows is in a group that Keras passes over.
"""

from __future__ import annotations

import json
import weakref
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mixte.keras._checkpoint_slots import (
    assign,
    assign_by_name,
    fit,
    names_of,
    path_of,
    warn_of_missing,
)
from mixte.keras._checkpoint_tensorflow import Checkpointed
from mixte.keras._framework import BaseOptimizer
from mixte.keras._provenance import initial_note

if TYPE_CHECKING:
    from collections.abc import Callable

KerasSaveable: Any = next(base for base in BaseOptimizer.__mro__ if base.__name__ == "KerasSaveable")
"""What Keras looks for when it walks a model to save it. It has no public name."""

_KEY: Final = "json"
_OF_KERAS: Final = 4
"""Keras's scaler saves this many of its own first: iteration, learning rate, step counter and scale."""


class Saved(Checkpointed, KerasSaveable):
    """Part of a loss-scaling optimizer that Keras saves and loads as a child of it, after the inner optimizer.

    Args:
        optimizer: The loss-scaling optimizer.
    """

    def __init__(self, optimizer: Any) -> None:
        super().__init__()
        # Weakly: Keras follows every attribute of what it saves.
        self._of: Callable[[], Any] = weakref.ref(optimizer)
        self._values: list[Any] | None = None

    def save_own_variables(self, store: Any) -> None:
        """Write what Keras has no place for: the scaler's state, and the names of the inner variables."""
        store[_KEY] = np.frombuffer(json.dumps(self.to_plain()).encode(), "uint8")

    def load_own_variables(self, store: Any) -> None:
        """Restore the optimizer from what was read: last of its parts, so that all is at hand."""
        optimizer, values = self._of(), self._values
        self._values = None
        optimizer._hides_inner = False  # noqa: SLF001 - set where loading began
        if _KEY in store.keys():  # noqa: SIM118 - a store of Keras, no dictionary
            saved = json.loads(np.asarray(store[_KEY]).tobytes())
            self.from_plain(saved)
            if values is not None:
                optimizer.when_built(lambda: _restore_named(optimizer.inner_optimizer, saved, values))
        elif values:
            optimizer.when_built(lambda: _restore_foreign(optimizer, values))

    def keep(self, values: list[Any]) -> None:
        """Keep what was saved of the inner optimizer, by position, until its names are read."""
        self._values = values

    def to_plain(self) -> dict[str, Any]:
        """Return the state by name, as JSON can hold it. Waits for the device."""
        optimizer = self._of()
        skip = optimizer.read_last_skip() if optimizer.built else None
        return {
            "scaler": optimizer.scaler.to_plain(),
            "last_skip": None if skip is None else [skip.step, skip.variable],
            "variables": [list(name) for name in names_of(optimizer.inner_optimizer)],
        }

    def from_plain(self, saved: dict[str, Any]) -> None:
        """Restore the state of the scaler."""
        optimizer = self._of()
        optimizer.scaler.from_plain(saved["scaler"])
        skip = saved.get("last_skip")
        optimizer.when_built(lambda: optimizer.note_last_skip(skip))

    def _obj_type(self) -> str:
        return "Loss"  # of the kinds that Keras knows, the one with the fewest names of its own


def read_all(store: Any) -> list[Any]:
    """Return the values of a store that Keras's optimizers wrote: by position, from 0."""
    return [np.asarray(store[str(place)]) for place in range(len(store.keys()))]


def _restore_named(inner: Any, saved: dict[str, Any], values: list[Any]) -> None:
    names = [(slot, path) for slot, path in saved["variables"]]
    if len(names) == len(values):
        assign_by_name(inner, names, values)


def _restore_foreign(optimizer: Any, values: list[Any]) -> None:
    """Restore from what Keras saved, of an optimizer without loss scaling, or of its own scaler."""
    inner = optimizer.inner_optimizer
    if fit(inner, values):
        assign(inner.variables, values)
        return
    own, others = values[:_OF_KERAS], values[_OF_KERAS:]
    if fit(inner, others) and all(value.ndim == 0 for value in own):
        assign(inner.variables, others)
        optimizer.scaler.from_plain({"state": {"scale": float(own[-1])}})
        return
    warn_of_missing(inner, 0, names_of(inner))


def note_of(skip: Any, variables: Any) -> Any:
    """Return what to note of a skip that was saved: nothing, if its variable is not among these."""
    if skip is None:
        return initial_note()
    step, path = skip
    paths = [path_of(variable) for variable in variables]
    if path is not None and path not in paths:
        return initial_note()
    return np.asarray([step, -1 if path is None else paths.index(path)], "int64")

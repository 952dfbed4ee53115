"""A scaler's state as plain data, by name: the same whatever the backend, and readable by another law."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mixte.keras._history import LENGTH
from mixte.keras._state import vectors_of
from mixte.scaling import COUNTER_NAMES, FixedScale, law_to_config

if TYPE_CHECKING:
    from mixte.scaling import LossScaleLaw


def to_plain(law: LossScaleLaw, floats: Any, integers: Any) -> dict[str, Any]:
    """Return what is in a scaler's two vectors, as JSON can hold it.

    Args:
        law: The law.
        floats: The float32 vector, on the host. float32 values survive JSON to the last bit.
        integers: The integer vector, on the host.
    """
    named = _named(law, np.asarray(floats), np.asarray(integers))
    counters = {name: named.pop(name) for name in COUNTER_NAMES}
    history = vectors_of(law).decode(floats, integers).history
    changes = int(integers[-1])
    return {
        "law": law_to_config(law),
        "state": named,
        "counters": counters,
        "history": [[step, scale] for step, scale in history],
        "changes": changes,
    }


def from_plain(law: LossScaleLaw, saved: dict[str, Any]) -> tuple[Any, Any]:
    """Return a scaler's two vectors from what ``to_plain`` made, maybe of another law.

    The same law, with the same parameters, goes on where it was. Another one starts anew, at the saved scale
    within its own bounds; a fixed scale stays what it is. The counters and the history are of the training, not of
    the law, and are kept.

    Args:
        law: The law that goes on.
        saved: What ``to_plain`` made. What it lacks starts anew.
    """
    vectors = vectors_of(law)
    state = vectors.law.initial_state()
    found = saved.get("state", {})
    if saved.get("law") == law_to_config(law):
        known = {name: value for name, value in found.items() if name in state}
    elif "scale" in found:
        known = started_at(law, float(found["scale"]))
    else:
        known = {}
    values = {name: float(value) for name, value in {**state, **known}.items()}
    values |= {name: int(saved.get("counters", {}).get(name, 0)) for name in COUNTER_NAMES}
    history, changes = saved.get("history", []), int(saved.get("changes", 0))
    steps, scales = [0] * LENGTH, [0.0] * LENGTH
    for place, (step, scale) in zip(range(changes - len(history), changes), history, strict=True):
        steps[place % LENGTH], scales[place % LENGTH] = int(step), float(scale)
    float_names, integer_names = _names(law)
    return (
        np.asarray([values[name] for name in float_names] + scales, "float32"),
        np.asarray([int(values[name]) for name in integer_names] + [*steps, changes], "int64"),
    )


def started_at(law: LossScaleLaw, scale: float) -> dict[str, float]:
    """Return the state of a law that starts at a scale, or at the nearest that its bounds allow."""
    if isinstance(law, FixedScale):
        return {"scale": law.scale}
    bounded: Any = law  # every law but the fixed one has bounds and a start
    start = min(max(scale, bounded.min_scale), bounded.max_scale)
    return {name: float(value) for name, value in replace(bounded, initial_scale=start).initial_state().items()}


def _named(law: LossScaleLaw, floats: Any, integers: Any) -> dict[str, Any]:
    float_names, integer_names = _names(law)
    named: dict[str, Any] = {name: float(value) for name, value in zip(float_names, floats, strict=False)}
    return named | {name: int(value) for name, value in zip(integer_names, integers, strict=False)}


def _names(law: LossScaleLaw) -> tuple[list[str], list[str]]:
    vectors = vectors_of(law)
    return vectors._float_names, vectors._integer_names  # noqa: SLF001 - the layout is theirs, the names are the law's

"""The events of a Chrome trace, the JSON container that PyTorch, TensorFlow and JAX share.

Layout: "Trace Event Format" (Google, 2016): an object with ``traceEvents``, or the bare list; ``ts`` and ``dur``
in microseconds.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mixte.profiles.readers._json_array import JsonArray

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

Identifier = int | float | str | None
Number = float | str | None

_DIGITS = re.compile(r"-?\d+")
Shape = TypeVar("Shape", bound=msgspec.Struct)


def open_events(source: Source, event: type[Shape]) -> JsonArray[Shape]:
    """Give the events of a trace, whichever of the two forms it has."""
    bare = source.text_head().lstrip().startswith("[")
    return JsonArray(source, None if bare else "traceEvents", event)


def surroundings(events: JsonArray[Any], schema: type[Shape]) -> Shape:
    """Decode what stands before and after the events, once they have been read.

    What is cut off or damaged counts as absent: the fields of `schema` need None as their default.
    """
    result = schema()
    before, after = events.before.strip(), events.after.strip()
    for text in (before + b'"traceEvents":[]}', b'{"traceEvents":[]' + after):
        try:
            part = msgspec.json.decode(text, type=schema)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        for field in schema.__struct_fields__:
            value = getattr(part, field)
            if value is not None:
                setattr(result, field, value)
    return result


def microseconds(value: Number) -> float | None:
    """Give a time in microseconds; None for what is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return value if value is not None and math.isfinite(value) else None


def whole_number(value: Identifier) -> int | None:
    """Give an identifier as the number in it: ``7``, ``7.0``, ``"7"`` and ``"stream 7"`` are 7."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) else None
    found = _DIGITS.search(value) if value else None
    return int(found[0]) if found and len(found[0]) < 20 else None


NONE_READ = "the part of the file that could be read holds none"
"""Why there are no kernels in a file that is cut off: what is missing may hold them."""


def incompleteness(events: JsonArray[Any]) -> list[str]:
    """Give a sentence for each way in which the list of events was not read in full."""
    sentences: list[str] = []
    if not events.complete:
        sentences.append("the file ends in the middle of its list of events")
    if events.skipped:
        sentences.append(f"{events.skipped} damaged events were skipped")
    return sentences

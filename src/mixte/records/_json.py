"""JSON as the record uses it: UTF-8, and the numbers that JSON lacks written as strings.

NaN and the infinities are written as ``"nan"``, ``"inf"`` and ``"-inf"`` and read back from them wherever a
number is expected. msgspec alone would write ``null`` and lose them, and with them the very steps that a
mixed-precision run is about. Text that is not valid Unicode (a file name in another encoding) is escaped.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")


def encode_json(value: object) -> bytes:
    """Encode a Struct, or anything that msgspec encodes, on one line.

    Args:
        value: The value. Scalars of numpy and of the frameworks are taken by their ``item()``.

    Raises:
        TypeError: The value holds something that is neither.
    """
    return msgspec.json.encode(_writable(msgspec.to_builtins(value, enc_hook=_scalar)))


def indent_json(encoded: bytes) -> bytes:
    """Lay encoded JSON out for a person to read."""
    return msgspec.json.format(encoded, indent=2) + b"\n"


def decode_json(data: bytes, type_: type[T]) -> T:
    """Decode JSON that ``encode`` wrote.

    Raises:
        msgspec.MsgspecError: The data is not JSON, or not of this type.
    """
    # strict=False is what makes msgspec read "nan" and "inf" where a float is expected.
    return msgspec.json.decode(data, type=type_, strict=False)


def _writable(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return value.encode("utf-8", "backslashreplace").decode() if not value.isascii() else value
        case dict():
            entries = cast("dict[Any, Any]", value)
            return {_writable(key): _writable(entry) for key, entry in entries.items()}
        case list() | tuple():
            return [_writable(entry) for entry in cast("list[Any]", value)]
        case _:
            return value


def _scalar(value: Any) -> Any:
    item = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"cannot write a {type(value).__name__} to a run record")
    return item()

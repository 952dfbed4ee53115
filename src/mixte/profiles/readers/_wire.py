"""The protocol buffers wire format, read in place: numbers and byte ranges, no copies, no schema.

Format: https://protobuf.dev/programming-guides/encoding/ (varints, tag = field number << 3 | wire type).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups (3 and 4) left the language in 2016 and occur in no profile."""

_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}


class WireError(ValueError):
    """The bytes are not a message: cut off, or damaged."""


class Field(NamedTuple):
    """One field of a message.

    Attributes:
        number: The field's number in the schema.
        kind: The wire type.
        begin: VARINT, FIXED32 and FIXED64: the value, unsigned. BYTES: where the bytes begin.
        end: BYTES: where they end; 0 for the other kinds.
    """

    number: int
    kind: int
    begin: int
    end: int


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a varint of at most ten bytes, unsigned.

    Returns:
        The value modulo 2**64 and the offset behind it.

    Raises:
        WireError: It does not end before `end` or within ten bytes.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise WireError(f"a number at byte {at} is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise WireError(f"a number before byte {at} is longer than ten bytes")


def encoded_varint(value: int) -> bytes:
    """Write an unsigned number as a varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def fields(data: bytes, begin: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message in ``data[begin:end]`` in the order in which they are stored.

    Raises:
        WireError: Where the message stops making sense; the fields before that have been yielded.
    """
    at = begin
    while at < end:
        key, at = _number(data, at, end)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError(f"field number 0 at byte {at}")
        if kind == VARINT:
            value, at = _number(data, at, end)
            yield Field(number, kind, value, 0)
            continue
        size, start = _number(data, at, end) if kind == BYTES else (_FIXED_SIZES.get(kind, 0), at)
        if not size and kind != BYTES:
            raise WireError(f"wire type {kind} at byte {at} does not exist")
        at = start + size
        if at > end:
            raise WireError(
                f"field {number} at byte {start} is cut off: {size} bytes expected, {end - start} left"
            )
        if kind == BYTES:
            yield Field(number, kind, start, at)
        else:
            yield Field(number, kind, int.from_bytes(data[start:at], "little"), 0)


def _number(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read a varint; nearly all are a single byte."""
    if at < end and data[at] < 0x80:
        return data[at], at + 1
    return varint(data, at, end)


def signed(value: int) -> int:
    """Give the int64 that a varint or a fixed number stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def double(value: int) -> float:
    """Give the double of a FIXED64 field."""
    (result,) = struct.unpack("<d", value.to_bytes(8, "little"))
    return result


def text(data: bytes, field: Field) -> str:
    """Give a string field; bytes that are not UTF-8 become replacement characters."""
    return data[field.begin : field.end].decode("utf-8", errors="replace")


def packed_varints(data: bytes, field: Field) -> Iterator[int]:
    """Yield a repeated number, stored packed (BYTES) or one by one (VARINT)."""
    if field.kind == VARINT:
        yield field.begin
        return
    at = field.begin
    while at < field.end:
        value, at = varint(data, at, field.end)
        yield value

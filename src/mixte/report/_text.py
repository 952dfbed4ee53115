"""Plain text in columns: what may be printed, how wide it is, where it breaks.

Everything that mixte itself prints is ASCII. Names come from the user's script and may be anything: what the
terminal cannot show, or would obey (escape sequences, line ends), is escaped.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ELLIPSIS = "..."


def printable(text: str, encoding: str) -> str:
    """Return the text with everything escaped that is not a visible character of the encoding.

    Args:
        text: Any text.
        encoding: The output stream's, for example ``"ascii"`` or ``"utf-8"``.
    """
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def display_width(text: str) -> int:
    """Number of terminal columns: two for a wide East Asian character, none for a combining mark."""
    return sum(_columns(character) for character in text)


def clip(text: str, width: int) -> str:
    """Return the text, its end replaced by ``...`` if it has more than ``width`` columns."""
    if display_width(text) <= width:
        return text
    return f"{_head(text, max(width - len(ELLIPSIS), 0))}{ELLIPSIS}"[:width]


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Fill the text with blanks up to ``width`` columns, on its left if it is to stand ``right``."""
    blanks = " " * (width - display_width(text))
    return blanks + text if right else text + blanks


def wrap(text: str, width: int) -> list[str]:
    """Break the text at blanks into lines of at most ``width`` columns; a longer word is broken within."""
    lines = [""]
    for word in _pieces(text, width):
        candidate = f"{lines[-1]} {word}" if lines[-1] else word
        if display_width(candidate) <= width:
            lines[-1] = candidate
        else:
            lines.append(word)
    return lines


def hanging(head: str, text: str, width: int) -> list[str]:
    """The text after its head, further lines below its beginning."""
    indent = display_width(head)
    first, *rest = wrap(text, width - indent)
    return [f"{head}{first}".rstrip(), *(f"{' ' * indent}{line}" for line in rest)]


def columns(rows: Sequence[Sequence[str]], *, numeric_from: int = 1) -> list[str]:
    """Lay rows out in aligned columns, two blanks apart.

    Args:
        rows: Rows of equally many cells.
        numeric_from: Cells from this column on stand on the right.
    """
    widths = [max(display_width(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            pad(cell, width, right=index >= numeric_from)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _head(text: str, width: int) -> str:
    """The longest beginning of the text that fits."""
    used = 0
    for index, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return text[:index]
    return text


def _pieces(text: str, width: int) -> Iterator[str]:
    """The words of the text, each cut where it is wider than a line."""
    for word in text.split():
        rest = word
        while display_width(rest) > width:
            # A line of one column cannot hold a wide character: take one all the same.
            head = _head(rest, width) or rest[0]
            yield head
            rest = rest[len(head) :]
        if rest:
            yield rest

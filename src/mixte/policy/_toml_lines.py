"""On which line of a TOML document each key stands: what ``tomllib`` does not tell."""

from __future__ import annotations

import re
import tomllib
from typing import Final, TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and array indices from the top of a document: ``("rules", 0, "path")``."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")  # between statements, and between the elements of an array
_KEY = re.compile(r"""[ \t]*(?P<key>"(?:[^"\\]|\\.)*"|'[^']*'|[A-Za-z0-9_-]+)[ \t]*""")
_SCALAR = re.compile(r"[^,\]}#\n]*")

# A multi-line string may end in up to two quotes of its own before the three that close it.
_STRING: Final = {
    '"""': re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL),
    "'''": re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL),
    '"': re.compile(r'"(?:[^"\\]|\\.)*"'),
    "'": re.compile(r"'[^']*'"),
}


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key, table and array element of a document.

    Args:
        text: A document that ``tomllib`` accepts; of any other the result is unspecified.

    Returns:
        The line, counted from 1, on which each key is first written. An element of an array of tables stands on
        the line of its ``[[header]]``.
    """
    return _Scanner(text).scan()


class _Scanner:
    """Walks over a document once, from statement to statement."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._lines: dict[KeyPath, int] = {}
        self._table_counts: dict[KeyPath, int] = {}  # how many tables each array of tables has so far

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while True:
            self._skip_blank()
            if self._position >= len(self._text):
                return self._lines
            if self._sees("["):
                table = self._header()
            else:
                self._assignment(table)

    def _header(self) -> KeyPath:
        line = self._line()
        is_array = self._sees("[[")
        self._position += 2 if is_array else 1
        *parents, last = self._dotted_key()
        self._position += 2 if is_array else 1
        table: KeyPath = ()
        for key in parents:
            table = self._newest((*table, key))
            self._lines.setdefault(table, line)
        table = (*table, last)
        self._lines.setdefault(table, line)
        if is_array:
            self._table_counts[table] = self._table_counts.get(table, 0) + 1
            table = self._newest(table)
            self._lines[table] = line
        return table

    def _newest(self, table: KeyPath) -> KeyPath:
        count = self._table_counts.get(table)
        return table if count is None else (*table, count - 1)

    def _assignment(self, table: KeyPath) -> None:
        line = self._line()
        path = table
        for key in self._dotted_key():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._position += 1  # the equals sign
        self._skip_spaces()
        self._value(path)

    def _value(self, path: KeyPath) -> None:
        for opening, pattern in _STRING.items():
            if self._sees(opening):
                self._skip(pattern)
                return
        if self._sees("["):
            self._array(path)
        elif self._sees("{"):
            self._inline_table(path)
        else:
            self._skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self._position += 1
        index = 0
        self._skip_blank()
        while not self._sees("]"):
            self._lines[(*path, index)] = self._line()
            self._value((*path, index))
            index += 1
            self._skip_blank()
            if self._sees(","):
                self._position += 1
                self._skip_blank()
        self._position += 1

    def _inline_table(self, path: KeyPath) -> None:
        self._position += 1
        self._skip_blank()
        while not self._sees("}"):
            self._assignment(path)
            self._skip_blank()
            if self._sees(","):
                self._position += 1
                self._skip_blank()
        self._position += 1

    def _dotted_key(self) -> list[str]:
        keys = [self._key()]
        while self._sees("."):
            self._position += 1
            keys.append(self._key())
        return keys

    def _key(self) -> str:
        found = _KEY.match(self._text, self._position)
        if found is None:
            raise ValueError(f"no key at position {self._position}: the document is not valid TOML")
        self._position = found.end()
        written = found["key"]
        # tomllib itself reads the escapes of a quoted key.
        return next(iter(tomllib.loads(f"{written} = 0"))) if written[0] in "\"'" else written

    def _sees(self, what: str) -> bool:
        return self._text.startswith(what, self._position)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self._text, self._position)
        if found is None:
            raise ValueError(f"no value at position {self._position}: the document is not valid TOML")
        self._position = found.end()

    def _skip_blank(self) -> None:
        self._skip(_BLANK)

    def _skip_spaces(self) -> None:
        self._skip(re.compile(r"[ \t]*"))

    def _line(self) -> int:
        return self._text.count("\n", 0, self._position) + 1

"""A TOML document whose every value knows its line: typed access, with errors that name file, line and key."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from mixte._errors import PolicyError
from mixte.policy._nearest import did_you_mean
from mixte.policy._toml_lines import key_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mixte.policy._toml_lines import KeyPath

T = TypeVar("T")

TYPE_NAMES: Final[dict[type[object], str]] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    dict: "a table",
    list: "an array",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a document.

    Attributes:
        source: The name of the file, for messages.
        lines: The line of every key of the document.
        path: Where the table stands in the document.
        values: What it holds.
    """

    source: str
    lines: Mapping[KeyPath, int]
    path: KeyPath
    values: Mapping[str, object]

    def error(self, message: str, *keys: str) -> PolicyError:
        """Return an error about a key of this table, or about the table itself."""
        path = (*self.path, *keys)
        line = self.lines.get(path)
        where = f", line {line}" if line is not None else ""
        what = f", {_spell(path)}" if path else ""
        return PolicyError(f"{self.source}{where}{what}: {message}")

    def check_keys(self, known: Iterable[str]) -> None:
        """Check that the table has no key but the known ones.

        Raises:
            PolicyError: It has; the message suggests the nearest known key.
        """
        names = list(known)
        for key in self.values:
            if key not in names:
                hint = did_you_mean(key, names)
                raise self.error(f"there is no such key.{hint} The keys here are {', '.join(names)}.", key)

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return the value of a key, or None where it is missing.

        Raises:
            PolicyError: The value has another type.
        """
        if key not in self.values:
            return None
        value = self.values[key]
        if type(value) is not kind:  # an exact match: in Python True is an integer, in TOML it is not
            raise self.error(f"expected {TYPE_NAMES[kind]}, found {_as_written(value)}", key)
        return value

    def require(self, key: str, kind: type[T], advice: str) -> T:
        """Return the value of a key.

        Raises:
            PolicyError: The key is missing (the message ends in ``advice``), or its value has another type.
        """
        value = self.get(key, kind)
        if value is None:
            raise self.error(f"the key {key!r} is missing; {advice}")
        return value

    def table(self, key: str) -> Table | None:
        """Return the table under a key, or None where it is missing.

        Raises:
            PolicyError: The value is not a table.
        """
        values = cast("dict[str, object] | None", self.get(key, dict))
        return None if values is None else Table(self.source, self.lines, (*self.path, key), values)

    def tables(self, key: str) -> tuple[Table, ...]:
        """Return the tables of an array of tables; none where the key is missing.

        Raises:
            PolicyError: The value is not an array, or an element is not a table.
        """
        elements = cast("list[object]", self.get(key, list) or [])
        found: list[Table] = []
        for index, element in enumerate(elements):
            here = Table(self.source, self.lines, (*self.path, key, index), {})
            if not isinstance(element, dict):
                raise here.error(f"expected a table, found {_as_written(element)}; write it as [[{key}]]")
            found.append(Table(here.source, here.lines, here.path, cast("dict[str, object]", element)))
        return tuple(found)


def parse_document(text: str, *, source: str) -> Table:
    """Parse a document and return its top table.

    Args:
        text: The document.
        source: The name of the file, for messages.

    Raises:
        PolicyError: The document is not TOML; the message names the line.
    """
    try:
        values: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(_syntax_message(str(error), source=source, text=text)) from error
    except RecursionError as error:
        raise PolicyError(f"{source}: not readable: its arrays are nested too deeply") from error
    return Table(source, key_lines(text), (), values)


def _syntax_message(said: str, *, source: str, text: str) -> str:
    """Put the line first: ``tomllib`` says it at the end, or says "at end of document"."""
    found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", said)
    if found is None:
        return f"{source}: not valid TOML: {said}"
    what = said[: found.start()]
    line = int(found[1]) if found[1] else len(text.rstrip().splitlines())
    column = f", column {found[2]}" if found[2] else " (the end)"
    return f"{source}, line {line}{column}: not valid TOML: {what}"


def _spell(path: KeyPath) -> str:
    """Write a key path as a reader counts: ``[[rules]] 1, key 'path'`` for the first rule's path."""
    *parents, last = path
    where = f"{_spell(tuple(parents))}, " if len(parents) > 1 else f"[{parents[0]}], " if parents else ""
    return f"[[{parents[-1]}]] {last + 1}" if isinstance(last, int) else f"{where}key '{last}'"


def _as_written(value: object) -> str:
    """Write a value as TOML does, near enough for a message: ``true``, ``"text"``, ``[1, 2]``."""
    return json.dumps(value, ensure_ascii=False, default=str)

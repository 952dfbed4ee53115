"""A profiler's SQLite file, opened for reading only and never trusted."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, final

from mixte._errors import ProfileError
from mixte.profiles import _limits

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from mixte.profiles.readers._source import Source

Row = tuple[int | float | str | bytes | None, ...]

_CHUNK_ROWS = 20_000
# SQLite quotes the schema in some of its messages, and Python then fails on bytes in it that are no text.
_DAMAGE = (sqlite3.Error, UnicodeDecodeError)


@final
class Database:
    """An open database.

    Attributes:
        tables: Names of its tables; views are left out, they could hold anything.
        damage: A sentence for each table that could not be read to its end.
    """

    def __init__(self, source: Source, connection: sqlite3.Connection) -> None:
        self._source = source
        self._connection = connection
        self._columns: dict[str, frozenset[str]] = {}
        self.damage: list[str] = []
        self.tables = frozenset(
            str(name) for (name,) in self._execute("SELECT name FROM sqlite_master WHERE type = 'table'", ())
        )

    @classmethod
    @contextmanager
    def of(cls, source: Source) -> Generator[Database]:
        """Open the database in a file, which may be gzip.

        Raises:
            ProfileError: It is damaged so that nothing can be read.
        """
        with _unpacked(source) as path:
            # "immutable" keeps SQLite from writing a journal beside a file that may be on a read-only disk.
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            try:
                connection.text_factory = _text
                connection.execute("PRAGMA trusted_schema = OFF")
                # Nothing can be written: this makes SQLite read what is there of a file that is cut off.
                connection.execute("PRAGMA writable_schema = ON")
                database = cls(source, connection)
                database.damage += _cut_off(path)
                yield database
            except _DAMAGE as error:
                raise ProfileError(
                    f"{source.path} is a damaged SQLite file ({_one_line(error)}). Export the profile again."
                ) from error
            finally:
                connection.close()

    def columns(self, table: str) -> frozenset[str]:
        """Give the names of a table's columns; none if there is no such table."""
        if table not in self._columns:
            found = self._execute(f"PRAGMA table_info({_quoted(table)})", ()) if table in self.tables else []
            self._columns[table] = frozenset(str(row[1]) for row in found)
        return self._columns[table]

    def rows(self, table: str, columns: tuple[str, ...], *, where: str = "1") -> Iterator[Row]:
        """Yield some columns of all rows; a column that the table lacks is None throughout.

        Args:
            table: The table; without it there are no rows.
            columns: Their names.
            where: A condition in SQL, written by a reader, never taken from a file.
        """
        if table not in self.tables:
            return
        try:
            yield from self._connection.execute(
                f"SELECT {self._select(table, columns)} FROM {_quoted(table)} WHERE {where}",  # noqa: S608 - quoted
            )
        except _DAMAGE as error:
            self.damage.append(f"the table {table} is damaged ({_one_line(error)})")

    def count(self, table: str) -> int | None:
        """Give the number of rows; 0 if there is no such table, None if it is damaged."""
        if table not in self.tables:
            return 0
        try:
            found = self._execute(f"SELECT count(*) FROM {_quoted(table)}", ())  # noqa: S608 - quoted
            return _whole(found[0][0])
        except _DAMAGE:
            return None

    def sums(self, table: str, keys: tuple[str, ...]) -> dict[Row, tuple[int, int]]:
        """Count the rows of a table of activities and add up ``end - start``, grouped by some columns.

        A damaged table gives what stands before the damage. Grouping piece by piece is faster than all at once
        (its sorting stays in the cache), and tells progress.

        Args:
            table: A table with the columns ``start`` and ``end`` in nanoseconds.
            keys: The columns to group by.

        Returns:
            For each group how many rows it has, and the sum.
        """
        groups: dict[Row, tuple[int, int]] = {}
        by = ", ".join(str(position + 1) for position in range(len(keys)))
        query = (
            f"SELECT {self._select(table, keys)}, count(*), total(end - start) "  # noqa: S608 - quoted
            f"FROM {_quoted(table)} WHERE rowid > ? AND rowid <= ? AND end >= start GROUP BY {by}"
        )
        try:
            for piece in self._pieces(table):
                for *key, rows, time_ns in self._execute(query, piece):
                    before = groups.get(tuple(key), (0, 0))
                    groups[tuple(key)] = (before[0] + _whole(rows), before[1] + _whole(time_ns))
        except _DAMAGE as error:
            read = sum(rows for rows, _ in groups.values())
            self.damage.append(f"the table {table} is damaged after {read} rows ({_one_line(error)})")
        return groups

    def _pieces(self, table: str) -> Iterator[tuple[int, int]]:
        """Divide a table into pieces of some thousand rows: row ids, the first excluded, the last included."""
        query = (
            f"SELECT max(r) FROM (SELECT rowid AS r FROM {_quoted(table)} "  # noqa: S608 - quoted
            "WHERE rowid > ? ORDER BY r LIMIT ?)"
        )
        total = self.count(table) or 0
        done, last = 0, -(2**63)
        while True:
            end = self._execute(query, (last, _CHUNK_ROWS))[0][0]
            if not isinstance(end, int):
                return
            if end <= last:  # pages of another table where this one's should be
                raise sqlite3.DatabaseError("its rows are out of order")
            yield last, end
            last = end
            done += _CHUNK_ROWS
            self._source.report_fraction(done / total if total else 1.0)

    def strings(self, table: str, key: str, value: str) -> dict[int, str]:
        """Give a table of numbered strings."""
        return {
            number: text
            for number, text in self.rows(table, (key, value))
            if isinstance(number, int) and isinstance(text, str)
        }

    def _select(self, table: str, columns: tuple[str, ...]) -> str:
        present = self.columns(table)
        return ", ".join(_quoted(column) if column in present else "NULL" for column in columns)

    def _execute(self, query: str, values: tuple[int | float | str | bytes | None, ...]) -> list[Row]:
        return self._connection.execute(query, values).fetchall()


def whole(value: object) -> int | None:
    """Give a value of a row if it is a whole number."""
    return value if isinstance(value, int) else None


def _cut_off(path: Path) -> list[str]:
    """Say so if the file is shorter than its header tells (https://www.sqlite.org/fileformat.html, section 1.3)."""
    with path.open("rb") as file:
        header = file.read(100)
    size_bytes = path.stat().st_size
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    # The number of pages is valid only if it was written together with the last change.
    expected_bytes = page_bytes * int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else 0
    if size_bytes >= expected_bytes:
        return []
    mib = f"{size_bytes / _limits.MIB:.1f} of {expected_bytes / _limits.MIB:.1f} MiB"
    return [f"the database is cut off: {mib} are there"]


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _unpacked(source: Source) -> Generator[Path]:
    """Give a path to the file itself, or to an unpacked copy that is deleted afterwards."""
    if not source.packed:
        yield source.path
        return
    with tempfile.TemporaryDirectory(prefix="mixte-") as folder:
        copy = Path(folder) / "profile.sqlite"
        size_bytes = 0
        with copy.open("wb") as file:
            for window in source.windows():
                size_bytes += len(window)
                if size_bytes > _limits.MAX_UNPACKED_DATABASE_BYTES:
                    raise ProfileError(
                        f"{source.path} unpacks to more than {_limits.MAX_UNPACKED_DATABASE_BYTES // _limits.GIB} "
                        "GiB. Unpack it yourself and give the database."
                    )
                file.write(window)
        yield copy

"""One line of a CSV table. Lines are taken one by one, so that a stray quote in program output swallows nothing."""

from __future__ import annotations

import csv


def fields(line: str, delimiter: str = ",") -> list[str]:
    """Split a line at its delimiters; a field in double quotes may hold them.

    Returns:
        The fields, without quotes; an empty list for what is no line of a CSV file.
    """
    try:
        for row in csv.reader([line], delimiter=delimiter):
            return row
    except csv.Error:
        pass
    return []


def named(columns: list[str], values: list[str]) -> dict[str, str]:
    """Pair the values of a line with its columns; columns beyond the end of a short line are absent."""
    return dict(zip(columns, values, strict=False))

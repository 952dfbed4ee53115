"""Write and read ``comparison.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mixte._errors import RecordError
from mixte.compare._schema import COMPARISON_FILE, SCHEMA_VERSION, Comparison
from mixte.records import decode_json, encode_json, indent_json

if TYPE_CHECKING:
    import os


class _Version(msgspec.Struct):
    schema_version: int


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write a comparison, replacing the file as a whole.

    Raises:
        RecordError: It cannot be written.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.write_bytes(indent_json(encode_json(comparison)))
        fresh.replace(path)
    except OSError as error:
        raise RecordError(f"cannot write '{path}': {error.strerror}") from error


def read_comparison(path: str | os.PathLike[str]) -> Comparison:
    """Read a comparison.

    Args:
        path: Its directory or its file.

    Raises:
        RecordError: There is none, it cannot be read, or it has another schema version.
    """
    file = Path(path)
    file = file / COMPARISON_FILE if file.is_dir() else file
    try:
        data = file.read_bytes()
        version = decode_json(data, _Version).schema_version
        if version != SCHEMA_VERSION:
            raise RecordError(
                f"'{file}' has schema version {version}; this mixte reads version {SCHEMA_VERSION}. "
                "Read it with the mixte that wrote it, or one of about the same age."
            )
        return decode_json(data, Comparison)
    except OSError as error:
        raise RecordError(f"no comparison in '{path}': {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise RecordError(f"'{file}' is not a comparison of mixte: {error}.") from error

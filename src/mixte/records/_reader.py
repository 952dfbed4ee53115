"""Read a run record back, whatever happened to the process that wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from mixte._errors import RecordError
from mixte.records._directory import RUN_FILE, STEPS_FILE
from mixte.records._json import decode_json
from mixte.records._lines import Evaluation, Line, State, Step
from mixte.records._process import is_alive
from mixte.records._schema import SCHEMA_VERSION, Run

if TYPE_CHECKING:
    import os

RecordStatus = Literal["running", "finished", "failed", "interrupted", "killed"]


class _Version(msgspec.Struct):
    schema_version: int


class _Kind(msgspec.Struct):
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A run as its record tells it.

    Attributes:
        directory: Where the record is.
        run: The content of ``run.json``.
        status: How the run ended. ``"killed"`` if the file says ``running`` and its process is gone, or belongs
            to another machine, so that nobody here can tell.
        steps: The training steps in the order logged.
        evaluations: The evaluations in the order logged.
        states: The samples of the process's state in the order logged.
        unreadable_lines: Number of lines before the last that are damaged and were left out.
        truncated: The last line was cut off, as a killed process leaves it, and was left out.
    """

    directory: Path
    run: Run
    status: RecordStatus
    steps: tuple[Step, ...] = ()
    evaluations: tuple[Evaluation, ...] = ()
    states: tuple[State, ...] = ()
    unreadable_lines: int = 0
    truncated: bool = False


def read_record(path: str | os.PathLike[str]) -> Record:
    """Read a record.

    A last line that was cut off, a missing end and fields or kinds of lines that this version does not know are
    no errors.

    Args:
        path: The record's directory, or its ``run.json``.

    Returns:
        The record.

    Raises:
        RecordError: There is no record, it cannot be read, or it has another schema version.
    """
    directory = Path(path)
    if directory.name == RUN_FILE and not directory.is_dir():
        directory = directory.parent
    run = _read_run(directory)
    lines, unreadable, truncated = _read_lines(directory / STEPS_FILE)
    return Record(
        directory=directory,
        run=run,
        status="killed" if run.status == "running" and not is_alive(run.process) else run.status,
        steps=tuple(line for line in lines if isinstance(line, Step)),
        evaluations=tuple(line for line in lines if isinstance(line, Evaluation)),
        states=tuple(line for line in lines if isinstance(line, State)),
        unreadable_lines=unreadable,
        truncated=truncated,
    )


def _read_run(directory: Path) -> Run:
    path = directory / RUN_FILE
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(
            f"no run record in '{directory}': {RUN_FILE}: {error.strerror}. "
            "Give a directory that `mixte run` has written, such as mixte-runs/<time>-<script>-<policy>."
        ) from error
    try:
        version = decode_json(data, _Version).schema_version
    except msgspec.MsgspecError as error:
        raise RecordError(f"'{path}' is not a run record of mixte: {error}.") from error
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"'{path}' has schema version {version}; this mixte reads version {SCHEMA_VERSION}. "
            "Read it with the mixte that wrote it, or one of about the same age."
        )
    try:
        return decode_json(data, Run)
    except msgspec.MsgspecError as error:
        raise RecordError(f"'{path}' is damaged: {error}.") from error


def _read_lines(path: Path) -> tuple[list[Line], int, bool]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0, False
    except OSError as error:
        raise RecordError(f"cannot read '{path}': {error.strerror}.") from error
    decoder = msgspec.json.Decoder(Line, strict=False)
    whole, _, rest = data.rpartition(b"\n")
    lines: list[Line] = []
    unreadable = 0
    for encoded in whole.split(b"\n") if whole else ():
        try:
            lines.append(decoder.decode(encoded))
        except msgspec.MsgspecError:
            unreadable += not _is_of_another_kind(encoded)
    return lines, unreadable, bool(rest)


def _is_of_another_kind(encoded: bytes) -> bool:
    """Whether this is a good line of a kind that only a newer version knows."""
    try:
        return decode_json(encoded, _Kind).kind not in {"step", "evaluation", "state"}
    except msgspec.MsgspecError:
        return False

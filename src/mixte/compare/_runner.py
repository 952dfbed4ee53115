"""Where the runs of a comparison happen: here, one process after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Protocol

from mixte._errors import InputError, RecordError
from mixte.records import OUTPUT_FILE, Record, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mixte.compare._plan import Cell

_POLL_S = 0.5
_GRACE_S = 30.0  # an interrupted run finishes its step and writes the end of its record


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of one run.

    Attributes:
        cell: The run.
        directory: Directory of its record, where its output is too.
        exit_code: Exit code of the process; negative for the signal that ended it.
        duration_s: Time from the start of the process to its end.
        record: The record; None if there is none that can be read.
        problem: Why the run does not count; None if it does.
    """

    cell: Cell
    directory: Path
    exit_code: int
    duration_s: float
    record: Record | None
    problem: str | None

    @property
    def output(self) -> Path:
        """What the process printed, standard output and standard error together."""
        return self.directory / OUTPUT_FILE


class Runner(Protocol):
    """Runs one cell. A runner for another place has the same contract."""

    def run(self, cell: Cell, directory: Path, on_wait: Callable[[float], None]) -> RunResult:
        """Run a cell to its end.

        Args:
            cell: What to run.
            directory: Where the record goes: a path that does not exist.
            on_wait: Called now and then with the seconds since the start.

        Raises:
            KeyboardInterrupt: The user stopped; the run has been ended before this is raised.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRunner:
    """Runs each cell as a process on this machine.

    Attributes:
        script: Path of the training script.
        arguments: The script's own arguments.
        options: Options of ``mixte run`` that are the same in all runs, such as ``("--backend", "jax")``.
        command: The command that takes them; what a test replaces.
    """

    script: str
    arguments: Sequence[str] = ()
    options: Sequence[str] = ()
    command: Sequence[str] = (sys.executable, "-m", "mixte", "run")

    def run(self, cell: Cell, directory: Path, on_wait: Callable[[float], None]) -> RunResult:
        """Run a cell; see ``Runner.run``."""
        started = time.monotonic()
        with _open_output(directory) as output:
            try:
                # A session of its own: Ctrl-C in the terminal then reaches the run once, through us.
                process = subprocess.Popen(  # noqa: S603 - running the user's script is what was asked for
                    self._command_line(cell, directory),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise InputError(f"cannot start '{self.command[0]}': {error.strerror}") from error
            exit_code = _wait(process, lambda: on_wait(time.monotonic() - started))
        return _result(cell, directory, exit_code, time.monotonic() - started)

    def _command_line(self, cell: Cell, directory: Path) -> list[str]:
        ours = ("--policy", cell.policy, "--seed", str(cell.seed), "--record", str(directory), "--quiet")
        return [*self.command, *ours, *self.options, self.script, *self.arguments]


def _open_output(directory: Path) -> BinaryIO:
    try:
        directory.mkdir(parents=True)
        return (directory / OUTPUT_FILE).open("wb")
    except OSError as error:
        raise RecordError(f"cannot write the output of a run to '{directory}': {error.strerror}") from error


def _wait(process: subprocess.Popen[bytes], on_wait: Callable[[], None]) -> int:
    try:
        while True:
            on_wait()
            try:
                return process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt the run and all that it started, as Ctrl-C would; kill what does not end."""
    _signal(process, signal.SIGINT)
    try:
        process.wait(_GRACE_S)
    except BaseException:
        # Too slow, or the user pressed Ctrl-C again.
        _signal(process, signal.SIGKILL)
        process.wait()
        raise


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)  # the process leads the group of its session


def _result(cell: Cell, directory: Path, exit_code: int, duration_s: float) -> RunResult:
    record, unreadable = None, None
    try:
        record = read_record(directory)
    except RecordError as error:
        unreadable = f"left no record that can be read: {error}"
    return RunResult(
        cell=cell,
        directory=directory,
        exit_code=exit_code,
        duration_s=duration_s,
        record=record,
        problem=_failure(exit_code) if exit_code != 0 else unreadable,
    )


def _failure(exit_code: int) -> str:
    if exit_code > 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"

"""Write the record of a run while it runs, so that a process killed at any moment leaves a readable one."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from mixte._errors import RecordError
from mixte.records._directory import OUTPUT_FILE, RUN_FILE, STEPS_FILE
from mixte.records._json import encode_json, indent_json
from mixte.records._process import this_process
from mixte.records._reader import read_record
from mixte.records._summarise import summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mixte.records._lines import Line
    from mixte.records._schema import Run
    from mixte.records._summary import RunSummary

FLUSH_LINES = 64
FLUSH_SECONDS = 1.0


class RecordWriter:
    """Writes one run's record.

    ``steps.jsonl`` only ever grows, by whole lines, one ``write`` for each batch: at most the last line can be
    cut off. ``run.json`` is replaced as a whole. Lines are kept in memory until there are 64, or until a second
    has passed since the last write: steps of a second or more are on disk as soon as they are logged, of faster
    ones a killed process loses at most those of the last second. ``flush`` writes at once.

    Recording never stops a training: when the disk fails under it (full, gone), no more steps are written,
    ``problem`` says why, and so does the record if its end can be written. A copy of the writer in a forked
    process does nothing.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from mixte.records import Policy, RecordWriter, Run, Step
        >>> writer = RecordWriter(Path(tempfile.mkdtemp()))
        >>> writer.start(Run(command=("mixte", "run", "t.py"), script="t.py", policy=Policy(name="float32")))
        >>> writer.log([Step(step=1, time_s=0.5, step_time_ns=500_000_000, loss=2.3)])
        >>> writer.finish("finished", exit_code=0).steps
        1
    """

    def __init__(
        self, directory: str | os.PathLike[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare a writer; nothing is touched before ``start``.

        Args:
            directory: The directory of this run. It must not exist or be empty; ``output.log`` may be in it.
            clock: Seconds from any origin; what a test replaces.
        """
        self.directory = Path(directory)
        self._clock = clock
        self._run: Run | None = None
        self._owner = 0
        self._steps_fd: int | None = None
        self._lines: list[bytes] = []
        self._flushed_at = 0.0
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        """What kept the record from being written in full; None as long as all is well."""
        return self._problem

    @property
    def run(self) -> Run:
        """The content of ``run.json`` as last written.

        Raises:
            RecordError: The writer was not started.
        """
        if self._run is None:
            raise RecordError(f"the record in '{self.directory}' was not started: call start(run) first")
        return self._run

    def start(self, run: Run) -> None:
        """Create the directory and write ``run.json`` with the status ``running``.

        Args:
            run: What is known of the run. Process, start time and status are filled in here.

        Raises:
            RecordError: The directory holds something, or cannot be written.
        """
        if self._run is not None:
            raise RecordError(f"the record in '{self.directory}' was started before: a writer writes one run")
        self._owner = os.getpid()
        now = dt.datetime.now(tz=dt.UTC)
        started = msgspec.structs.replace(run, process=this_process(), started_at=now, status="running")
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._refuse_occupied()
            self._replace_run_file(started)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
            self._steps_fd = os.open(self.directory / STEPS_FILE, flags, 0o666)
        except OSError as error:
            raise RecordError(
                f"cannot write a run record in '{self.directory}': {error.strerror}. "
                "Give a directory that can be written with --record."
            ) from error
        self._run = started
        self._flushed_at = self._clock()

    def update(self, **changes: Any) -> None:
        """Change fields of ``run.json``, for example ``update(models=...)`` once the models are built.

        Args:
            changes: Fields of ``Run`` by name.
        """
        self._run = msgspec.structs.replace(self.run, **changes)
        self._guarded(lambda: self._replace_run_file(self.run))

    def warn(self, message: str) -> None:
        """Add a warning to the record, once however often it is given."""
        if message not in self.run.warnings:
            self.update(warnings=(*self.run.warnings, message))

    def log(self, lines: Iterable[Line]) -> None:
        """Log steps, evaluations and states, in the order in which they happened.

        Args:
            lines: The lines. Numbers are Python floats and ints, or scalars with ``item()``.
        """
        self._lines.extend(encode_json(line) + b"\n" for line in lines)
        due = self._clock() - self._flushed_at >= FLUSH_SECONDS
        if due or len(self._lines) >= FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Write what was logged and is still in memory."""
        self._flushed_at = self._clock()
        batch, self._lines = b"".join(self._lines), []
        if batch:
            self._guarded(lambda: self._append(batch))

    def finish(
        self,
        status: Literal["finished", "failed", "interrupted"],
        *,
        exit_code: int | None = None,
        exception: str | None = None,
    ) -> RunSummary | None:
        """Write what is left, compute the summary from the record itself, and store it there.

        Args:
            status: How the run ended.
            exit_code: The script's exit code.
            exception: The exception that ended the script, as ``Type: message``.

        Returns:
            The summary of what was written; None if the directory has gone, or in a forked process.
        """
        self.flush()
        self.update(
            status=status, exit_code=exit_code, exception=exception, finished_at=dt.datetime.now(tz=dt.UTC)
        )
        if self._owner != os.getpid():
            return None
        if self._steps_fd is not None:
            os.close(self._steps_fd)
            self._steps_fd = None
        if self._problem is not None:
            self.warn(self._problem)
        try:
            summary = summarise(read_record(self.directory))
        except RecordError:  # only if the directory has gone; `problem` says so
            return None
        self.update(summary=summary)
        return summary

    def _refuse_occupied(self) -> None:
        found = sorted({entry.name for entry in self.directory.iterdir()} - {OUTPUT_FILE})
        if found:
            raise RecordError(
                f"the directory '{self.directory}' is not empty (it holds '{found[0]}'), and a record needs "
                "its own. Give a new or an empty one with --record."
            )

    def _guarded(self, write: Callable[[], None]) -> None:
        if self._owner != os.getpid():
            return
        try:
            write()
        except OSError as error:
            self._problem = f"the record in '{self.directory}' is incomplete: {error.strerror or error}"

    def _append(self, batch: bytes) -> None:
        # After a failed write the file may end within a line: nothing may follow it.
        if self._steps_fd is None or self._problem is not None:
            return
        rest = memoryview(batch)
        while rest:  # write() may take a part only: a signal came, or the disk is nearly full
            rest = rest[os.write(self._steps_fd, rest) :]

    def _replace_run_file(self, run: Run) -> None:
        """Write a second file and rename it: a reader sees the old or the new one, never a half."""
        target = self.directory / RUN_FILE
        fresh = target.with_suffix(".json.new")
        try:
            with fresh.open("wb") as file:
                file.write(indent_json(encode_json(run)))
                file.flush()
                os.fsync(file.fileno())  # else a power cut could keep the rename and lose the content
            fresh.replace(target)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise

"""Say that a long file is still being read, once that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import TextIO

_QUIET_S = 2.0
_INTERVAL_S = 0.5
_LOG_INTERVAL_S = 10.0


class Progress:
    """A line on standard error, from a thread of its own, because a reader may be busy for long in one call.

    On a terminal the line is rewritten twice a second; elsewhere, as in a CI log, one is added every ten s.

    Args:
        path: The file that is read.
        stream: Where to write; standard error if None.
        quiet_s: How long to say nothing.
    """

    def __init__(self, path: Path, *, stream: TextIO | None = None, quiet_s: float = _QUIET_S) -> None:
        self._path = path
        self._stream = sys.stderr if stream is None else stream
        self._quiet_s = quiet_s
        self._fraction: float | None = None
        self._started_s = time.monotonic()
        self._done = threading.Event()
        self._shown = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def report(self, fraction: float) -> None:
        """Take the fraction of the file that has been read, 0 to 1."""
        self._fraction = fraction

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._shown and self._stream.isatty():
            print(f"\r{' ' * 79}\r", end="", file=self._stream, flush=True)

    def _watch(self) -> None:
        if self._done.wait(self._quiet_s):
            return
        on_terminal = self._stream.isatty()
        while True:
            self._shown = True
            line = self._line()
            print(
                f"\r{line:<79}" if on_terminal else line,
                end="" if on_terminal else "\n",
                file=self._stream,
                flush=True,
            )
            if self._done.wait(_INTERVAL_S if on_terminal else _LOG_INTERVAL_S):
                return

    def _line(self) -> str:
        elapsed_s = time.monotonic() - self._started_s
        read = f"{self._fraction:.0%} of " if self._fraction is not None else ""
        name = self._path.name
        shown = name if len(name) <= 45 else f"{name[:42]}..."
        return f"reading {read}{shown} ({elapsed_s:.0f} s)"

"""What ``mixte compare`` says on standard error while it runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mixte.report import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mixte.compare import Cell, RunResult

_LOG_LINES = 10
_LONGEST_LOG_LINE = 300


class Progress:
    """Lines on standard error: one that counts up while a run goes on in a terminal, one when it has ended."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._announced = 0

    def waiting(self, number: int, total: int, cell: Cell, elapsed_s: float) -> None:
        """Say that a run goes on: again and again in a terminal, once in a log."""
        text = f"[{number}/{total}] {_printable(f'{cell.policy}, seed {cell.seed}')}: running"
        if self._live:
            print(f"\r\x1b[K{text}, {elapsed_s:.0f} s", end="", file=sys.stderr, flush=True)
        elif self._announced < number:
            print(text, file=sys.stderr, flush=True)
        self._announced = number

    def ended(self, number: int, total: int, result: RunResult) -> None:
        """Say how a run ended, with the end of its output if it failed."""
        self.close()
        cell = result.cell
        text = f"[{number}/{total}] {_printable(f'{cell.policy}, seed {cell.seed}')}"
        if result.problem is None:
            print(f"{text}: done in {result.duration_s:.0f} s", file=sys.stderr, flush=True)
            return
        print(f"{text}: {_printable(result.problem)}. The end of its output:", file=sys.stderr)
        for line in _last_lines(result.output):
            print(f"    {line}", file=sys.stderr)
        print(f"    (all of it: {_printable(str(result.output))})", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take the counting line away."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _last_lines(path: Path) -> Sequence[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _LOG_LINES * 4 * _LONGEST_LOG_LINE, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return [f"({error.strerror})"]
    # A progress bar redraws its line after a carriage return: its last state counts.
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n") if line.strip()]
    return [_printable(line)[:_LONGEST_LOG_LINE] for line in lines[-_LOG_LINES:]] or ["(nothing)"]


def _printable(text: str) -> str:
    return printable(text, sys.stderr.encoding or "ascii")

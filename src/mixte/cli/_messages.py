"""What ``mixte run`` itself has to say, beside the script's own output."""

from __future__ import annotations

import sys

from mixte.report import printable


class Messages:
    """Lines on the standard error that the process began with, wherever the script leads its own."""

    def __init__(self) -> None:
        self._stream = sys.stderr

    @property
    def encoding(self) -> str:
        """What the stream can express."""
        return self._stream.encoding or "ascii"

    def say(self, text: str) -> None:
        """Print a line that begins with our name."""
        self.write(f"mixte: {printable(text, self.encoding)}\n")

    def write(self, text: str) -> None:
        """Write text as it is. If nobody can read it any more, the script must not suffer from that."""
        try:
            print(text, end="", file=self._stream, flush=True)
        except (OSError, ValueError):
            return

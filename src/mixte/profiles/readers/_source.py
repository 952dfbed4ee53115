"""A profile's bytes and lines, read forward once: unpacked if gzip, decoded, bounded, with progress."""

from __future__ import annotations

import codecs
import re
import zlib
from typing import TYPE_CHECKING, final

from mixte._errors import ProfileError
from mixte.profiles import _limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mixte.profiles._model import Progress

GZIP_MAGIC = b"\x1f\x8b"
_EMPTY_LINES = re.compile(rb"\n{3,}")
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),  # what `nvprof ... > file` writes in Windows PowerShell
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@final
class Source:
    """One profile file.

    Attributes:
        path: The file, as given.
        damage: A clause for each way in which the bytes themselves are damaged, filled while reading.
        head_damage: The same for the bytes that `head` looked at.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self.damage: list[str] = []
        self._progress = progress
        self._size_bytes = path.stat().st_size
        self._head: bytes | None = None
        self.head_damage: list[str] = []

    @property
    def packed(self) -> bool:
        """Whether the file is gzip."""
        with self.path.open("rb") as file:
            return file.read(2) == GZIP_MAGIC

    def head(self) -> bytes:
        """Give the first bytes, unpacked: `_limits.HEAD_BYTES`, fewer if the file is shorter."""
        if self._head is None:
            taken = bytearray()
            quiet = Source(self.path)
            for window in quiet.windows(_limits.HEAD_BYTES):
                taken += window
                if len(taken) >= _limits.HEAD_BYTES:
                    break
            self._head = bytes(taken[: _limits.HEAD_BYTES])
            self.head_damage = quiet.damage
        return self._head

    def text_head(self) -> str:
        """Give the first bytes as text, without a byte order mark."""
        return self.head().decode(self._encoding(), errors="replace").lstrip("\ufeff")

    def windows(self, size: int = _limits.WINDOW_BYTES) -> Iterator[bytes]:
        """Yield the unpacked bytes from the start in pieces of at most `size` bytes."""
        with self.path.open("rb") as file:
            packed = file.read(2) == GZIP_MAGIC
            file.seek(0)
            pieces = iter(lambda: file.read(size), b"")
            for piece in self._unpack(pieces, size) if packed else pieces:
                yield piece
                self.report(file.tell())

    def utf8_windows(self) -> Iterator[bytes]:
        """Yield the bytes of a text file as UTF-8 without a byte order mark, whatever Unicode encoding it has."""
        encoding = self._encoding()
        decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("replace")
        first = True
        for window in self.windows():
            text = window if decoder is None else decoder.decode(window).encode()
            yield text.removeprefix(codecs.BOM_UTF8) if first else text
            first = False

    def report(self, read_bytes: int) -> None:
        """Tell whoever waits how much of the file has been read."""
        if self._progress is not None and self._size_bytes:
            self._progress(min(1.0, read_bytes / self._size_bytes))

    def report_fraction(self, fraction: float) -> None:
        """Tell whoever waits which fraction of the work is done."""
        if self._progress is not None:
            self._progress(min(1.0, fraction))

    def whole(self, limit_bytes: int) -> bytes:
        """Give all unpacked bytes at once, for a format that cannot be read piece by piece.

        Raises:
            ProfileError: There are more than `limit_bytes`.
        """
        taken = bytearray()
        for window in self.windows():
            taken += window
            if len(taken) > limit_bytes:
                raise ProfileError(
                    f"{self.path} holds more than {limit_bytes // _limits.MIB} MiB, which is more than this "
                    "format is read up to. Profile fewer steps."
                )
        return bytes(taken)

    def lines(self) -> Iterator[str]:
        r"""Yield the lines as text, without their line ends.

        UTF-8 and UTF-16, by byte order mark or by their zero bytes. A line that is not valid UTF-8 is read as
        Windows-1252, the usual encoding of a console that is not UTF-8. ``\r\n`` and ``\n`` end a line; so does
        a lone ``\r``, with which progress bars overwrite themselves. Of several empty lines one is kept.

        Raises:
            ProfileError: A line is longer than `_limits.MAX_LINE_BYTES`.
        """
        for block in self.blocks():
            yield from lines_of(block)

    def blocks(self) -> Iterator[bytes]:
        """Yield the text in pieces that end where a line ends, as UTF-8 or what is taken for it.

        Raises:
            ProfileError: A line is longer than `_limits.MAX_LINE_BYTES`.
        """
        rest = b""
        for window in self.utf8_windows():
            text = rest + window
            end = text.rfind(b"\n") + 1
            rest = text[end:]
            if len(rest) > _limits.MAX_LINE_BYTES:
                raise ProfileError(
                    f"{self.path} has a line of more than {_limits.MAX_LINE_BYTES // _limits.MIB} MiB: it is no "
                    "text that a profiler writes."
                )
            if end:
                yield text[:end]
        if rest:
            yield rest

    def _encoding(self) -> str:
        head = self.head()
        for mark, encoding in _BYTE_ORDER_MARKS:
            if head.startswith(mark):
                return encoding
        # Text of which every second byte is zero is UTF-16 that has lost its mark.
        sample = head[:512]
        if len(sample) >= 4:
            if sample[1::2].count(0) > 0.4 * len(sample) and not sample[::2].count(0):
                return "utf-16-le"
            if sample[::2].count(0) > 0.4 * len(sample) and not sample[1::2].count(0):
                return "utf-16-be"
        return "utf-8"

    def _unpack(self, pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
        """Unpack gzip members one after the other; a damaged end becomes a sentence in `damage`."""
        unpacker = zlib.decompressobj(wbits=31)
        unpacked_bytes = 0
        for piece in pieces:
            data = piece
            while data:
                if unpacker.eof:
                    if not data.startswith(GZIP_MAGIC):  # padding after the last member, as gzip allows
                        return
                    unpacker = zlib.decompressobj(wbits=31)
                try:
                    chunk = unpacker.decompress(data, size)
                except zlib.error:
                    self.damage.append(
                        f"the gzip data is damaged after {unpacked_bytes / _limits.MIB:.1f} MiB (unpacked)"
                    )
                    return
                unpacked_bytes += len(chunk)
                self._refuse_bomb(unpacked_bytes)
                if chunk:
                    yield chunk
                data = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
        if not unpacker.eof:
            self.damage.append(
                f"the gzip data ends in the middle, after {unpacked_bytes / _limits.MIB:.1f} MiB (unpacked)"
            )

    def _refuse_bomb(self, unpacked_bytes: int) -> None:
        if unpacked_bytes <= _limits.EXPANSION_GRACE_BYTES:
            return
        if unpacked_bytes > self._size_bytes * _limits.MAX_EXPANSION:
            raise ProfileError(
                f"{self.path} unpacks to more than {_limits.MAX_EXPANSION} times its size: it looks like a "
                "decompression bomb. Real profiles expand 10 to 35 times. Unpack it yourself if you trust it."
            )
        if unpacked_bytes > _limits.MAX_UNPACKED_BYTES:
            raise ProfileError(
                f"{self.path} unpacks to more than {_limits.MAX_UNPACKED_BYTES // _limits.GIB} GiB. "
                "Profile fewer steps."
            )


def lines_of(block: bytes) -> Iterator[str]:
    """Yield the lines of a piece of text; see `Source.lines`."""
    if b"\n\n\n" in block:
        block = _EMPTY_LINES.sub(b"\n\n", block)
    for raw in block.removesuffix(b"\n").split(b"\n"):
        line = _decode(raw).rstrip("\r")
        if "\r" in line:
            yield from line.split("\r")
        else:
            yield line


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("cp1252", errors="replace")

"""The elements of one long array in a JSON file, a window at a time, so that memory does not grow with the file.

A window is cut at the last place that looks like the gap between two elements, and the part before it is decoded
in one go. The cut is proved right by the decoding: ``[`` + part + ``]`` is valid JSON only if the cut is neither
inside a string nor inside a nested value. Where that fails (the end of the array, damage, an unusual layout), the
window is read element by element, which finds the end of the array and steps over damaged elements.
"""

from __future__ import annotations

import json
import re
from types import GenericAlias
from typing import TYPE_CHECKING, Generic, TypeVar, cast, final

import msgspec

from mixte._errors import ProfileError
from mixte.profiles import _limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixte.profiles.readers._source import Source

Element = TypeVar("Element")

_GAP = re.compile(r"\s*,\s*")
_SPACE = re.compile(r"[\s,]*")
_NEXT = re.compile(r"\}\s*,\s*(?=\{)")
_VALUE = json.JSONDecoder(strict=False)
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError)
# How many later gaps are tried to find the element after a damaged one.
_RESYNC_TRIES = 1000


@final
class JsonArray(Generic[Element]):
    """One array of objects.

    Attributes:
        before: The text before the array, its key included; readable once iteration has begun.
        after: The text after the array, without its closing bracket; readable once iteration has ended.
        skipped: Elements that could not be read.
        complete: Whether the end of the array was found.
    """

    def __init__(self, source: Source, key: str | None, element: type[Element]) -> None:
        """Prepare; nothing is read yet.

        Args:
            source: The file.
            key: The array is the value of the first key of this name; None if it is the whole file.
            element: A `msgspec.Struct` to decode each element to.
        """
        self.before = b""
        self.after = b""
        self.skipped = 0
        self.complete = False
        self._source = source
        self._opening = re.compile(rb"\s*\[" if key is None else rb'"%s"\s*:\s*\[' % key.encode())
        self._decoder: msgspec.json.Decoder[list[Element]] = msgspec.json.Decoder(_list_of(element))
        self._one = msgspec.json.Decoder(element)
        self._gap = b""

    def batches(self) -> Iterator[list[Element]]:
        """Yield the elements, a few thousand at a time.

        Raises:
            ProfileError: There is no such array, or an element of more than `_limits.MAX_ELEMENT_BYTES`.
        """
        windows = self._source.utf8_windows()
        rest = self._find(windows)
        while not self.complete:
            batch, rest = self._take(rest)
            if batch:
                yield batch
            if self.complete:
                break
            window = next(windows, None)
            if window is None:
                batch, rest = self._step(rest, last=True)
                if batch:
                    yield batch
                break
            rest += window
            if len(rest) > _limits.MAX_ELEMENT_BYTES:
                raise ProfileError(
                    f"{self._source.path} has an event of more than {_limits.MAX_ELEMENT_BYTES // _limits.MIB} "
                    "MiB: it is damaged, or no trace."
                )
        self.after = self._remainder(rest, windows) if self.complete else b""

    def _find(self, windows: Iterator[bytes]) -> bytes:
        text = b""
        for window in windows:
            text += window
            found = self._opening.search(text)
            if found:
                self.before = text[: found.start()]
                return text[found.end() :]
            if len(text) > _limits.MAX_ELEMENT_BYTES:
                break
        raise ProfileError(
            f"{self._source.path} ends before its list of events begins. Export the trace again."
        )

    def _take(self, rest: bytes) -> tuple[list[Element], bytes]:
        """Decode as much as is there; what remains begins with an element, or follows the array."""
        cut = rest.rfind(self._gap) if self._gap else -1
        if cut >= 0:
            try:
                return self._decoder.decode(b"[" + rest[: cut + 1] + b"]"), rest[cut + len(self._gap) - 1 :]
            except _BROKEN:
                pass
        return self._step(rest, last=False)

    def _step(self, rest: bytes, *, last: bool) -> tuple[list[Element], bytes]:
        """Decode element by element and learn what the gap looks like; sets `complete` at the array's end."""
        text = rest.decode("utf-8", errors="replace")
        batch: list[Element] = []
        at = _skip(_SPACE, text, 0)
        while at < len(text):
            if text[at] == "]":
                self.complete = True
                return batch, text[at + 1 :].encode()
            end, unfinished = _end_of_value(text, at)
            if unfinished:
                break  # the element goes on in the next window, or the file is cut off
            if end is None:
                following = self._resync(text, at)
                if following is None:
                    break
                at = following
                continue
            self._keep(batch, text[at:end])
            gap = _GAP.match(text, end)
            at = _skip(_SPACE, text, end)
            if gap and text[end - 1] == "}" and text[at : at + 1] == "{":
                known, self._gap = self._gap, f"}}{gap[0]}{{".encode()
                if not known and not last:
                    break  # now the rest of the window can be decoded in one go
        return batch, text[at:].encode()

    def _keep(self, batch: list[Element], text: str) -> None:
        try:
            batch.append(self._one.decode(text))
        except _BROKEN:
            self.skipped += text.strip() != "{}"  # TensorFlow ends its traces with an empty object

    def _resync(self, text: str, at: int) -> int | None:
        """Find the next element that can be read behind one that cannot; None if there is none in sight."""
        for tries, gap in enumerate(_NEXT.finditer(text, at)):
            end, unfinished = _end_of_value(text, gap.end())
            if end is not None or unfinished:
                self.skipped += 1
                return gap.end()
            if tries >= _RESYNC_TRIES:
                break
        return None

    def _remainder(self, rest: bytes, windows: Iterator[bytes]) -> bytes:
        for window in windows:
            rest += window
            if len(rest) > _limits.MAX_ELEMENT_BYTES:
                return b""
        return rest


def _list_of(element: type[Element]) -> type[list[Element]]:
    # A type known only when the program runs is no type expression.
    return cast("type[list[Element]]", GenericAlias(list, (element,)))


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _end_of_value(text: str, at: int) -> tuple[int | None, bool]:
    """Tell where the JSON value at `at` ends, None if it does not, and whether it only lacks its end."""
    try:
        return _VALUE.raw_decode(text, at)[1], False
    except json.JSONDecodeError as error:
        # A literal or an escape cut in two is reported up to a few characters before the end.
        return None, error.pos > len(text) - 8 or error.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return None, False

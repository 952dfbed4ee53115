"""Show an exception of a script as Python would have shown it without us."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import mixte
from mixte._errors import MixteError

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS = str(Path(mixte.__file__).parent)
_PASSED_THROUGH = str(Path(__file__).with_name("_warnings.py"))  # a warning that the script makes an error
_PLACE_IN_TEXT = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def show_exception(error: BaseException) -> None:
    """Show an exception by ``sys.excepthook``, which the script may have set, without frames of ours.

    Ours are those before the script's first, and those through which the script called a library.
    """
    for each in _chain(error):
        each.__traceback__ = _without_ours(each.__traceback__)
    if isinstance(error, SyntaxError):
        error.__traceback__ = _foreign_part(error.__traceback__)  # none, if the script itself does not parse
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception as failure:  # noqa: BLE001 - a hook of the script that fails must not hide what it was to show
        failure.__traceback__ = _foreign_part(failure.__traceback__)
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(type(error), error, error.__traceback__)


def explain(error: MixteError, script: str) -> str:
    """Return the message of an error of ours that came up in a script, and where in the script it was.

    TensorFlow and Keras rewrite exceptions that pass through the functions that they trace: the message is put
    below a traceback as text, and frames are cut out. The exception as we raised it is found in the chain.

    Args:
        error: The error that ended the script.
        script: Absolute path of the script.
    """
    same = [each for each in _chain(error) if isinstance(each, MixteError) and str(each) in str(error)]
    original = same[-1]
    message = str(original).rpartition(f"{type(original).__name__}: ")[2].strip()
    place = _place_in_text(str(error), script) or _place_in_frames(error, script)
    if place is None:
        return message
    line, function = place
    return f"{message}\n  at {script}:{line}, in {function}: {linecache.getline(script, line).strip()}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what it came from, and what is grouped in it; each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        each = waiting.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting += [other for other in (each.__cause__, each.__context__) if other is not None]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions  # pyright: ignore[reportUnknownMemberType] - of whatever exceptions


def _without_ours(frames: TracebackType | None) -> TracebackType | None:
    """The traceback without our frames, except those at its end: there it was we who failed."""
    entries = [entry for entry in _entries(frames) if entry.tb_frame.f_code.co_filename != _PASSED_THROUGH]
    last_foreign = max((i for i, entry in enumerate(entries) if not _is_ours(entry)), default=-1)
    return _rebuilt([entry for i, entry in enumerate(entries) if i > last_foreign or not _is_ours(entry)])


def _foreign_part(frames: TracebackType | None) -> TracebackType | None:
    return _rebuilt([entry for entry in _entries(frames) if not _is_ours(entry)])


def _entries(frames: TracebackType | None) -> Iterator[TracebackType]:
    while frames is not None:
        yield frames
        frames = frames.tb_next


def _rebuilt(entries: list[TracebackType]) -> TracebackType | None:
    rebuilt: TracebackType | None = None
    for entry in reversed(entries):
        rebuilt = TracebackType(rebuilt, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return rebuilt


def _is_ours(entry: TracebackType) -> bool:
    return entry.tb_frame.f_code.co_filename.startswith(_OURS)


def _place_in_frames(error: MixteError, script: str) -> tuple[int, str] | None:
    """The innermost line of the script in the tracebacks of the chain."""
    for each in reversed([*_chain(error)]):
        places = [frame for frame in traceback.extract_tb(each.__traceback__) if frame.filename == script]
        if places and places[-1].lineno is not None:
            return places[-1].lineno, places[-1].name
    return None


def _place_in_text(text: str, script: str) -> tuple[int, str] | None:
    """The innermost line of the script in a traceback that TensorFlow wrote into a message."""
    places = [place for place in _PLACE_IN_TEXT.findall(text) if place[0] == script]
    return (int(places[-1][1]), places[-1][2].rstrip("*")) if places else None

"""Run a Python script as ``__main__``, as ``python script.py`` would, and tell how it ended."""

from __future__ import annotations

import io
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Literal

from mixte._errors import InputError, MixteError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a script ended.

    Attributes:
        status: ``"finished"``, ``"failed"`` or ``"interrupted"``.
        exit_code: What the process is to exit with: what Python itself would.
        exception: The exception that ended it, as ``Type: message``; None if there was none.
    """

    status: Literal["finished", "failed", "interrupted"]
    exit_code: int
    exception: str | None = None


def check_script(script: str) -> Path:
    """Return the script's path.

    Raises:
        InputError: It is missing or is no file.
    """
    path = Path(script)
    if path.is_file():
        return path
    if path.is_dir():
        raise InputError(f"'{script}' is a directory. Give the path of a Python script.")
    near = sorted(entry.name for entry in path.parent.glob("*.py")) if path.parent.is_dir() else []
    hint = f" There is: {', '.join(near[:5])}." if near else ""
    raise InputError(f"there is no script '{script}'.{hint} Give the path of a Python script.")


def run_script(script: str, arguments: Sequence[str]) -> Outcome:
    """Run a script to its end, in this process.

    ``sys.argv``, ``sys.path[0]`` and ``__main__`` are what the script would find under ``python``. An exception
    that it lets through is shown by ``sys.excepthook``, which the script may have set, with the script's own
    frames only.

    Args:
        script: Path of the script; see ``check_script``.
        arguments: Its own arguments.
    """
    path = Path(script)
    main = ModuleType("__main__")
    main.__file__ = str(path)
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    sys.path[0] = str(path.resolve().parent)
    try:
        exec(_compile(path), main.__dict__)  # noqa: S102 - running the user's script is what was asked for
    except SystemExit as error:
        return _exited(error)
    except KeyboardInterrupt as error:
        _show(error, script)
        return Outcome(status="interrupted", exit_code=130, exception="KeyboardInterrupt")
    except MixteError as error:
        print(f"mixte run: error: {error}{_place(error, script)}", file=sys.stderr)
        return Outcome(status="failed", exit_code=1, exception=f"{type(error).__name__}: {error}")
    except BaseException as error:  # noqa: BLE001 - whatever ends the script is shown as Python would
        _show(error, script)
        return Outcome(status="failed", exit_code=1, exception=_one_line(error))
    return Outcome(status="finished", exit_code=0)


def _compile(path: Path) -> CodeType:
    with io.open_code(str(path.resolve())) as file:
        return compile(file.read(), str(path), "exec", dont_inherit=True)


def _exited(error: SystemExit) -> Outcome:
    """Translate ``sys.exit(...)`` as Python does: nothing is 0, a number is itself, anything else is printed."""
    match error.code:
        case None:
            return Outcome(status="finished", exit_code=0)
        case int(code):
            status = "finished" if code == 0 else "failed"
            return Outcome(
                status=status, exit_code=code & 0xFF, exception=None if code == 0 else f"SystemExit: {code}"
            )
        case message:
            print(message, file=sys.stderr)
            return Outcome(status="failed", exit_code=1, exception=f"SystemExit: {message}")


def _show(error: BaseException, script: str) -> None:
    sys.excepthook(type(error), error, _frames_from(error.__traceback__, script))


def _frames_from(frames: TracebackType | None, script: str) -> TracebackType | None:
    """Return the traceback from the script's first frame on; all of it where the script has none."""
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename != script:
        first = first.tb_next
    return first or (frames.tb_next if frames is not None and frames.tb_next is not None else None)


def _place(error: BaseException, script: str) -> str:
    """Tell where in the script an error of ours came up: the innermost of its lines."""
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    return f"\n  at {script}:{places[-1].lineno}, in {places[-1].name}: {places[-1].line}" if places else ""


def _one_line(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()

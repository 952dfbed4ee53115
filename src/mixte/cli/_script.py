"""Run a Python script as ``__main__``, as ``python script.py`` would, and tell how it ended."""

from __future__ import annotations

import builtins
import io
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Literal, cast

from mixte._errors import InputError, MixteError
from mixte.cli._traceback import explain, show_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mixte.records import Stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a script ended.

    Attributes:
        status: ``"finished"``, ``"failed"`` or ``"interrupted"``.
        exit_code: What the process is to exit with: what Python itself would, or the shell says of it.
        exception: The exception that ended it, as ``Type: message``; None if there was none.
        missing_module: The module that it could not import, if that ended it.
        finding: Why its training was stopped, if that ended it.
    """

    status: Literal["finished", "failed", "interrupted"]
    exit_code: int
    exception: str | None = None
    missing_module: str | None = None
    finding: Stopped | None = None


def check_script(script: str) -> Path:
    """Return the script's path.

    Raises:
        InputError: It is missing, is no file, or cannot be read.
    """
    path = Path(script)
    if path.is_dir():
        raise InputError(f"'{script}' is a directory. Give the path of a Python script.")
    if not path.is_file():
        near = sorted(entry.name for entry in path.parent.glob("*.py")) if path.parent.is_dir() else []
        hint = f" There is: {', '.join(near[:5])}." if near else ""
        raise InputError(f"there is no script '{script}'.{hint} Give the path of a Python script.")
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"the script '{script}' cannot be read: {error.strerror}.") from error
    return path


def run_script(
    script: str, arguments: Sequence[str], *, stopped: Callable[[], bool] = lambda: False
) -> Outcome:
    """Run a script to its end, in this process.

    ``sys.argv``, ``sys.path[0]`` and ``__main__`` are what the script would find under ``python``. An exception
    that it lets through is shown by ``sys.excepthook``, which the script may have set, without frames of ours.

    Args:
        script: Path of the script; see ``check_script``.
        arguments: Its own arguments.
        stopped: Whether an interrupt was of our own doing: then it is not shown.
    """
    # As Python itself does it: joined with the working directory, not normalised.
    path = script if Path(script).is_absolute() else f"{Path.cwd()}/{script}"
    main = _main_module(path)
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(path).resolve().parent)
    match _execute(path, main):
        case None:
            return Outcome(status="finished", exit_code=0)
        case SystemExit() as error:
            return _exited(error)
        case KeyboardInterrupt() as error:
            if not stopped():
                show_exception(error)
            return Outcome(status="interrupted", exit_code=130, exception="KeyboardInterrupt")
        case MixteError() as error if (finding := _finding(error)) is not None:
            return Outcome(status="failed", exit_code=1, finding=finding)
        case MixteError() as error:
            text = explain(error, path)
            print(f"mixte run: error: {text}", file=sys.stderr)
            return Outcome(status="failed", exit_code=1, exception=f"{type(error).__name__}: {text}")
        case error:
            show_exception(error)
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            return Outcome(status="failed", exit_code=1, exception=_described(error), missing_module=missing)


def _finding(error: MixteError) -> Stopped | None:
    """Return the finding of an error that stopped the training; None for any other error."""
    from mixte.scaling import TrainingStoppedError

    return cast("Stopped | None", error.finding) if isinstance(error, TrainingStoppedError) else None


def _execute(path: str, main: ModuleType) -> BaseException | None:
    """Run the script; return what it let through. To be shown later: no exception is being handled then."""
    try:
        exec(_compile(path), main.__dict__)  # noqa: S102 - running the user's script is what was asked for
    except BaseException as error:  # noqa: BLE001 - whatever ends the script is shown as Python would
        return error
    return None


def _main_module(path: str) -> ModuleType:
    """Return the module ``__main__`` with the names that Python gives it for a script."""
    main = ModuleType("__main__")
    main.__dict__.update(
        __annotations__={},
        __builtins__=builtins,
        __cached__=None,
        __file__=path,
        __loader__=SourceFileLoader("__main__", path),
    )
    return main


def _compile(path: str) -> CodeType:
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def _described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - a class of the script may be unable to describe itself
        return type(error).__name__


def _exited(error: SystemExit) -> Outcome:
    """Translate ``sys.exit(...)`` as Python does: nothing is 0, a number is itself, anything else is printed."""
    match error.code:
        case None:
            return Outcome(status="finished", exit_code=0)
        case int(code):
            if code == 0:
                return Outcome(status="finished", exit_code=0)
            return Outcome(status="failed", exit_code=code & 0xFF, exception=f"SystemExit: {code}")
        case message:
            print(message, file=sys.stderr)
            return Outcome(status="failed", exit_code=1, exception=f"SystemExit: {message}")

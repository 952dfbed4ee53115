"""Run another program and read what it printed, within a time limit."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The program ran to its end.

    Attributes:
        exit_code: 0 usually means success; negative: killed by that signal.
        stdout: What it printed.
        stderr: What it printed as errors.
    """

    exit_code: int
    stdout: str
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """There is no such program, or it may not be run.

    Attributes:
        reason: What the system says.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The program did not end in time and was stopped.

    Attributes:
        timeout_s: The limit.
    """

    timeout_s: float


CommandResult = Finished | NotFound | TimedOut


class RunCommand(Protocol):
    """Something that runs commands: ``run_command``, or recorded output in a test."""

    def __call__(
        self, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run the command; see ``run_command``."""
        ...


def run_command(
    command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None
) -> CommandResult:
    """Run a program without a shell and without input.

    Args:
        command: The program and its arguments.
        timeout_s: Seconds after which it is stopped.
        environment: The whole environment of the program; that of this process if None.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a fixed list of words, no shell
            list(command),
            check=False,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        return TimedOut(timeout_s=timeout_s)
    except OSError as error:
        return NotFound(reason=error.strerror or str(error))
    return Finished(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

"""``--stop-after-skips``, and how a run ends that was stopped because its numbers were not finite."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mixte._errors import InputError

if TYPE_CHECKING:
    import argparse

    from mixte.cli._messages import Messages
    from mixte.cli._script import Outcome
    from mixte.keras._recorder import Recorder
    from mixte.records import RecordWriter

STOPPED = 3
"""The exit code of a run that was stopped."""


def add_stopping_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--stop-after-skips",
        type=int,
        metavar="N",
        help="stop, with the cause, after N skipped updates, or losses that are not finite, in a row (default: "
        "50); 0: never",
    )


def check_stopping(skips: int | None) -> int | None:
    """Return the option's value.

    Raises:
        InputError: If it is negative.
    """
    if skips is not None and skips < 0:
        raise InputError(
            f"--stop-after-skips {skips} is below 0. Give the number of skipped updates; 0 to stop never."
        )
    return skips


def as_stopped(outcome: Outcome, recorder: Recorder, writer: RecordWriter, messages: Messages) -> Outcome:
    """Return how a run ended, once its last steps are recorded, and say why if it was stopped.

    A run is taken as stopped, too, if it came to its end, or was interrupted by us, before what was wrong had been
    read from the device; a script that catches the exception has the last word.

    Args:
        outcome: How the script ended.
        recorder: The recorder, closed.
        writer: The record.
        messages: Where to say it.
    """
    guard = recorder.guard
    if outcome.finding is None and guard.finding is None:
        ended = outcome.status != "interrupted" or not guard.interrupted
        finding = guard.conclude(ended=ended)
        if finding is None:
            return outcome
        if outcome.status == "finished" or not ended:
            outcome = replace(outcome, status="failed", exit_code=STOPPED, exception=_described(finding.text))
    elif outcome.finding is not None:
        finding = outcome.finding
        writer.update(stopped=finding)
        outcome = replace(outcome, exit_code=STOPPED, exception=_described(finding.text))
    else:  # the script caught it
        return outcome
    messages.say(finding.text)
    return outcome


def _described(text: str) -> str:
    return f"TrainingStoppedError: {text}"

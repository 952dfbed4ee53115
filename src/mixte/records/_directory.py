"""Names in a record's directory, and a fresh directory for a run."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

from mixte._errors import RecordError

RUNS_DIRECTORY = Path("mixte-runs")
"""Where runs go by default, in the working directory."""

RUN_FILE = "run.json"
STEPS_FILE = "steps.jsonl"
PROFILE_DIRECTORY = "profile"
"""What the backend's profiler wrote, where some steps were profiled."""
OUTPUT_FILE = "output.log"
"""Where ``mixte compare`` keeps what a run printed."""

_LONGEST_PART = 60  # directory names may have 255 bytes: two parts of this size, the time and a counter fit


def new_run_directory(script: str, policy: str, started_at: dt.datetime, root: Path = RUNS_DIRECTORY) -> Path:
    """Create an empty directory ``<root>/<UTC time>-<script>-<policy>``.

    A run that starts in the same second with the same script and policy gets ``-2``, ``-3`` ... appended: the
    directory is created by one system call that fails if it exists, so two processes never share one.

    Args:
        script: Path of the script; its stem is used.
        policy: Name of the policy or path of a policy file; its stem is used.
        started_at: Time of the start, with its time zone.
        root: Directory of all runs; created where missing.

    Raises:
        RecordError: The directory cannot be created.
    """
    stamp = f"{started_at.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}"
    name = f"{stamp}-{_slug(Path(script).stem)}-{_slug(Path(policy).stem)}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        return _first_free(root, name)
    except OSError as error:
        raise RecordError(
            f"cannot create a directory for this run in '{root}': {error.strerror}. "
            "Give another place with --record DIRECTORY."
        ) from error


def _first_free(root: Path, name: str) -> Path:
    count = 1
    while True:
        directory = root / (name if count == 1 else f"{name}-{count}")
        try:
            directory.mkdir()
        except FileExistsError:
            count += 1
        else:
            return directory


def _slug(text: str) -> str:
    return re.sub(r"[^\w.+=-]+", "_", text, flags=re.ASCII).strip("._-")[:_LONGEST_PART] or "script"

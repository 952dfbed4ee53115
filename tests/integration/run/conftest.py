"""A script, run as a user runs it: in a directory and a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from mixte.records import Record, read_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Run = Callable[..., "Ended"]

MIXTE = (sys.executable, "-m", "mixte", "run")
LIMIT_S = 240  # a process that hangs fails its test; none needs a tenth of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that has ended, and the directory that it ran in."""

    returncode: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def record(self) -> Record:
        (directory,) = [path.parent for path in self.folder.rglob("run.json")]
        return read_record(directory)


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """The variables of the test's own process, without what would choose a backend or clutter the output."""
    kept = {name: value for name, value in os.environ.items() if name not in {"KERAS_BACKEND", "COLUMNS"}}
    return kept | {"TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "80", **changes}


def execute(
    folder: Path, command: tuple[str, ...], *, text_in: str = "", variables: Mapping[str, str] | None = None
) -> Ended:
    ended = subprocess.run(
        command,
        cwd=folder,
        input=text_in,
        capture_output=True,
        text=True,
        check=False,
        env=environment(variables or {}),
        timeout=LIMIT_S,
    )
    return Ended(returncode=ended.returncode, stdout=ended.stdout, stderr=ended.stderr, folder=folder)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script, given as text, by ``mixte run`` with options before and arguments after it."""

    def run_script(
        text: str, *options: str, arguments: tuple[str, ...] = (), name: str = "train.py", **more: object
    ) -> Ended:
        (tmp_path / name).write_text(text)
        return execute(tmp_path, (*MIXTE, *options, name, *arguments), **more)  # type: ignore[arg-type]

    return run_script


@pytest.fixture
def run_twice(tmp_path: Path) -> Callable[..., tuple[Ended, Ended]]:
    """Run a script by ``python`` and by ``mixte run``, each in a fresh directory of the same name."""

    def run_both(
        text: str,
        *options: str,
        arguments: tuple[str, ...] = (),
        files: Mapping[str, str] | None = None,
        **more: object,
    ) -> tuple[Ended, Ended]:
        results: list[Ended] = []
        for command in ((sys.executable,), (*MIXTE, *options)):
            folder = tmp_path / "work"
            folder.mkdir()
            for name, content in {"train.py": text, **(files or {})}.items():
                (folder / name).write_text(content)
            ended = execute(folder, (*command, "train.py", *arguments), **more)  # type: ignore[arg-type]
            kept = tmp_path / f"done{len(results)}"
            if folder.exists():  # a script may have deleted it
                folder.rename(kept)
            results.append(replace(ended, folder=kept))
        return results[0], results[1]

    return run_both

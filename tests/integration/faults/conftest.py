"""Scripts with a known fault, each run by ``mixte run`` as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mixte.records import Record, Stopped, read_record

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
LIMIT_S = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that has ended."""

    returncode: int
    stderr: str
    record: Record

    @property
    def finding(self) -> Stopped:
        """Why it was stopped."""
        found = self.record.run.stopped
        assert found is not None, self.stderr
        return found


@pytest.fixture
def run_fault(tmp_path: Path) -> Callable[..., Ended]:
    """Run one of the scripts of this folder, or a text, with options of ``mixte run``."""

    def run(script: str, backend: str, *options: str, text: str | None = None) -> Ended:
        path = HERE / f"{script}.py"
        if text is not None:
            path = tmp_path / f"{script}.py"
            path.write_text(text)
        kept = {name: value for name, value in os.environ.items() if name not in {"KERAS_BACKEND", "COLUMNS"}}
        command = (
            *(sys.executable, "-m", "mixte", "run", "--backend", backend, "--seed", "0", "--quiet"),
            *("--record", str(tmp_path / "record"), *options, str(path)),
        )
        ended = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env=kept | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            timeout=LIMIT_S,
        )
        return Ended(returncode=ended.returncode, stderr=ended.stderr, record=read_record(tmp_path / "record"))

    return run

"""examples/article.py, run as a user runs it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

ARTICLE = Path(__file__).resolve().parents[3] / "examples" / "article.py"


@cache
def finished(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ARTICLE), *arguments], capture_output=True, text=True, check=False, timeout=240
    )


def load() -> ModuleType:
    specification = importlib.util.spec_from_file_location("article", ARTICLE)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_all_its_claims_hold() -> None:
    done = finished()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert len(re.findall(r"^ok ", done.stdout, re.MULTILINE)) == 7


def test_thirty_losses_are_printed_finite_and_falling() -> None:
    losses = [float(loss) for loss in re.findall(r"^step +\d+  loss (\S+)$", finished().stdout, re.MULTILINE)]
    assert len(losses) == 30
    assert all(0 < loss < 10 for loss in losses)
    assert losses == sorted(losses, reverse=True)


def test_storage_compute_and_the_skipped_step_are_shown() -> None:
    shown = finished().stdout
    assert "float32  fp32_storage/weights" in shown
    assert "float16  fp32_storage/MatMul" in shown
    assert "weights unchanged" in shown
    assert "steps 31, applied 30, skipped 1, skipped_inf 1" in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_help_says_what_it_does() -> None:
    done = finished("--help")
    assert done.returncode == 0
    assert "Mixed precision in four steps" in done.stdout


def test_unknown_argument_is_refused_without_a_traceback() -> None:
    done = finished("--step", "3")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_it_fails_when_a_claim_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    article = load()
    monkeypatch.setattr(article, "LEARNING_RATE", 0.0)
    assert article.main([]) == 1
    assert "FAILED the loss falls" in capsys.readouterr().out

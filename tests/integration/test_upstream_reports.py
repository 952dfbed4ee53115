"""Each reproduction in docs/upstream runs against plain Keras, and prints what the report says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPORTS = Path(__file__).resolve().parents[2] / "docs" / "upstream"

CASES = [
    ("mirrored-strategy-checks-one-replica", "tensorflow", 0),
    ("load-model-drops-loss-scaling", "tensorflow", 0),
    ("load-model-drops-loss-scaling", "jax", 0),
    ("load-model-drops-loss-scaling", "torch", 0),
    ("loss-scale-reaches-zero", "tensorflow", 0),
    ("loss-scale-reaches-zero", "torch", 1),
]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("report", "backend", "output"), CASES)
def test_the_reproduction_prints_what_the_report_says(
    report: str, backend: str, output: int, tmp_path: Path
) -> None:
    text = (REPORTS / f"{report}.md").read_text(encoding="utf-8")
    (code,) = blocks(text, "python")
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"},
        text=True,
    )
    assert "mixte" not in code
    assert done.stdout == blocks(text, "text")[output]


def test_every_report_is_run() -> None:
    assert {path.stem for path in REPORTS.glob("*.md")} == {report for report, _, _ in CASES}

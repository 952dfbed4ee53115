"""What does not train loads no framework, and ``import mixte`` costs next to nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mixte.cli._main import COMMANDS
from mixte.records import Policy, RecordWriter, Run

if TYPE_CHECKING:
    from pathlib import Path

FRAMEWORKS = ("keras", "tensorflow", "jax", "torch")
NVPROF = """\
==1== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  volta_h884gemm_128x64_ldg8_nn
"""


def frameworks_after(code: str, folder: Path) -> list[str]:
    """The frameworks that a fresh interpreter has loaded after some code."""
    script = (
        f"{code}\nimport sys\nprint('\\n', *(n for n in {FRAMEWORKS!r} if n in sys.modules), file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=120, cwd=folder
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stderr.splitlines()[-1].split()


def command(*arguments: str) -> str:
    return f"from mixte.cli import main; assert main({list(arguments)!r}) in (0, 1)"


@pytest.mark.parametrize(
    "code",
    [
        "import mixte",
        "import mixte; [getattr(mixte, name) for name in dir(mixte) if name not in ('keras', 'tensorflow')]",
        command("--help"),
        command("verify", "profile.txt"),
        command("doctor"),
        command("formats"),
        command("run", "script.py"),
        *([command("report", "run")] if "report" in COMMANDS else []),
    ],
    ids=lambda code: code[:70],
)
def test_no_framework_is_loaded(code: str, tmp_path: Path) -> None:
    (tmp_path / "profile.txt").write_text(NVPROF)
    (tmp_path / "script.py").write_text("print('no training here')")
    writer = RecordWriter(tmp_path / "run")
    writer.start(Run(command=("mixte",), script="script.py", policy=Policy(name="float32")))
    writer.finish("finished", exit_code=0)
    assert frameworks_after(code, tmp_path) == []


@pytest.mark.parametrize("framework", ["keras", "jax"])
def test_the_test_above_would_see_a_framework(framework: str, tmp_path: Path) -> None:
    assert framework in frameworks_after(f"import mixte, {framework}", tmp_path)


def test_importing_mixte_takes_less_than_three_tenths_of_a_second(tmp_path: Path) -> None:
    code = "import time; begin = time.process_time(); import mixte; print(time.process_time() - begin)"
    # Time of the processor, not of the clock: other processes on the machine do not count. They still cost caches,
    # and a first run compiles bytecode: so the least of three.
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        for _ in range(3)
    ]
    assert min(float(run.stdout) for run in runs) < 0.3

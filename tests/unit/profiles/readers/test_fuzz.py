"""Damaged variants of every reference profile, by the script that makes many more of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[4] / "benchmarks" / "fuzz_profiles.py"


def test_no_damage_makes_a_reader_fail_hang_or_fill_the_memory(shared):
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 failures" in done.stdout

"""Programs are run within a time limit, and every way to fail is a value."""

from __future__ import annotations

import sys

from mixte.devices._command import Finished, NotFound, TimedOut, run_command


def test_output_errors_and_exit_code_are_kept() -> None:
    program = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    result = run_command([sys.executable, "-c", program], timeout_s=60)
    assert result == Finished(exit_code=3, stdout="out\n", stderr="err\n")


def test_a_missing_program_is_not_found() -> None:
    assert isinstance(run_command(["/nowhere/nvidia-smi"], timeout_s=60), NotFound)


def test_a_program_that_may_not_be_run_is_not_found(tmp_path) -> None:
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o644)
    assert run_command([str(script)], timeout_s=60) == NotFound(reason="Permission denied")


def test_a_program_that_does_not_end_is_stopped() -> None:
    program = "import threading; threading.Event().wait()"
    assert run_command([sys.executable, "-c", program], timeout_s=0.2) == TimedOut(timeout_s=0.2)


def test_output_that_is_not_utf_8_does_not_fail() -> None:
    program = r"import sys; sys.stdout.buffer.write(b'Tesla \xff')"
    result = run_command([sys.executable, "-c", program], timeout_s=60)
    assert result == Finished(exit_code=0, stdout="Tesla \N{REPLACEMENT CHARACTER}")


def test_a_program_waits_for_no_input() -> None:
    result = run_command([sys.executable, "-c", "print(repr(input()))"], timeout_s=60)
    assert isinstance(result, Finished)
    assert "EOFError" in result.stderr


def test_the_environment_is_replaced_where_one_is_given() -> None:
    program = "import os; print(os.environ.get('MIXTE_TEST'), 'HOME' in os.environ)"
    result = run_command([sys.executable, "-c", program], timeout_s=60, environment={"MIXTE_TEST": "here"})
    assert result == Finished(exit_code=0, stdout="here False\n")

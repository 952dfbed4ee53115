"""Frameworks are asked in processes of their own; every outcome is a value."""

from __future__ import annotations

import pytest

from mixte.devices import FrameworkFails, FrameworkSees, SeenDevice, check_frameworks
from mixte.devices._command import Finished, NotFound, TimedOut


def test_the_devices_are_read_among_other_output(framework, command) -> None:
    printed = 'some banner\nmixte-devices: [["gpu", "Tesla T4"], ["cpu", "cpu"]]\n'
    (check,) = check_frameworks(
        [framework()], run=command(Finished(exit_code=0, stdout=printed)), environment={}
    )
    assert check == FrameworkSees(
        framework="torch", devices=(SeenDevice(kind="gpu", name="Tesla T4"), SeenDevice(kind="cpu", name="cpu"))
    )


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (
            Finished(
                exit_code=1, stdout="", stderr="Traceback (most recent call last):\nImportError: libfoo.so\n"
            ),
            "ImportError: libfoo.so",
        ),
        (Finished(exit_code=-11, stdout=""), "it ended with exit code -11"),
        (Finished(exit_code=0, stdout="nothing\n"), "it loaded, but printed no list of devices"),
        (TimedOut(timeout_s=7), "it did not answer within 7 s"),
        (
            NotFound(reason="No such file or directory"),
            "Python could not be started: No such file or directory",
        ),
    ],
)
def test_a_failure_is_text(framework, command, result, reason: str) -> None:
    (check,) = check_frameworks([framework()], run=command(result), environment={})
    assert check == FrameworkFails(framework="torch", reason=reason)


def test_one_failure_does_not_hide_the_next_answer(framework, command) -> None:
    run = command(TimedOut(timeout_s=1), Finished(exit_code=0, stdout='mixte-devices: [["cpu", "cpu"]]\n'))
    checks = check_frameworks([framework(name="tensorflow"), framework(name="torch")], run=run, environment={})
    assert [type(check) for check in checks] == [FrameworkFails, FrameworkSees]


def test_the_gpus_memory_is_left_alone_unless_the_user_says_otherwise(framework, command) -> None:
    run = command(Finished(exit_code=0, stdout=""))
    check_frameworks(
        [framework()], run=run, environment={"XLA_PYTHON_CLIENT_PREALLOCATE": "true", "HOME": "/h"}
    )
    (environment,) = run.environments
    assert environment is not None
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"
    assert environment["HOME"] == "/h"

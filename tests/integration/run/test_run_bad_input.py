"""Bad input to ``mixte run`` is one clear paragraph and an exit code, never a traceback of ours."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from mixte.cli import main

from .conftest import MIXTE, execute

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

POLICY = """
schema = 1
extends = "mixed_float16"

[[rules]]
path = "encoder/**"
precison = "float32"
reason = "its scores overflow"
"""


def refused(folder: Path, *arguments: str) -> str:
    """Run and return the one paragraph on standard error; nothing else may have happened."""
    before = {*folder.iterdir()}
    ended = execute(folder, (*MIXTE, *arguments))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert {*folder.iterdir()} == before  # no record of a run that never was
    assert "Traceback" not in ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("mixte run: error: ")
    return line.removeprefix("mixte run: error: ")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("raise SystemExit('the script must not run')")
    (tmp_path / "policy.toml").write_text(POLICY)
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tarin.py"], ["there is no script 'tarin.py'", "There is: train.py."]),
        (["no/train.py"], ["there is no script 'no/train.py'"]),
        (["data"], ["'data' is a directory", "Give the path of a Python script"]),
        (
            ["--policy", "mixed_flaot16", "train.py"],
            ["'mixed_flaot16'", "Did you mean 'mixed_float16'?", "The presets are "],
        ),
        (["--policy", "no/p.toml", "train.py"], ["no/p.toml"]),
        (
            ["--policy", "policy.toml", "train.py"],
            ["policy.toml, line 7, [[rules]] 1, key 'precison'", "Did you mean 'precision'?"],
        ),
        (["--loss-scale", "dynamc", "train.py"], ["dynamc", "dynamic"]),
        (["--loss-scale", "fixed:0", "train.py"], ["0"]),
        (["--seed", "-1", "train.py"], ["--seed -1 is out of range", "0 to 4294967295"]),
        (["--record", ".", "train.py"], ["the directory", "is not empty", "--record"]),
        (
            ["--record", "train.py/run", "train.py"],
            ["cannot write a run record", "Not a directory", "--record"],
        ),
        (["--record", "/proc/run", "train.py"], ["cannot write a run record in '/proc/run'", "--record"]),
    ],
)
def test_what_is_wrong_is_said_before_anything_happens(
    folder: Path, arguments: list[str], words: list[str]
) -> None:
    message = refused(folder, *arguments)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "x", "train.py"], "argument --seed: invalid int value: 'x'"),
        (["--backend", "theano", "train.py"], "'tensorflow', 'jax', 'torch'"),
        (["--polcy", "float32", "train.py"], "unrecognized arguments: --polcy"),
        ([], "the following arguments are required: script.py"),
    ],
)
def test_a_wrong_option_shows_the_usage(folder: Path, arguments: list[str], words: str) -> None:
    ended = execute(folder, (*MIXTE, *arguments))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("usage: mixte run [options] script.py [arguments of the script]\n")
    assert words in ended.stderr


def test_a_directory_that_cannot_be_written_names_the_way_out(folder: Path) -> None:
    (folder / "mixte-runs").write_text("a file in the way")
    message = refused(folder, "train.py")
    assert message.startswith("cannot create a directory for this run in 'mixte-runs': ")
    assert message.endswith("Give another place with --record DIRECTORY.")


def test_a_backend_that_is_not_installed_names_its_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["run", "--backend", "jax", "train.py"]) == 2
    assert capsys.readouterr().err == (
        "mixte run: error: JAX is not installed. Install it with: pip install 'mixte[jax]'\n"
    )


def test_a_script_whose_backend_is_missing_gets_pythons_error_and_the_extra(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "jax"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'jax'\", name='jax')")
    ended = run("import jax", variables={"PYTHONPATH": str(broken.parent)})
    assert ended.returncode == 1
    assert "\nModuleNotFoundError: No module named 'jax'\n" in ended.stderr
    assert (
        "\nmixte: JAX is not installed. Install it with: pip install 'mixte[jax]', or run on an installed backend: "
        "--backend tensorflow or torch.\n"
    ) in ended.stderr


def test_an_unreadable_script_is_named(folder: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (folder / "train.py").chmod(0)
    assert refused(folder, "train.py").startswith("the script 'train.py' cannot be read: Permission denied.")


def test_a_syntax_error_is_shown_as_python_shows_it(folder: Path) -> None:
    (folder / "train.py").write_text("x = 1\ndef f(:\n    pass\n")
    plain, ours = execute(folder, (sys.executable, "train.py")), execute(folder, (*MIXTE, "train.py"))
    assert ours.returncode == plain.returncode == 1
    assert ours.stderr.startswith(plain.stderr)
    assert ours.record.run.exception == "SyntaxError: invalid syntax (train.py, line 2)"

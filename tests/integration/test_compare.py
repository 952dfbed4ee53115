"""``mixte compare`` as a user meets it; a stand-in takes the place of ``mixte run``."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from mixte.cli import main
from mixte.compare import read_comparison

if TYPE_CHECKING:
    from pathlib import Path

# Runs the command line with a stand-in for `mixte run`.
DRIVER = """
import functools, sys
import mixte.compare
from mixte.cli import main
stand_in = (sys.executable, sys.argv[1])
mixte.compare.LocalRunner = functools.partial(mixte.compare.LocalRunner, command=stand_in)
sys.exit(main(["compare", *sys.argv[2:]]))
"""

# Records a made-up training of 60 steps: mixed precision takes half the time. The script's arguments make it
# fail or wait under mixed precision.
STAND_IN = """
import argparse, os, random, sys, time
from mixte.records import *
parser = argparse.ArgumentParser()
for name in ("policy", "seed", "record", "backend", "loss-scale"):
    parser.add_argument(f"--{name}")
parser.add_argument("--quiet", action="store_true")
parser.add_argument("script")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
given = parser.parse_args()
random = random.Random(f"{given.policy}{given.seed}")
writer = RecordWriter(given.record)
writer.start(Run(command=tuple(sys.argv), script=given.script, policy=Policy(name=given.policy),
                 arguments=tuple(given.arguments), backend=given.backend, loss_scale=given.loss_scale))
mixed = given.policy != "float32"
print("Epoch 1/1", flush=True)
if mixed and "fail" in given.arguments:
    sys.exit("ValueError: the data is missing")
if mixed and "wait" in given.arguments:
    print(f"process {os.getpid()}", flush=True)
    time.sleep(600)
for n in range(1, 61):
    time_ns = int((4e6 if mixed else 8e6) * random.uniform(0.9, 1.1))
    writer.log([Step(step=n, time_s=n / 100, loss=2 / n + random.random() / 100, step_time_ns=time_ns)])
metrics = {"accuracy": 0.97 + random.random() / 100}
writer.log([Evaluation(split="validation", time_s=1.0, loss=0.1, metrics=metrics)])
writer.finish("finished", exit_code=0)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a script, and the driver beside it."""
    (tmp_path / "driver.py").write_text(DRIVER)
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    work = tmp_path / "work"
    work.mkdir()
    (work / "train.py").write_text("raise SystemExit('the stand-in runs in its place')")
    monkeypatch.chdir(work)
    return work


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(folder.parent / "driver.py"), str(folder.parent / "stand_in.py"), *arguments]


def compare(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"COLUMNS": "80"}
    return subprocess.run(
        command(folder, *arguments), capture_output=True, text=True, check=False, env=environment, timeout=120
    )


def the_comparison(folder: Path) -> Path:
    (directory,) = (folder / "mixte-runs").iterdir()
    return directory


def test_a_comparison_ends_with_a_table_a_verdict_and_its_records(folder: Path) -> None:
    ended = compare(folder, "--policies", "float32,mixed_float16", "--seeds", "2", "train.py")
    assert ended.returncode == 0
    assert [line.split()[0] for line in ended.stdout.splitlines() if line[:2] in {"fl", "mi"}][:3] == [
        "mixte:",
        "float32",
        "mixed_float16",
    ]
    assert "verdict: mixed_float16 is 2.0" in ended.stdout
    assert max(map(len, ended.stdout.splitlines())) <= 80
    directory = the_comparison(folder)
    assert f"records: mixte-runs/{directory.name}\n" in ended.stdout
    assert sorted(path.name for path in directory.iterdir()) == [
        "01-float32-seed0",
        "02-mixed_float16-seed0",
        "03-mixed_float16-seed1",
        "04-float32-seed1",
        "comparison.json",
    ]
    assert ended.stderr.splitlines()[0] == "[1/4] float32, seed 0: running"
    assert ended.stderr.splitlines()[-1].startswith("[4/4] float32, seed 1: done in ")


def test_a_failed_run_shows_the_end_of_its_output_and_leaves_the_others(folder: Path) -> None:
    ended = compare(folder, "--policies", "float32,mixed_float16,bfloat16", "train.py", "fail")
    assert ended.returncode == 1
    assert "[2/3] mixed_float16, seed 0: ended with exit code 1. The end of its output:" in ended.stderr
    assert "    Epoch 1/1\n    ValueError: the data is missing\n" in ended.stderr
    assert "mixed_float16  0 of 1" in ended.stdout
    assert "warning: mixed_float16, seed 0, does not count: it ended with exit code 1" in ended.stdout
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_run_and_prints_what_was_done(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        command(folder, "train.py", "wait"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        while "[2/2] mixed_float16, seed 0: running" not in process.stderr.readline():
            pass
        output = the_comparison(folder) / "02-mixed_float16-seed0" / "output.log"
        while not output.exists() or "process" not in (printed := output.read_text()):
            pass
        process.send_signal(number)
        table, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "unfinished: 1 of 2 runs done" in table.replace("\n", " ")
    assert "float32           1  0.0" in table
    assert errors.endswith("mixte compare: interrupted; the table shows what was done\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(printed.split()[-1]), 0)
    assert len(read_comparison(the_comparison(folder)).runs) == 1


def test_the_comparison_is_written_as_json_where_it_is_wanted(folder: Path) -> None:
    ended = compare(folder, "--json", "result.json", "train.py")
    assert "verdict:" in ended.stdout
    assert (folder / "result.json").read_bytes() == (the_comparison(folder) / "comparison.json").read_bytes()


def test_json_on_standard_output_stands_alone(folder: Path) -> None:
    ended = compare(folder, "--json", "-", "--record", "here/it", "train.py")
    assert json.loads(ended.stdout)["policies"] == ["float32", "mixed_float16"]
    assert (folder / "here" / "it" / "comparison.json").read_text() == ended.stdout
    assert not (folder / "mixte-runs").exists()


@pytest.mark.parametrize(
    ("arguments", "policies", "seeds", "passed"),
    [
        (["train.py", "--policies", "float32,bfloat16", "--seeds=1", "x"], ("float32", "bfloat16"), 1, ["x"]),
        (["train.py", "--epochs", "3"], ("float32", "mixed_float16"), 1, ["--epochs", "3"]),
        (["train.py", "--", "--seeds", "3"], ("float32", "mixed_float16"), 1, ["--seeds", "3"]),
        (["train.py", "x", "--policies", "a"], ("float32", "mixed_float16"), 1, ["x", "--policies", "a"]),
        (["--seeds", "2", "train.py", "x", "--", "y"], ("float32", "mixed_float16"), 2, ["x", "--", "y"]),
    ],
)
def test_what_follows_the_script_is_the_scripts_except_for_policies_and_seeds_at_once(
    folder: Path, arguments: list[str], policies: tuple[str, ...], seeds: int, passed: list[str]
) -> None:
    compare(folder, *arguments)
    comparison = read_comparison(the_comparison(folder))
    assert comparison.policies == policies
    assert len(comparison.seeds) == seeds
    assert list(comparison.arguments) == passed
    written = json.loads((the_comparison(folder) / "01-float32-seed0" / "run.json").read_text())
    assert written["arguments"] == passed


def test_options_of_the_runs_are_passed_on(folder: Path) -> None:
    compare(folder, "--backend", "jax", "--loss-scale", "fixed:128", "train.py")
    written = json.loads((the_comparison(folder) / "02-mixed_float16-seed0" / "run.json").read_text())
    assert (written["backend"], written["loss_scale"]) == ("jax", "fixed:128")


def test_in_a_terminal_the_time_counts_up_on_one_line(folder: Path) -> None:
    reader, writer = pty.openpty()
    with subprocess.Popen(command(folder, "train.py"), stdout=subprocess.DEVNULL, stderr=writer) as process:
        os.close(writer)
        shown = b""
        try:
            while part := os.read(reader, 1024):
                shown += part
        except OSError:  # how Linux says that the other end of a terminal has closed
            pass
    os.close(reader)
    assert process.returncode == 0
    assert b"\r\x1b[K[1/2] float32, seed 0: running, 0 s" in shown
    assert b"\r\x1b[K[1/2] float32, seed 0: done in " in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.py"], "there is no script 'nothing.py'"),
        (["."], "'.' is a directory"),
        (["--policies", "float32", "train.py"], "names 1 policy, and a comparison needs at least two"),
        (["--policies", ",", "train.py"], "names no policy"),
        (["--policies", "float32,mixed_flaot16", "train.py"], "Did you mean 'mixed_float16'?"),
        (["--policies", "float32,no.toml", "train.py"], "no.toml"),
        (["--policies", "float32,float32", "train.py"], "names 'float32' twice"),
        (["--seeds", "0", "train.py"], "--seeds 0 gives no run; give 1 or more"),
        (["train.py", "--seeds", "-3"], "--seeds -3 gives no run"),
        (["--loss-scale", "dynamc", "train.py"], "Did you mean 'dynamic'?"),
        (["--backend", "tensorflwo", "train.py"], "Did you mean 'tensorflow'?"),
        (["--", "nothing.py"], "there is no script 'nothing.py'"),
        (["--record", ".", "train.py"], "--record '.' is not empty"),
        (["--record", "train.py/x", "train.py"], "--record 'train.py/x' cannot be used: Not a directory"),
        (["--json", "no/where.json", "train.py"], "--json 'no/where.json' cannot be written"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("mixte compare: error: ")
    assert message in printed.err
    assert [path.name for path in folder.iterdir()] == ["train.py"]


def test_a_backend_that_is_not_installed_names_its_extra(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixte.cli.compare.find_spec", lambda name: None)
    assert main(["compare", "--backend", "torch", "train.py"]) == 2
    assert "PyTorch is not installed. Install it with: pip install 'mixte[torch]'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--seeds", "many", "train.py"], ["train.py", "--seeds", "many"]])
def test_a_wrong_command_line_gets_its_usage(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])
    assert ended.value.code == 2
    assert "mixte compare: error:" in capsys.readouterr().err

"""A comparison is carried out to its end, or leaves what was done."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from mixte._errors import InputError, RecordError
from mixte.compare import Cell, LocalRunner, Request, read_comparison, run_comparison
from mixte.records import read_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mixte.compare import RunResult

    MakeRun = Callable[..., RunResult]

REQUEST = Request(script="train.py", policies=("float32", "mixed_float16"), seeds=(0, 1))

# Stands in for `mixte run`: logs two steps, or does what the script's name says.
STAND_IN = """
import argparse, os, signal, sys, time
from mixte.records import Policy, RecordWriter, Run, Step
parser = argparse.ArgumentParser()
for name in ("policy", "seed", "record", "backend"):
    parser.add_argument(f"--{name}")
parser.add_argument("--quiet", action="store_true")
parser.add_argument("script")
parser.add_argument("arguments", nargs=argparse.REMAINDER)
given = parser.parse_args()
print("given:", given.policy, given.seed, given.backend, given.quiet, given.script, given.arguments, flush=True)
if given.script == "fails.py":
    sys.exit(3)
if given.script == "dies.py":
    os.kill(os.getpid(), signal.SIGSEGV)
if given.script == "silent.py":
    sys.exit(0)
writer = RecordWriter(given.record)
writer.start(Run(command=("mixte",), script=given.script, policy=Policy(name=given.policy)))
writer.log([Step(step=1, time_s=0.1, loss=2.0), Step(step=2, time_s=0.2, loss=1.0)])
writer.flush()
if given.script == "waits.py":
    print("waiting", flush=True)
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        writer.finish("interrupted", exit_code=130)
        sys.exit(130)
writer.finish("finished", exit_code=0)
"""


@dataclass
class ListedRunner:
    """Gives results from a list, and stops as Ctrl-C does when the list ends."""

    results: list[RunResult]
    directories: list[str] = field(default_factory=list)

    def run(self, cell: Cell, directory: Path, on_wait: Callable[[float], None]) -> RunResult:
        on_wait(0.0)
        self.directories.append(directory.name)
        if not self.results:
            raise KeyboardInterrupt
        return self.results.pop(0)


@dataclass
class Log:
    """Notes what an observer is told."""

    told: list[str] = field(default_factory=list)

    def waiting(self, number: int, total: int, cell: Cell, elapsed_s: float) -> None:
        self.told.append(f"{number}/{total} {cell.policy} {cell.seed}")

    def ended(self, number: int, total: int, result: RunResult) -> None:
        self.told.append(f"{number}/{total} ended {result.problem}")


def stand_in(script: str, tmp_path: Path, **changes: object) -> LocalRunner:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    return LocalRunner(script=script, command=(sys.executable, str(tmp_path / "stand_in.py")), **changes)


def run_one(runner: LocalRunner, directory: Path) -> RunResult:
    return runner.run(Cell(policy="mixed_float16", seed=3), directory, lambda _: None)


def test_runs_are_done_in_the_planned_order_and_told(tmp_path: Path, run_result: MakeRun) -> None:
    order = [("float32", 0), ("mixed_float16", 0), ("mixed_float16", 1), ("float32", 1)]
    runner, log = ListedRunner([run_result(p, s, losses=(float(s),)) for p, s in order]), Log()
    comparison, interrupted = run_comparison(REQUEST, runner, tmp_path, log)
    assert not interrupted
    assert [(run.policy, run.seed) for run in comparison.runs] == order
    assert runner.directories == [
        "01-float32-seed0",
        "02-mixed_float16-seed0",
        "03-mixed_float16-seed1",
        "04-float32-seed1",
    ]
    assert log.told[:3] == ["1/4 float32 0", "1/4 ended None", "2/4 mixed_float16 0"]
    assert read_comparison(tmp_path) == comparison


def test_an_interruption_leaves_what_was_done(tmp_path: Path, run_result: MakeRun) -> None:
    runner = ListedRunner(
        [run_result("float32", 0, losses=(1.0,)), run_result("mixed_float16", 0, losses=(2.0,))]
    )
    comparison, interrupted = run_comparison(REQUEST, runner, tmp_path, Log())
    assert interrupted
    assert (len(comparison.runs), comparison.planned) == (2, 4)
    assert comparison.pairs[0].seeds == (0,)
    assert read_comparison(tmp_path / "comparison.json") == comparison


def test_a_failed_run_does_not_stop_the_others(tmp_path: Path, run_result: MakeRun) -> None:
    order = [("float32", 0), ("mixed_float16", 0), ("mixed_float16", 1), ("float32", 1)]
    results = [
        run_result(p, s, problem="ended with exit code 1" if (p, s) == order[1] else None) for p, s in order
    ]
    comparison, _ = run_comparison(REQUEST, ListedRunner(results), tmp_path, Log())
    assert [run.problem for run in comparison.runs] == [None, "ended with exit code 1", None, None]
    assert comparison.pairs[0].seeds == (1,)


def test_policy_files_of_one_name_get_directories_of_their_own(tmp_path: Path, run_result: MakeRun) -> None:
    request = Request(script="t.py", policies=("a/p.toml", "b/p.toml"), seeds=(0,))
    runner = ListedRunner([run_result("a/p.toml", 0), run_result("b/p.toml", 0)])
    run_comparison(request, runner, tmp_path, Log())
    assert runner.directories == ["01-p-seed0", "02-p-seed0"]


def test_a_local_run_gets_its_options_and_leaves_record_and_output(tmp_path: Path) -> None:
    runner = stand_in("good.py", tmp_path, arguments=("--epochs", "3"), options=("--backend", "jax"))
    result = run_one(runner, tmp_path / "run")
    assert result.problem is None
    assert result.record is not None
    assert [step.loss for step in result.record.steps] == [2.0, 1.0]
    assert result.output.read_text() == "given: mixed_float16 3 jax True good.py ['--epochs', '3']\n"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("fails.py", "ended with exit code 3"),
        ("dies.py", "was killed by SIGSEGV"),
        ("silent.py", "left no record that can be read: no run record in"),
    ],
)
def test_a_local_run_that_goes_wrong_says_how(tmp_path: Path, script: str, problem: str) -> None:
    result = run_one(stand_in(script, tmp_path), tmp_path / "run")
    assert result.problem is not None
    assert result.problem.startswith(problem)
    assert result.output.read_text().startswith("given:")


def test_an_interrupted_local_run_is_ended_and_leaves_a_readable_record(tmp_path: Path) -> None:
    output = tmp_path / "run" / "output.log"

    def interrupt_once_it_waits(_elapsed_s: float) -> None:
        if "waiting" in output.read_text():
            raise KeyboardInterrupt

    runner = stand_in("waits.py", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        runner.run(Cell(policy="float32", seed=0), tmp_path / "run", interrupt_once_it_waits)
    record = read_record(tmp_path / "run")
    assert record.status == "interrupted"
    assert len(record.steps) == 2


def test_a_command_that_does_not_exist_is_an_error_of_the_input(tmp_path: Path) -> None:
    runner = LocalRunner(script="t.py", command=(str(tmp_path / "nothing"),))
    with pytest.raises(InputError, match=r"cannot start .*nothing': No such file"):
        run_one(runner, tmp_path / "run")


def test_a_directory_that_cannot_be_made_is_an_error_of_the_record(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot write the output of a run to .*Not a directory"):
        run_one(stand_in("good.py", tmp_path), tmp_path / "file" / "run")


def test_the_default_command_is_mixte_run() -> None:
    command = [*LocalRunner(script="t.py").command, "--help"]
    assert command[:-1] == [sys.executable, "-m", "mixte", "run"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not a comparison of mixte"),
        ('{"schema_version": 9}', "has schema version 9; this mixte reads version 1"),
        ('{"schema_version": 1}', "is not a comparison of mixte"),
    ],
)
def test_a_file_that_is_no_comparison_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "comparison.json").write_text(content)
    with pytest.raises(RecordError, match=message):
        read_comparison(tmp_path)


def test_a_missing_comparison_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"no comparison in .*No such file"):
        read_comparison(tmp_path)

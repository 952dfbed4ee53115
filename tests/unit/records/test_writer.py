"""A record is readable whatever happens to the process that writes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from mixte._errors import RecordError
from mixte.records import Evaluation, Policy, RecordWriter, Run, State, Step, read_record

if TYPE_CHECKING:
    from pathlib import Path

RUN = Run(command=("mixte", "run", "train.py"), script="train.py", policy=Policy(name="mixed_float16"))

PREAMBLE = """
import sys
from mixte.records import *
writer = RecordWriter(sys.argv[1])
writer.start(Run(command=("mixte", "run", "t.py"), script="t.py", policy=Policy(name="float32")))
"""


def start_process(code: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + textwrap.dedent(code), str(directory)],
        stdout=subprocess.PIPE,
        text=True,
    )


def steps(first: int, last: int) -> list[Step]:
    return [Step(step=n, time_s=n / 10, loss=1 / n) for n in range(first, last + 1)]


class Clock:
    """A clock that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("batches", [1, 5])
def test_kill_9_leaves_every_line_that_was_flushed(tmp_path: Path, batches: int) -> None:
    with start_process(
        """
        for n in range(1, 2_000_000):
            writer.log([Step(step=n, time_s=n / 10, loss=1 / n)])
            if n % 1000 == 0:
                writer.flush()
                print(n, flush=True)
        """,
        tmp_path / "run",
    ) as process:
        assert process.stdout is not None
        for _ in range(batches):
            flushed = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    record = read_record(tmp_path / "run")
    assert len(record.steps) >= flushed
    assert list(record.steps) == steps(1, len(record.steps))
    assert record.unreadable_lines == 0
    assert record.status == "killed"
    assert record.run.status == "running"


def test_a_run_whose_process_lives_is_running(tmp_path: Path) -> None:
    RecordWriter(tmp_path).start(RUN)
    assert read_record(tmp_path).status == "running"


def test_lines_are_written_at_the_64th(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path, clock=Clock())
    writer.start(RUN)
    writer.log(steps(1, 63))
    assert not read_record(tmp_path).steps
    writer.log(steps(64, 64))
    assert list(read_record(tmp_path).steps) == steps(1, 64)


def test_lines_are_written_when_a_second_has_passed(tmp_path: Path) -> None:
    clock = Clock()
    writer = RecordWriter(tmp_path, clock=clock)
    writer.start(RUN)
    clock.now += 0.9
    writer.log(steps(1, 1))
    assert not read_record(tmp_path).steps
    clock.now += 0.1
    writer.log(steps(2, 2))
    assert list(read_record(tmp_path).steps) == steps(1, 2)


def test_finish_writes_what_is_left_and_stores_the_summary(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.start(RUN)
    writer.log([*steps(1, 3), Evaluation(split="validation", time_s=1.0, loss=0.5)])
    summary = writer.finish("failed", exit_code=1, exception="ValueError: no data")
    record = read_record(tmp_path)
    assert list(record.steps) == steps(1, 3)
    assert (record.status, record.run.exit_code, record.run.exception) == ("failed", 1, "ValueError: no data")
    assert record.run.finished_at is not None
    assert record.run.summary == summary
    assert summary is not None
    assert summary.status == "failed"


def test_update_and_warn_change_the_file_at_once(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.start(RUN)
    writer.update(seed=7)
    writer.warn("float16 is slow here")
    writer.warn("float16 is slow here")
    run = read_record(tmp_path).run
    assert (run.seed, run.warnings) == (7, ("float16 is slow here",))


def test_a_directory_in_use_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RecordError, match=r"not empty \(it holds 'thesis.tex'\).*--record"):
        RecordWriter(tmp_path).start(RUN)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_holds_only_the_output_of_the_run_is_taken(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("Epoch 1/3\n")
    RecordWriter(tmp_path).start(RUN)
    assert read_record(tmp_path).run.script == "train.py"


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match=r"cannot write a run record in .*file/run'"):
        RecordWriter(tmp_path / "file" / "run").start(RUN)


def test_a_writer_writes_one_run(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.start(RUN)
    with pytest.raises(RecordError, match="started before"):
        writer.start(RUN)


def test_a_writer_that_was_not_started_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"call start\(run\) first"):
        RecordWriter(tmp_path).update(seed=1)


def test_a_full_disk_stops_the_recording_and_not_the_training(tmp_path: Path) -> None:
    # The size limit makes write() fail as a full disk does, in the middle of a line.
    with start_process(
        """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
        for n in range(1, 1001):
            writer.log([Step(step=n, time_s=n / 10, loss=1 / n)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for n in range(1001, 2001):
            writer.log([Step(step=n, time_s=n / 10, loss=1 / n)])
        print(writer.finish("finished", exit_code=0).steps, writer.problem)
        """,
        tmp_path / "run",
    ) as process:
        output, _ = process.communicate()
    record = read_record(tmp_path / "run")
    assert process.returncode == 0
    assert list(record.steps) == steps(1, len(record.steps))
    assert record.truncated
    assert record.status == "finished"
    assert output.startswith(f"{len(record.steps)} the record in")
    assert "is incomplete: File too large" in record.run.warnings[0]


def test_a_record_whose_directory_goes_away_does_not_stop_the_training(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "run")
    writer.start(RUN)
    for path in (tmp_path / "run").iterdir():
        path.unlink()
    (tmp_path / "run").rmdir()
    writer.update(seed=1)
    assert writer.finish("finished") is None
    assert writer.problem is not None


def test_a_forked_copy_of_the_writer_writes_nothing(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.start(RUN)
    writer.log(steps(1, 2))
    child = os.fork()
    if child == 0:  # as the workers of a data loader are, with the unwritten lines in their memory
        writer.log(steps(3, 200))
        writer.finish("failed", exit_code=1)
        os._exit(0)
    os.waitpid(child, 0)
    writer.log(steps(3, 4))
    assert writer.finish("finished", exit_code=0) is not None
    record = read_record(tmp_path)
    assert list(record.steps) == steps(1, 4)
    assert record.status == "finished"


def test_states_and_steps_keep_to_their_kinds(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path)
    writer.start(RUN)
    writer.log([State(time_s=1.0, step=2, host_memory_peak_bytes=1000), *steps(1, 1)])
    writer.flush()
    record = read_record(tmp_path)
    assert record.states == (State(time_s=1.0, step=2, host_memory_peak_bytes=1000),)
    assert list(record.steps) == steps(1, 1)

"""The reader takes what a dead process, or a newer mixte, has left, and refuses what it would misread."""

from __future__ import annotations

import datetime as dt
import json
import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from mixte._errors import RecordError
from mixte.records import Policy, Process, RecordWriter, Run, Step, new_run_directory, read_record

if TYPE_CHECKING:
    from pathlib import Path

RUN = Run(command=("mixte", "run", "train.py"), script="train.py", policy=Policy(name="mixed_float16"))


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record of three steps whose writer is this process."""
    writer = RecordWriter(tmp_path / "run")
    writer.start(RUN)
    writer.log(Step(step=n, time_s=float(n), loss=1 / n, metrics={"größe": 0.1}) for n in (1, 2, 3))
    writer.flush()
    return tmp_path / "run"


def change_run_file(directory: Path, **changes: object) -> None:
    path = directory / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_file_cut_off_at_any_byte_gives_the_steps_before(record: Path) -> None:
    steps_file = record / "steps.jsonl"
    data, whole = steps_file.read_bytes(), read_record(record).steps
    ends = [index + 1 for index, byte in enumerate(data) if byte == ord("\n")]
    for length in range(len(data) + 1):
        steps_file.write_bytes(data[:length])
        read = read_record(record)
        complete = sum(end <= length for end in ends)
        assert read.steps == whole[:complete]
        assert read.truncated == (length not in {0, *ends})


def test_a_damaged_line_is_left_out_and_counted(record: Path) -> None:
    steps_file = record / "steps.jsonl"
    first, _, third = steps_file.read_bytes().splitlines(keepends=True)
    steps_file.write_bytes(first + b"\x00\x00\x00\n" + third)
    read = read_record(record)
    assert [step.step for step in read.steps] == [1, 3]
    assert read.unreadable_lines == 1


def test_fields_and_kinds_of_a_newer_version_are_passed_over(record: Path) -> None:
    before = read_record(record)
    change_run_file(record, energy_joules=1.5e6)
    with (record / "steps.jsonl").open("a") as file:
        file.write('{"kind":"energy","joules":3}\n{"kind":"step","step":4,"time_s":4.0,"joules":3}\n')
    after = read_record(record)
    assert after.run == before.run
    assert after.steps == (*before.steps, Step(step=4, time_s=4.0))
    assert after.unreadable_lines == 0


def test_another_schema_version_is_refused(record: Path) -> None:
    change_run_file(record, schema_version=2, script=["not", "what", "version", "1", "has"])
    with pytest.raises(RecordError, match=r"run.json' has schema version 2; this mixte reads version 1"):
        read_record(record)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"seed": 1}', '{"schema_version": "one"}', "\ufffd"])
def test_a_file_that_is_no_record_is_refused(record: Path, content: str) -> None:
    (record / "run.json").write_text(content)
    with pytest.raises(RecordError, match="is not a run record of mixte"):
        read_record(record)


def test_a_record_with_a_field_of_the_wrong_type_is_refused(record: Path) -> None:
    change_run_file(record, policy=3)
    with pytest.raises(RecordError, match=r"run.json' is damaged: Expected `object`.*policy"):
        read_record(record)


def test_a_directory_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"no run record in .*No such file.*Give a directory"):
        read_record(tmp_path)


def test_a_record_is_found_by_its_run_file_too(record: Path) -> None:
    assert read_record(record / "run.json").steps == read_record(str(record)).steps


def test_a_run_killed_before_its_first_step_is_readable(record: Path) -> None:
    (record / "steps.jsonl").unlink()
    (record / "run.json.new").write_text("{half of the next")
    assert read_record(record).steps == ()


def test_a_running_record_of_a_process_that_has_gone_was_killed(record: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    assert read_record(record).status == "running"
    writer_of = {"host": socket.gethostname(), "process_id": process.pid, "start_mark": None}
    change_run_file(record, process=writer_of)
    assert read_record(record).status == "killed"


def test_a_process_number_given_again_is_not_taken_for_the_writer(record: Path) -> None:
    mark = {"host": socket.gethostname(), "process_id": os.getpid(), "start_mark": "another boot/1"}
    change_run_file(record, process=mark)
    assert read_record(record).status == "killed"


def test_a_running_record_from_another_machine_counts_as_killed(record: Path) -> None:
    own = read_record(record).run.process
    assert own is not None
    elsewhere: Process = msgspec.structs.replace(own, host="another.example")
    change_run_file(record, process=msgspec.to_builtins(elsewhere))
    assert read_record(record).status == "killed"


def test_a_run_directory_is_named_by_time_script_and_policy(tmp_path: Path) -> None:
    noon = dt.datetime(2026, 3, 4, 12, 0, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    directory = new_run_directory("examples/digits cnn.py", "policies/my policy.toml", noon, tmp_path / "runs")
    assert directory == tmp_path / "runs" / "20260304T100005Z-digits_cnn-my_policy"
    assert directory.is_dir()


def test_runs_that_start_in_one_second_get_directories_of_their_own(tmp_path: Path) -> None:
    now = dt.datetime(2026, 3, 4, tzinfo=dt.UTC)
    names = [new_run_directory("t.py", "float32", now, tmp_path).name for _ in range(3)]
    assert names == [f"20260304T000000Z-t-float32{suffix}" for suffix in ("", "-2", "-3")]


@pytest.mark.parametrize("script", ["../../..", "<b>.py", "日本.py", "x" * 500 + ".py", "-rf"])
def test_no_name_of_a_script_leaves_the_runs_directory(tmp_path: Path, script: str) -> None:
    directory = new_run_directory(script, script, dt.datetime(2026, 3, 4, tzinfo=dt.UTC), tmp_path)
    assert directory.parent == tmp_path
    assert directory.name.isascii()


def test_a_runs_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mixte-runs").write_text("")
    with pytest.raises(RecordError, match="cannot create a directory for this run"):
        new_run_directory("t.py", "float32", dt.datetime.now(tz=dt.UTC), tmp_path / "mixte-runs")

"""Every field of a record survives the disk, whatever its value."""

from __future__ import annotations

import datetime as dt
import functools
import tempfile
import types
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from mixte.records import (
    Evaluation,
    Policy,
    RecordWriter,
    Run,
    RunSummary,
    State,
    Step,
    Stopped,
    read_record,
)
from mixte.records._json import decode_json, encode_json

RUN = Run(command=("mixte", "run", "train.py"), script="train.py", policy=Policy(name="float32"))


def values(type_: Any) -> st.SearchStrategy[Any]:
    """A strategy for a field's type. Counts and times fit in 64 bits, the most that msgspec's JSON holds."""
    origin, arguments = typing.get_origin(type_), typing.get_args(type_)
    if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
        return structs(type_)
    if type_ is int:
        return st.integers(-(2**63), 2**63 - 1)
    if origin is dict:
        return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=2)
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin in {types.UnionType, typing.Union}:
        return st.one_of(*map(values, arguments))
    if type_ is dt.datetime:
        # UTC has no repeated hours: fold means nothing there
        return st.datetimes(timezones=st.just(dt.UTC)).map(lambda time: time.replace(fold=0))
    return st.from_type(type_)


@functools.cache
def structs(type_: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(type_, **{field.name: values(field.type) for field in msgspec.structs.fields(type_)})


@settings(max_examples=50, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("type_", [Run, RunSummary, Step, Evaluation, State, Stopped])
def test_every_field_of_a_structure_survives_encoding(type_: type[Any], data: st.DataObject) -> None:
    value = data.draw(structs(type_))
    # repr tells -0.0 from 0.0 and, unlike ==, finds NaN equal to NaN
    assert repr(decode_json(encode_json(value), type_)) == repr(value)


@settings(max_examples=25, deadline=None)
@given(lines=st.lists(st.one_of(structs(Step), structs(Evaluation), structs(State)), max_size=80))
def test_every_line_logged_is_read_back_in_order(lines: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        writer = RecordWriter(Path(directory))
        writer.start(RUN)
        writer.log(lines)
        writer.flush()
        record = read_record(directory)
    for kind, read in ((Step, record.steps), (Evaluation, record.evaluations), (State, record.states)):
        assert repr([*read]) == repr([line for line in lines if isinstance(line, kind)])


@pytest.mark.parametrize(("value", "written"), [("nan", '"nan"'), ("inf", '"inf"'), ("-inf", '"-inf"')])
def test_numbers_that_json_lacks_are_written_as_strings(value: str, written: str) -> None:
    line = encode_json(Step(step=1, time_s=0.0, loss=float(value))).decode()
    assert f'"loss":{written}' in line


def test_a_line_holds_only_what_is_known() -> None:
    assert encode_json(Step(step=1, time_s=0.5)) == b'{"kind":"step","step":1,"time_s":0.5}'


def test_scalars_of_numpy_are_written_as_numbers() -> None:
    import numpy as np

    line = decode_json(encode_json(Step(step=np.int32(3), time_s=np.float64(0.5), loss=np.float32(0.1))), Step)
    assert line == Step(step=3, time_s=0.5, loss=float(np.float32(0.1)))


def test_a_value_that_is_no_scalar_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot write a complex"):
        encode_json(Step(step=1, time_s=0.0, loss=1j))


def test_a_file_name_that_is_not_unicode_is_escaped() -> None:
    run = msgspec.structs.replace(RUN, script="caf\udce9.py")
    assert decode_json(encode_json(run), Run).script == r"caf\udce9.py"

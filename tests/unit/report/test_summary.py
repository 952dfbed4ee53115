"""The summary in the terminal: complete, within its width, and harmless whatever the names."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from rich.cells import cell_len

from mixte.records import Change, OptimizerSummary, RunSummary, Scores
from mixte.report import render_summary

SUMMARY = RunSummary(
    status="finished",
    script="examples/digits_cnn.py",
    policy="mixed_float16",
    backend="tensorflow",
    devices=("Intel(R) Xeon(R) Processor @ 2.70GHz",),
    seed=0,
    loss_scale_law="DynamicScale(initial=32768)",
    layers_by_compute_dtype={"float16": 8, "float32": 2},
    parameters=34826,
    parameters_by_variable_dtype={"float32": 34826},
    steps=500,
    duration_s=12.34,
    first_step_ns=3_210_000_000,
    steady_steps=499,
    step_time_median_ns=8_123_456.0,
    step_time_p95_ns=12_000_000.0,
    scores={
        "train": Scores(
            loss=Change(first=2.302, last=0.03121), metrics={"accuracy": Change(first=0.1, last=1.0)}
        ),
        "validation": Scores(loss=Change(first=0.5, last=0.08)),
    },
    optimizers={
        "adam": OptimizerSummary(
            loss_scale=Change(first=32768.0, last=1024.0),
            loss_scale_min=1024.0,
            loss_scale_max=32768.0,
            applied=494,
            skipped_in_calibration=5,
            skipped_later=1,
            skipped_by_cause={"inf": 6},
            skip_rate_since_calibration=1 / 495,
        )
    },
    host_memory_peak_bytes=812 * 2**20,
    exit_code=0,
    warnings=("float16 is slow on this CPU",),
)

RENDERED = """\
mixte: examples/digits_cnn.py finished in 12.3 s
  policy       mixed_float16 on tensorflow, seed 0
  devices      Intel(R) Xeon(R) Processor @ 2.70GHz
  layers       8 in float16, 2 in float32
  parameters   34,826 in float32
  steps        500
  step time    median 8.12 ms, p95 12.0 ms over 499 steps; first 3.21 s (with
               compilation)
  loss         train 2.302 -> 0.03121, validation 0.5000 -> 0.08000
  accuracy     train 0.1000 -> 1.000
  loss scale   32768 -> 1024 (range 1024 to 32768), DynamicScale(initial=32768)
  skipped      5 in calibration, 1 of 495 later (0.2%); cause: inf 6
  peak memory  host 812 MiB
  record       mixte-runs/a
warning: float16 is slow on this CPU
"""


def test_a_summary_reads_as_documented() -> None:
    assert render_summary(SUMMARY, record=Path("mixte-runs/a")) == RENDERED


def test_what_a_training_did_not_tell_prints_as_unknown() -> None:
    text = render_summary(RunSummary(status="killed", script="t.py", policy="float32", steps=3))
    assert text.splitlines()[0] == "mixte: t.py was killed"
    values = {line[2:13].strip(): line[15:] for line in text.splitlines()[1:]}
    assert (values.pop("policy"), values.pop("steps")) == ("float32, no seed given", "3")
    assert set(values) == {
        "devices",
        "layers",
        "parameters",
        "step time",
        "loss",
        "loss scale",
        "peak memory",
    }
    assert set(values.values()) == {"unknown"}


def test_a_run_that_never_trained_shows_only_what_is_known() -> None:
    failed = RunSummary(status="failed", script="t.py", policy="float32", duration_s=0.5, exit_code=2)
    assert render_summary(failed) == (
        "mixte: t.py failed after 500 ms with exit code 2\n  policy       float32, no seed given\n"
    )


def test_a_loss_that_is_not_scaled_is_said_to_be_so() -> None:
    text = render_summary(msgspec.structs.replace(SUMMARY, optimizers={"adam": OptimizerSummary(law="none")}))
    assert "  loss scale   the loss is not scaled\n" in text
    assert "skipped" not in text


def test_a_loss_that_is_only_checked_is_said_to_be_so() -> None:
    checked = OptimizerSummary(law="fixed:1", applied=9, skipped_in_calibration=0, skipped_later=0)
    text = render_summary(msgspec.structs.replace(SUMMARY, optimizers={"adam": checked}))
    assert "  loss scale   the loss is not scaled; every step is checked\n" in text
    assert "  skipped      none of 9 updates\n" in text


def test_a_scale_that_never_changed_is_named_once_with_its_law() -> None:
    fixed = OptimizerSummary(
        law="fixed:128",
        loss_scale=Change(first=128.0, last=128.0),
        loss_scale_min=128.0,
        loss_scale_max=128.0,
        applied=9,
        skipped_in_calibration=0,
        skipped_later=0,
    )
    text = render_summary(msgspec.structs.replace(SUMMARY, optimizers={"adam": fixed}))
    assert "  loss scale   128 throughout, fixed:128\n  skipped      none of 9 updates\n" in text


def test_devices_of_one_name_are_counted() -> None:
    text = render_summary(msgspec.structs.replace(SUMMARY, devices=("Tesla T4", "Tesla T4", "Tesla V100")))
    assert "  devices      2 x Tesla T4, Tesla V100\n" in text


def test_device_memory_is_shown_where_there_is_some() -> None:
    text = render_summary(msgspec.structs.replace(SUMMARY, device_memory_peak_bytes=2**31))
    assert "  peak memory  host 812 MiB, device 2.00 GiB\n" in text


def test_a_failed_run_names_its_exception() -> None:
    failed = msgspec.structs.replace(SUMMARY, status="failed", exit_code=1, exception="ValueError: no\ndata")
    assert render_summary(failed).startswith(
        "mixte: examples/digits_cnn.py failed after 12.3 s: ValueError: no data\n"
    )


def test_an_exit_code_without_an_exception_is_named() -> None:
    failed = msgspec.structs.replace(SUMMARY, status="failed", exit_code=3)
    assert "failed after 12.3 s with exit code 3\n" in render_summary(failed)


def test_calibration_skips_alone_are_said_to_be_normal() -> None:
    calm = OptimizerSummary(applied=95, skipped_in_calibration=5, skipped_later=0, skipped_by_cause={"inf": 5})
    text = render_summary(msgspec.structs.replace(SUMMARY, optimizers={"adam": calm}))
    assert "5 in calibration (normal), 0 of 95 later; cause: inf 5" in text


def test_updates_of_which_none_was_applied_are_not_called_normal() -> None:
    nothing = OptimizerSummary(
        applied=0, skipped_in_calibration=4, skipped_later=0, skipped_by_cause={"nan": 4}
    )
    text = render_summary(msgspec.structs.replace(SUMMARY, optimizers={"adam": nothing}))
    assert "  skipped      all 4 updates; cause: nan 4\n" in text


def test_several_optimizers_are_told_apart() -> None:
    both = {name: OptimizerSummary(applied=9, skipped_in_calibration=0, skipped_later=0) for name in "gd"}
    text = render_summary(msgspec.structs.replace(SUMMARY, optimizers=both))
    assert "skipped      g: none of 9 updates" in text
    assert "skipped      d: none of 9 updates" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<b>", "<b>"),
        ("[red]x[/red]", "[red]x[/red]"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines", r"two\nlines"),
        ("größe", r"gr\xf6\xdfe"),
    ],
)
def test_odd_names_are_shown_and_not_obeyed(name: str, shown: str) -> None:
    odd = {"train": Scores(metrics={name: Change(first=1.0, last=2.0)})}
    text = render_summary(msgspec.structs.replace(SUMMARY, scores=odd), encoding="ascii")
    assert f"  {shown:<12} train 1.000 -> 2.000\n" in text


@settings(deadline=None)  # a busy machine is no failure
@given(
    width=st.integers(40, 120),
    encoding=st.sampled_from(["ascii", "latin-1", "utf-8"]),
    name=st.text(st.characters(codec="utf-8"), max_size=100),
)
def test_no_line_is_wider_than_the_terminal(width: int, encoding: str, name: str) -> None:
    scores = {name: Scores(loss=Change(first=1.0, last=2.0), metrics={name: Change(first=1.0, last=2.0)})}
    summary = msgspec.structs.replace(
        SUMMARY, script=name, policy=name, scores=scores, warnings=(name, "x" * 300), devices=(name,) * 9
    )
    text = render_summary(summary, width, encoding=encoding)
    assert text.encode(encoding).decode(encoding) == text
    assert max(cell_len(line) for line in text.splitlines()) <= width


def test_the_projects_own_words_are_ascii() -> None:
    assert render_summary(SUMMARY).isascii()

"""``mixte run``: run a training script, unchanged, under a precision policy, and record the run."""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.util
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixte._errors import MissingFrameworkError, MixteWarning
from mixte.cli._import_hook import after_import
from mixte.cli._script import Outcome, check_script, run_script

if TYPE_CHECKING:
    from mixte.keras._recorder import Recorder
    from mixte.policy import Policy
    from mixte.records import RecordWriter
    from mixte.scaling import LossScaleLaw

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "mixte run [options] script.py [arguments of the script]"
    parser.add_argument(
        "--policy",
        metavar="P",
        help="float32, mixed_float16, mixed_bfloat16, bfloat16, float16, auto (by what the device can do), or the "
        "path of a policy.toml. By default the script's own precision.",
    )
    parser.add_argument(
        "--backend", choices=tuple(BACKENDS), help="the backend of Keras; by default the script's own"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="seed for Python, numpy and the backend")
    parser.add_argument(
        "--loss-scale",
        metavar="LAW",
        help="dynamic, fixed:128, none, torch, dynamic:initial=1024,growth_interval=500 ...; by default dynamic "
        "where gradients flow through float16",
    )
    parser.add_argument(
        "--record", metavar="DIR", help="directory of the run's record (default: under mixte-runs/)"
    )
    parser.add_argument("--quiet", action="store_true", help="print no summary at the end")
    # PARSER, not REMAINDER: everything after the script is the script's, a `--` included.
    parser.add_argument("script", nargs=argparse.PARSER, help="the training script and its own arguments")


def run(arguments: argparse.Namespace) -> int:
    """Run the script; return its exit code."""
    script, *script_arguments = arguments.script
    check_script(script)
    policy = _policy(arguments.policy)
    law = _law(arguments.loss_scale)
    _choose_backend(arguments.backend)
    writer = _start_record(arguments, script, script_arguments, policy, law)
    _show_warnings(writer)
    if policy is not None:
        if policy.reason:
            _say(policy.reason)
        _warn_of_slow_precisions(policy)
    recorders: list[Recorder] = []
    after_import("keras", lambda: recorders.append(_begin(policy, law, arguments.seed, writer)))
    outcome = run_script(script, script_arguments)
    _flush_output()
    _finish(arguments, writer, recorders, outcome)
    return outcome.exit_code


def _policy(text: str | None) -> Policy | None:
    if text is None:
        return None
    from mixte.devices import recommend_precision
    from mixte.policy import load_policy

    return load_policy(text, recommendation=recommend_precision)


def _law(text: str | None) -> LossScaleLaw | None:
    if text is None:
        return None
    from mixte.scaling import parse_law

    return parse_law(text)


def _choose_backend(backend: str | None) -> None:
    if backend is None:
        return
    if importlib.util.find_spec(backend) is None:
        raise MissingFrameworkError.for_extra(BACKENDS[backend], backend)
    os.environ["KERAS_BACKEND"] = backend


def _begin(policy: Policy | None, law: LossScaleLaw | None, seed: int | None, writer: RecordWriter) -> Recorder:
    from mixte.keras._session import Settings, begin

    return begin(Settings(policy=policy, law=law, seed=seed), writer)


def _start_record(
    arguments: argparse.Namespace,
    script: str,
    script_arguments: list[str],
    policy: Policy | None,
    law: LossScaleLaw | None,
) -> RecordWriter:
    from mixte.records import Policy as PolicyEntry, RecordWriter, Run, new_run_directory
    from mixte.scaling import format_law

    name = "script" if policy is None else policy.name
    started = dt.datetime.now(tz=dt.UTC)
    directory = Path(arguments.record) if arguments.record else new_run_directory(script, name, started)
    writer = RecordWriter(directory)
    writer.start(
        Run(
            command=("mixte", *sys.argv[1:]),
            script=script,
            arguments=tuple(script_arguments),
            policy=PolicyEntry(
                name=name,
                reason=None if policy is None else policy.reason or None,
                text=None if policy is None else _spelled_out(policy),
            ),
            loss_scale=None if law is None else format_law(law),
            seed=arguments.seed,
        )
    )
    return writer


def _spelled_out(policy: Policy) -> str | None:
    from mixte.policy import format_policy

    return format_policy(policy)


def _show_warnings(writer: RecordWriter) -> None:
    """Print our own warnings in one line when they come up, and record them; leave all others as they are."""
    original = warnings.showwarning

    def show(message: Any, category: Any, *rest: Any, **named: Any) -> None:
        if issubclass(category, MixteWarning):
            writer.warn(str(message))
            _say(f"warning: {message}")
        else:
            original(message, category, *rest, **named)

    warnings.showwarning = show
    warnings.simplefilter("default", MixteWarning)


def _warn_of_slow_precisions(policy: Policy) -> None:
    """Say beforehand if this machine computes slowly, or not at all, in what the policy asks for."""
    from mixte.devices import Verdict, inspect_machine, judge

    dtype = policy.default.compute_dtype
    if dtype not in ("float16", "bfloat16"):
        return
    machine = inspect_machine()
    devices = [gpu.device for gpu in machine.visible_gpus] or [machine.cpu]
    for device in devices:
        for capability in judge(device):
            if capability.subject == f"mixed_{dtype}" and capability.verdict in (
                Verdict.SLOW,
                Verdict.IMPOSSIBLE,
            ):
                advice = f" {capability.advice}" if capability.advice else ""
                warnings.warn(f"{device.name}: {capability.reason}.{advice}", MixteWarning, stacklevel=2)


def _finish(
    arguments: argparse.Namespace, writer: RecordWriter, recorders: list[Recorder], outcome: Outcome
) -> None:
    if recorders:
        recorders[0].close()
    elif outcome.status == "finished":
        writer.warn(
            "the script never imported Keras: there was nothing to apply a policy to, and nothing to record."
        )
    summary = writer.finish(outcome.status, exit_code=outcome.exit_code, exception=outcome.exception)
    if summary is None or arguments.quiet:
        return
    from mixte.report import render_summary

    width = min(shutil.get_terminal_size().columns, 100)
    encoding = sys.stderr.encoding or "ascii"
    print(render_summary(summary, width, encoding=encoding, record=writer.directory), file=sys.stderr)


def _flush_output() -> None:
    """Write out what the script printed, before we print about it."""
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError):  # its reader has gone, or the script closed it: not our affair
        return


def _say(text: str) -> None:
    print(f"mixte: {text}", file=sys.stderr, flush=True)

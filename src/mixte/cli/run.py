"""``mixte run``: run a training script, unchanged, under a precision policy, and record the run."""

from __future__ import annotations

import argparse
import atexit
import datetime as dt
import importlib.util
import os
import shutil
import signal
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mixte._errors import MissingFrameworkError, MixteWarning
from mixte.cli._emulate import (
    EmulationOptions,
    add_emulation_arguments,
    announcement,
    check_format,
    emulated_policy,
    emulation_options,
)
from mixte.cli._import_hook import around_import
from mixte.cli._messages import Messages
from mixte.cli._profile import add_profile_argument, judge_profile, profile_window
from mixte.cli._script import Outcome, check_script, run_script
from mixte.cli._seeding import check_seed, seed_everything
from mixte.cli._stopping import add_stopping_argument, as_stopped, check_stopping
from mixte.cli._warnings import lead_warnings

if TYPE_CHECKING:
    from mixte.keras._recorder import Recorder
    from mixte.policy import Policy
    from mixte.records import RecordWriter, StepRange
    from mixte.scaling import LossScaleLaw

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "mixte run [options] script.py [arguments of the script]"
    parser.description = (
        "Run a training script, unchanged, under a precision policy, and record the run. The script's output, "
        "files, exceptions and exit code stay as they are; the summary goes to standard error."
    )
    parser.epilog = (
        "Exit codes: the script's own; 2 for bad input, found before the script runs; 3 for a training that was "
        "stopped because its numbers were not finite (see --stop-after-skips)."
    )
    parser.add_argument(
        "--policy",
        metavar="P",
        help="float32, mixed_float16, mixed_bfloat16, bfloat16, float16, auto (by what the device can do), or the "
        "path of a policy.toml. By default the script's own precision.",
    )
    parser.add_argument(
        "--backend", choices=tuple(BACKENDS), help="the backend of Keras; by default the script's own"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="seed for Python, numpy and the backend; wins over the script's own",
    )
    parser.add_argument(
        "--loss-scale",
        metavar="LAW",
        help="dynamic, fixed:128, none, torch, dynamic:initial=1024,growth_interval=500 ...; by default dynamic "
        "where gradients flow through float16",
    )
    add_stopping_argument(parser)
    add_emulation_arguments(parser)
    add_profile_argument(parser)
    parser.add_argument(
        "--record", metavar="DIR", help="directory of the run's record (default: a new one in mixte-runs)"
    )
    parser.add_argument("--quiet", action="store_true", help="print no summary at the end")
    # PARSER, not REMAINDER: everything after the script is the script's, a `--` included.
    parser.add_argument(
        "script", nargs=argparse.PARSER, metavar="script.py", help="the training script, then its own arguments"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What the command line asks for, checked."""

    script: str
    arguments: tuple[str, ...]
    policy: Policy | None
    law: LossScaleLaw | None
    backend: str | None
    seed: int | None
    record: str | None
    quiet: bool
    emulation: EmulationOptions | None
    stop_after_skips: int | None
    window: StepRange | None


def run(arguments: argparse.Namespace) -> int:
    """Run the script; return its exit code."""
    options = _checked(arguments)
    started_s = time.perf_counter()
    messages = Messages()
    place, writer = _start_record(options)
    ending = _Ending()
    lead_warnings(writer, messages)
    if options.policy is not None:
        _announce(options.policy, messages, emulated=options.emulation is not None)
    for line in announcement(options.emulation) if options.emulation else ():
        messages.say(line)
    if options.seed is not None:
        seed_everything(options.seed)
    recorders: list[Recorder] = []
    around_import(
        "keras",
        before=lambda: _enforce_backend(options.backend),
        after=lambda: recorders.append(_begin(options, writer, started_s)),
    )
    outcome = run_script(
        options.script,
        options.arguments,
        stopped=lambda: any(recorder.guard.interrupted for recorder in recorders),
    )
    _flush_output()
    outcome = _close(writer, recorders, outcome, messages)
    ending.interrupted = outcome.status == "interrupted"
    if outcome.missing_module is not None:
        _help_to_install(outcome.missing_module, messages)
    _finish(options, writer, recorders, outcome, messages=messages, place=place)
    return outcome.exit_code


def _checked(arguments: argparse.Namespace) -> _Options:
    """Check everything that can be checked before anything is written or run."""
    words: list[str] = arguments.script
    script, *rest = words[1:] if words[0] == "--" and len(words) > 1 else words
    check_script(script)
    check_seed(arguments.seed)
    window = profile_window(arguments.profile)
    _choose_backend(arguments.backend)
    emulation = emulation_options(arguments)
    policy = _policy(arguments.policy)
    check_format(policy, emulation)
    return _Options(
        script=script,
        arguments=tuple(rest),
        policy=policy,
        law=_law(arguments.loss_scale),
        backend=arguments.backend,
        seed=arguments.seed,
        record=arguments.record,
        quiet=arguments.quiet,
        emulation=emulation,
        stop_after_skips=check_stopping(arguments.stop_after_skips),
        window=window,
    )


def _policy(text: str | None) -> Policy | None:
    if text is None:
        return None
    from mixte.devices import recommend_precision

    return emulated_policy(text, recommend_precision)


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


def _enforce_backend(backend: str | None) -> None:
    """Let the command line's backend win over one that the script has set in the meantime."""
    chosen = os.environ.get("KERAS_BACKEND")
    if backend is not None and chosen != backend:
        os.environ["KERAS_BACKEND"] = backend
        _warn(f"the script asks for the backend {chosen!r}; the command line's, {backend!r}, is used instead.")


def _announce(policy: Policy, messages: Messages, *, emulated: bool) -> None:
    """Say why this policy, where we chose it, and what it costs on this machine."""
    from mixte.cli._slow_precisions import slow_precisions

    if policy.reason:
        messages.say(policy.reason)
    for text in () if emulated else slow_precisions(policy):
        _warn(text)


def _begin(options: _Options, writer: RecordWriter, started_s: float) -> Recorder:
    from mixte.keras._session import Settings, begin
    from mixte.scaling import StopRule

    emulation = None
    if options.emulation is not None:
        from mixte.keras import Emulation

        emulation = Emulation(
            arch=options.emulation.arch, exact=options.emulation.exact, float8=options.emulation.float8
        )
    settings = Settings(
        policy=options.policy,
        law=options.law,
        seed=options.seed,
        emulation=emulation,
        profile=options.window,
        stop_rule=StopRule() if options.stop_after_skips is None else StopRule(after=options.stop_after_skips),
    )
    return begin(settings, writer, started_s=started_s)


def _start_record(options: _Options) -> tuple[Path, RecordWriter]:
    """Start the record; return its directory as it is to be shown, and its writer."""
    from mixte.records import Policy as PolicyEntry, RecordWriter, Run, new_run_directory

    policy = options.policy
    name = "script" if policy is None else policy.name
    started = dt.datetime.now(tz=dt.UTC)
    place = Path(options.record) if options.record else new_run_directory(options.script, name, started)
    writer = RecordWriter(place.absolute())  # the script may change the working directory
    writer.start(
        Run(
            command=("mixte", *sys.argv[1:]),
            script=options.script,
            arguments=options.arguments,
            policy=PolicyEntry(
                name=name,
                reason=None if policy is None else policy.reason or None,
                text=None if policy is None else _policy_text(policy),
            ),
            loss_scale=None if options.law is None else _law_text(options.law),
            seed=options.seed,
        )
    )
    return place, writer


def _policy_text(policy: Policy) -> str:
    from mixte.policy import format_policy

    return format_policy(policy)


def _law_text(law: LossScaleLaw) -> str:
    from mixte.scaling import format_law

    return format_law(law)


def _warn(text: str) -> None:
    warnings.warn(text, MixteWarning, stacklevel=2)


class _Ending:
    """Ends an interrupted process as Python does: by the signal itself, which a shell's loop stops at.

    Registered before the script runs, so that it comes after everything that the script has registered.
    """

    def __init__(self) -> None:
        self.interrupted = False
        atexit.register(self._end)

    def _end(self) -> None:
        if self.interrupted and os.name == "posix":
            for stream in (sys.stdout, sys.stderr):
                _flush(stream)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)


def _help_to_install(module: str, messages: Messages) -> None:
    """Say how to get a framework that the script could not import."""
    name = module.partition(".")[0]
    if name == "keras":
        messages.say("Keras comes with every backend: pip install 'mixte[tensorflow]' (or [jax], [torch]).")
    elif name in BACKENDS:
        others = [other for other in BACKENDS if other != name and importlib.util.find_spec(other) is not None]
        instead = f", or run on an installed backend: --backend {' or '.join(others)}" if others else ""
        messages.say(f"{MissingFrameworkError.for_extra(BACKENDS[name], name)}{instead}.")


def _close(writer: RecordWriter, recorders: list[Recorder], outcome: Outcome, messages: Messages) -> Outcome:
    """Record the last steps; return how the run ended, in the light of them."""
    if outcome.status == "interrupted":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not cost the end of the record
    if recorders:
        recorders[0].close()
        return as_stopped(outcome, recorders[0], writer, messages)
    if outcome.status == "finished":
        writer.warn(
            "the script never imported Keras: there was nothing to apply a policy to, and nothing to record."
        )
    return outcome


def _finish(
    options: _Options,
    writer: RecordWriter,
    recorders: list[Recorder],
    outcome: Outcome,
    *,
    messages: Messages,
    place: Path,
) -> None:
    if options.window is not None:
        judge_profile(options.window, writer, recorders, finished=outcome.status == "finished")
    summary = writer.finish(outcome.status, exit_code=outcome.exit_code, exception=outcome.exception)
    if writer.problem is not None:
        messages.say(f"warning: {writer.problem}")
    if summary is None or options.quiet:
        return
    from mixte.report import render_summary

    width = min(shutil.get_terminal_size().columns, 100)
    messages.write(render_summary(summary, width, encoding=messages.encoding, record=place))


def _flush_output() -> None:
    """Write out what the script printed, before we print about it."""
    _flush(sys.stdout)


def _flush(stream: Any) -> None:
    try:
        stream.flush()
    except (
        AttributeError,
        OSError,
        ValueError,
    ):  # None, its reader gone, or closed by the script: not our affair
        return

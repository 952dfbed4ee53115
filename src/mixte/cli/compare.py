"""``mixte compare``: run a script under several policies, in pairs, and compare what came of it."""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import signal
import sys
from contextlib import contextmanager
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mixte._errors import InputError, MissingFrameworkError

if TYPE_CHECKING:
    from collections.abc import Generator

    from mixte.compare import Comparison

_BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options and arguments."""
    parser.usage = "mixte compare [options] script.py [arguments of the script]"
    parser.description = (
        "Run a training script, unchanged, under several precision policies and compare the results: each run "
        "is a process of its own, runs of the same seed are paired, and the order alternates."
    )
    parser.epilog = "Exit codes: 0 compared, 1 a run failed, 2 bad input, 130 interrupted."
    _add_options(parser)
    # One positional for the script and all that follows: with two, argparse would drop a "--" between them.
    parser.add_argument(
        "script", nargs=argparse.PARSER, metavar="script.py", help="the training script, then its own arguments"
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--policies",
        metavar="A,B[,...]",
        default="float32,mixed_float16",
        help="presets or policy files; the first is what the others are compared with (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds", metavar="N", type=int, default=1, help="number of pairs, with seeds 0 to N-1 (default: 1)"
    )
    parser.add_argument("--backend", metavar="B", help="tensorflow, jax or torch, for all runs")
    parser.add_argument("--loss-scale", metavar="LAW", help="the loss-scaling law, for all runs")
    parser.add_argument(
        "--record",
        metavar="DIR",
        type=Path,
        help="where the records go: a new or empty directory (default: a new one in mixte-runs)",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the comparison there too; '-' prints it in place of the table"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the comparison and print it.

    Returns:
        0 if all runs finished, 1 if one failed, 130 if the user interrupted.
    """
    from mixte.cli._compare_progress import Progress
    from mixte.compare import LocalRunner, Request, run_comparison

    script, arguments = _split_script(arguments)
    request = Request(
        script=script,
        arguments=tuple(arguments.rest),
        policies=_policies(arguments.policies),
        seeds=tuple(range(_at_least_one(arguments.seeds))),
        options=_pass_through(arguments),
    )
    _check_script(script)
    _check_json(arguments.json)
    directory = _directory(arguments.record, script)
    runner = LocalRunner(script=script, arguments=request.arguments, options=request.options)
    progress = Progress()
    with _termination_as_interrupt():
        comparison, interrupted = run_comparison(request, runner, directory, progress)
    progress.close()
    _show(comparison, directory, arguments.json)
    if interrupted:
        print("mixte compare: interrupted; the table shows what was done", file=sys.stderr)
        return 130
    return 1 if any(entry.problem is not None for entry in comparison.runs) else 0


def _split_script(arguments: argparse.Namespace) -> tuple[str, argparse.Namespace]:
    """Return the script, and the options with the script's own arguments as ``rest``.

    What stands after the script is the script's. Only where it begins with ``--policies`` or ``--seeds``, names
    that no training script is likely to have, it is read as options of this command; ``--`` keeps it the
    script's.
    """
    words: list[str] = arguments.script
    script, *rest = words[1:] if words[0] == "--" and len(words) > 1 else words
    if rest[:1] == ["--"]:
        rest = rest[1:]
    elif rest and rest[0].partition("=")[0] in {"--policies", "--seeds"}:
        parser = argparse.ArgumentParser(prog="mixte compare", usage=argparse.SUPPRESS, add_help=False)
        _add_options(parser)
        parser.add_argument("rest", nargs=argparse.REMAINDER)
        return script, parser.parse_args(rest, argparse.Namespace(**vars(arguments)))
    return script, argparse.Namespace(**vars(arguments), rest=rest)


def _policies(text: str) -> tuple[str, ...]:
    from mixte.policy import load_policy

    policies = tuple(part.strip() for part in text.split(",") if part.strip())
    if len(policies) < 2:
        raise InputError(
            f"--policies {text!r} names {len(policies) or 'no'} policy, and a comparison needs at least two, "
            "separated by commas: --policies float32,mixed_float16"
        )
    for policy in policies:
        if policies.count(policy) > 1:
            raise InputError(f"--policies names {policy!r} twice; name each policy once")
        # Only to see that it exists and is right: what "auto" stands for is decided in the run itself.
        load_policy(policy, recommendation=("float32", "decided in the run"))
    return policies


def _at_least_one(seeds: int) -> int:
    if seeds < 1:
        raise InputError(f"--seeds {seeds} gives no run; give 1 or more (5 give an interval worth reading)")
    return seeds


def _pass_through(arguments: argparse.Namespace) -> tuple[str, ...]:
    options: list[str] = []
    if arguments.backend is not None:
        _check_backend(arguments.backend)
        options += ["--backend", arguments.backend]
    if arguments.loss_scale is not None:
        from mixte.scaling import parse_law

        parse_law(arguments.loss_scale)  # refuse a wrong one before the first run
        options += ["--loss-scale", arguments.loss_scale]
    return tuple(options)


def _check_backend(backend: str) -> None:
    if backend not in _BACKENDS:
        near = get_close_matches(backend, _BACKENDS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise InputError(f"--backend {backend!r} is unknown.{hint} The backends are {', '.join(_BACKENDS)}.")
    if find_spec(backend) is None:
        raise MissingFrameworkError.for_extra(_BACKENDS[backend], backend)


def _check_script(script: str) -> None:
    path = Path(script)
    if path.is_dir():
        raise InputError(f"'{script}' is a directory; give the training script in it")
    if not path.is_file():
        raise InputError(f"there is no script '{script}'; the options of mixte stand before it")


def _check_json(target: str | None) -> None:
    if target is None or target == "-":
        return
    path = Path(target)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--json '{target}' cannot be written: it is a directory or its directory is missing")


def _directory(wanted: Path | None, script: str) -> Path:
    from mixte.records import new_run_directory

    if wanted is None:
        return new_run_directory(script, "compare", dt.datetime.now(tz=dt.UTC))
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        occupied = any(wanted.iterdir())
    except OSError as error:
        raise InputError(f"--record '{wanted}' cannot be used: {error.strerror}") from error
    if occupied:
        raise InputError(f"--record '{wanted}' is not empty; give a new or an empty directory")
    return wanted


@contextmanager
def _termination_as_interrupt() -> Generator[None]:
    """Treat a termination (``timeout``, a scheduler) and a closed terminal as Ctrl-C: no run is left behind."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _show(comparison: Comparison, directory: Path, json: str | None) -> None:
    from mixte.compare import write_comparison
    from mixte.records import encode_json, indent_json
    from mixte.report import render_comparison

    if json == "-":
        sys.stdout.write(indent_json(encode_json(comparison)).decode())
        return
    if json is not None:
        write_comparison(comparison, Path(json))
    width = shutil.get_terminal_size((80, 24)).columns
    encoding = sys.stdout.encoding or "ascii"
    print(render_comparison(comparison, width, encoding=encoding, place=str(directory)), end="")

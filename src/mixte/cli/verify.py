"""``mixte verify``: did Tensor Cores do the work? From any profile, without a GPU."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
from typing import TYPE_CHECKING

from mixte._errors import InputError, ProfileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mixte.profiles._verdict import ProfileVerdict

BELOW_REQUIRED = 3
"""Exit code when the Tensor Cores' share is below the one required."""

_GROUPINGS = ("op", "kernel", "stream", "rank", "layer", "device")

_EPILOG = """\
formats: nvprof text, CSV, metrics and .nvvp; Nsight Systems sqlite and stats;
Nsight Compute CSV and text; PyTorch Kineto traces and key_averages tables;
TensorFlow and JAX .xplane.pb and trace.json.gz; DLProf; rocprofv3 JSON and
pmc_perf.csv. A file is recognised by its content. A directory stands for the
profiles in it.

exit codes: 0 done, 2 bad input, 3 below --require.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options and arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EPILOG
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="a profile, a directory or a glob; two are compared"
    )
    parser.add_argument("--kernels", action="store_true", help="list the kernels, the heaviest first")
    parser.add_argument(
        "--by", choices=_GROUPINGS, help="share out by op, kernel, stream, rank, layer or device"
    )
    parser.add_argument(
        "--top", type=_count, default=20, metavar="N", help="rows of --kernels and --by (default 20, 0 for all)"
    )
    parser.add_argument(
        "--steps", type=_steps, metavar="A:B", help="only the steps from A up to, not including, B"
    )
    parser.add_argument(
        "--require",
        type=_percent,
        metavar="P%",
        help="fail (exit code 3) if less of the time is on Tensor Cores",
    )
    parser.add_argument("--json", action="store_true", help="write everything as JSON (docs/verify-json.md)")
    parser.add_argument(
        "--explain",
        nargs="+",
        metavar="NAME",
        help="say what kernel names mean, one a line; - reads standard input",
    )


def run(arguments: argparse.Namespace) -> int:
    """Do the work and return the exit code."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        stdout.reconfigure(errors="backslashreplace")  # a kernel name must not break an ASCII terminal
    if arguments.explain:
        return _explain(arguments)
    if not arguments.files:
        raise InputError(
            "no profile given. Name a file, a directory or a glob; `mixte verify --help` lists formats."
        )
    verdicts = _judge(arguments.files, arguments.steps)
    if arguments.by and len({verdict.profile.weight for verdict in verdicts}) > 1:
        raise InputError("--by cannot add up files with times and files with launches only: name fewer files.")
    if arguments.json:
        _write_json(verdicts, arguments.by)
    else:
        _write_text(verdicts, arguments)
    return _check(verdicts, arguments.require)


def _explain(arguments: argparse.Namespace) -> int:
    from mixte.profiles._rules import classify

    names: Iterable[str] = arguments.explain
    if arguments.files or (len(arguments.explain) > 1 and "-" in arguments.explain):
        raise InputError(
            "--explain takes kernel names, or a single - to read them from standard input, and no FILE."
        )
    if arguments.explain == ["-"]:
        names = (line.decode("utf-8", "replace").rstrip("\r\n") for line in sys.stdin.buffer)
    for name in names:
        found = classify(name)
        print(f"{found.verdict.value}\t{found.reason}\t{name}")
    return 0


def _judge(files: Sequence[str], steps: tuple[int, int] | None) -> list[ProfileVerdict]:
    from mixte.cli._verify_progress import Progress
    from mixte.profiles import read_profile
    from mixte.profiles._find import find_profiles
    from mixte.profiles._verdict import judge

    found = find_profiles(files)
    verdicts: list[ProfileVerdict] = []
    for path in found.paths:
        try:
            with Progress(path) as progress:
                profile = read_profile(path, progress=progress.report)
            verdicts.append(judge(profile, steps=steps))
        except ProfileError as error:
            # One bad file among those of a directory must not hide the others; a file asked for by name must.
            if path in found.named:
                raise
            print(f"mixte verify: skipped: {error}", file=sys.stderr)
    if found.skipped:
        print(f"mixte verify: {found.skipped} other files in the directory are no profiles.", file=sys.stderr)
    if not verdicts:
        raise InputError(f"no readable profile in {', '.join(files)}.")
    return verdicts


def _write_json(verdicts: Sequence[ProfileVerdict], by: str | None) -> None:
    from mixte.profiles._document import document
    from mixte.profiles._verdict import group

    groups = (by, group(verdicts, by)) if by in _GROUPINGS else None
    json.dump(document(verdicts, groups=groups), sys.stdout, indent=1, allow_nan=False)
    print()


def _write_text(verdicts: Sequence[ProfileVerdict], arguments: argparse.Namespace) -> None:
    from mixte.cli._verify_tables import group_table, kernel_table
    from mixte.cli._verify_text import comparison, overview, summary
    from mixte.profiles._verdict import group

    match len(verdicts):
        case 1:
            print(summary(verdicts[0]))
        case 2:
            print(comparison(verdicts[0], verdicts[1]))
        case _:
            print(overview(verdicts))
    if arguments.by:
        weight = verdicts[0].profile.weight
        if any(verdict.profile.weight is not weight for verdict in verdicts):
            raise InputError(
                "--by cannot add up files with times and files with launches only: name fewer files."
            )
        print(group_table(arguments.by, group(verdicts, arguments.by), weight, top=arguments.top))
    if arguments.kernels:
        for verdict in verdicts:
            print(kernel_table(verdict, top=arguments.top, titled=len(verdicts) > 1))


def _check(verdicts: Sequence[ProfileVerdict], required: float | None) -> int:
    if required is None:
        return 0
    code = 0
    for verdict in verdicts:
        share = verdict.shares.tensor_core if verdict.shares is not None else None
        if share is None or share < required:
            has = "no kernels" if share is None else f"{share:.1%} of the time on Tensor Cores"
            path = verdict.profile.path
            print(f"mixte verify: {path}: {has}, required {required:.1%}", file=sys.stderr)
            code = BELOW_REQUIRED
    return code


def _percent(text: str) -> float:
    number = text.strip().removesuffix("%").strip()
    with contextlib.suppress(ValueError):
        value = float(number)
        if 0 < value <= 100 and (text.strip().endswith("%") or value > 1):
            return value / 100
    raise argparse.ArgumentTypeError(f"'{text}' is not a percentage above 0 and up to 100; write it as 60%")


def _steps(text: str) -> tuple[int, int]:
    first, colon, end = text.partition(":")
    with contextlib.suppress(ValueError):
        if colon and 0 <= int(first) < int(end):
            return int(first), int(end)
    raise argparse.ArgumentTypeError(
        f"'{text}' is not a range of steps; write 10:20 for the ten steps from 10 up to, not including, 20"
    )


def _count(text: str) -> int:
    with contextlib.suppress(ValueError):
        if int(text) >= 0:
            return int(text)
    raise argparse.ArgumentTypeError(f"'{text}' is not a number of rows; write 20, or 0 for all")

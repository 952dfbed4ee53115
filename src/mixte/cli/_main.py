"""Find the command, build its parser, run it, and turn errors into one paragraph and an exit code.

A command is a module with ``SUMMARY`` (one line), ``add_arguments(parser)`` and ``run(arguments) -> int``.
Exit codes: 0 done, 2 bad input, 130 interrupted; a command documents any other.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, cast

from mixte._errors import MixteError
from mixte._version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

# Command -> one line for `mixte --help`. The module is mixte.cli.<command>. Kept as data so that
# `mixte --help` and `mixte verify` import nothing that they do not use.
COMMANDS = {
    "run": "run a training script, unchanged, under a precision policy",
    "compare": "run a script under several policies and compare the results",
    "verify": "check in a profile whether Tensor Cores did the work, and why not",
    "doctor": "what this machine can do, and in which precisions",
    "formats": "range and precision of the number formats; what a number becomes",
}


class Command(Protocol):
    """What the module of a command provides."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options and arguments of the command."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do the work and return the exit code."""
        ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        argv: The arguments without the program's name; ``sys.argv[1:]`` if None.

    Returns:
        The exit code.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(_overview())
        return 0
    if arguments[0] in {"-V", "--version"}:
        print(f"mixte {__version__}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        print(_unknown_command(name), file=sys.stderr)
        return 2
    command = cast("Command", importlib.import_module(f"mixte.cli.{name}"))
    parser = argparse.ArgumentParser(prog=f"mixte {name}", description=_sentence(COMMANDS[name]))
    command.add_arguments(parser)
    try:
        return command.run(parser.parse_args(rest))
    except MixteError as error:
        print(f"mixte {name}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"mixte {name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone (`mixte ... | head`): end as any Unix filter does. Python would
        # otherwise complain once more while it flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _overview() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [
        "usage: mixte COMMAND [options]",
        "",
        "Mixed-precision training that can be trusted.",
        "",
        "commands:",
        *(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()),
        "",
        "`mixte COMMAND --help` shows the options of a command.",
    ]
    return "\n".join(lines)


def _unknown_command(name: str) -> str:
    near = get_close_matches(name, COMMANDS, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"mixte: error: unknown command '{name}'.{hint} The commands are: {', '.join(COMMANDS)}."

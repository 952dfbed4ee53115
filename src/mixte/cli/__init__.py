"""The command line: one file per command, imported only when that command runs."""

from mixte.cli._main import main as main

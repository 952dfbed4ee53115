"""Which profiles a user means by files, directories and globs."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mixte._errors import InputError, ProfileError
from mixte.profiles._recognise import recognise

if TYPE_CHECKING:
    from collections.abc import Sequence

_XPLANE = ".xplane.pb"
_CAPPED = ".trace.json.gz"
_BINARY_REPORTS = frozenset({".nsys-rep", ".qdrep", ".ncu-rep"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProfiles:
    """What a list of arguments stands for.

    Attributes:
        paths: The profiles, in the order of the arguments, those of a directory by name; each once.
        named: Those that an argument names itself, so that an error in one must be reported.
        skipped: Files in directories that are no profiles.
    """

    paths: tuple[Path, ...]
    named: frozenset[Path]
    skipped: int


def find_profiles(arguments: Sequence[str]) -> FoundProfiles:
    """Find the profiles that command-line arguments stand for.

    Args:
        arguments: Files, directories (searched with all below them) and globs, ``**`` included.

    Raises:
        InputError: An argument is no file, no directory and matches nothing, or a directory holds no profile.
    """
    paths: dict[Path, bool] = {}
    skipped = 0
    for argument in arguments:
        for path in _matches(argument):
            if path.is_dir():
                inside, others = _profiles_in(path)
                if not inside:
                    raise InputError(f"no profile in the directory {path} ({others} files looked at).")
                paths |= {one: paths.get(one, False) for one in inside}
                skipped += others
            else:
                paths[path] = True
    named = frozenset(path for path, is_named in paths.items() if is_named)
    return FoundProfiles(paths=tuple(paths), named=named, skipped=skipped)


def _matches(argument: str) -> list[Path]:
    path = Path(argument)
    if path.exists():
        return [path]
    found = sorted(glob.glob(argument, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
    if found:
        return [Path(one) for one in found]
    kind = "matches no file" if glob.has_magic(argument) else "does not exist"
    raise InputError(f"{argument} {kind}. Give a profile, a directory of profiles, or a glob in quotes.")


def _profiles_in(directory: Path) -> tuple[list[Path], int]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    profiles = [path for path in files if _is_profile(path)]
    # TensorBoard's trace.json.gz is a capped copy of the .xplane.pb beside it: reading both would count twice.
    whole = {_stem(path, _XPLANE) for path in profiles if path.name.endswith(_XPLANE)}
    kept = [path for path in profiles if not (path.name.endswith(_CAPPED) and _stem(path, _CAPPED) in whole)]
    return kept, len(files) - len(profiles)


def _stem(path: Path, suffix: str) -> str:
    return str(path).removesuffix(suffix)


def _is_profile(path: Path) -> bool:
    """Whether a file is worth reading, if only for the error that says what to do with it."""
    if path.suffix in _BINARY_REPORTS:
        return True
    try:
        return recognise(path) is not None
    except ProfileError:
        return True

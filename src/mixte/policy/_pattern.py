"""Path patterns: which paths one matches, and how much it says about a path that it matches."""

from __future__ import annotations

import glob
import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TypeAlias

from mixte._errors import PolicyError

Grade: TypeAlias = tuple[int, int]
"""How much a pattern says about one name: (kind, count of characters that it spells out)."""

UNMENTIONED: Grade = (0, 0)  # not reached by the pattern, or passed over by **
ANY_NAME = 1
PARTLY_SPELLED = 2
SPELLED = 3

_WILDCARDS = frozenset("*?[")

# A one-character class such as [[] is how a pattern spells a character that is otherwise special.
_TOKEN = re.compile(r"\[(?P<one>[^!])\]|\[!?\]?[^\]]*\]|\*|\?|(?P<plain>.)", re.DOTALL)


def escape_path(path: str) -> str:
    """Return the pattern that matches exactly this path, from the root, whatever characters its names have."""
    return "/" + glob.escape(path)


def check_pattern(pattern: str) -> None:
    """Check the form of a pattern.

    Raises:
        PolicyError: It is empty, has an empty segment, or has ``**`` beside other characters in a segment.
    """
    if pattern == "/":
        return
    if not pattern:
        raise PolicyError("a path pattern is empty; '**' selects every layer, '/' the model itself")
    for segment in pattern.removeprefix("/").split("/"):
        if not segment:
            raise PolicyError(
                f"the path pattern {pattern!r} has an empty segment; write names with one '/' between them, "
                "and 'block/**' for a block with all that is inside it"
            )
        if "**" in segment and segment != "**":
            raise PolicyError(
                f"the path pattern {pattern!r} has '**' inside the segment {segment!r}; '**' stands for whole "
                "segments ('block/**/query'), '*' for any characters of one name"
            )


def match_path(pattern: str, segments: tuple[str, ...]) -> tuple[Grade, ...] | None:
    """Match a pattern against a path.

    Args:
        pattern: A pattern that ``check_pattern`` accepts.
        segments: The names of the path from the root; empty for the root itself.

    Returns:
        None where the pattern does not match. Else one grade for each name of the path, the layer's own name
        first and the root's child last, so that comparing two results as tuples tells which pattern says more
        about the layer, or else about its parent, and so on. Where ``**`` can match in several ways, the
        greatest result.
    """
    anchored, parts, plain_names = _parse(pattern)
    if not plain_names.issubset(segments):  # nearly always so: spares the search below
        return None

    @cache
    def best(part_count: int, name_count: int) -> tuple[Grade, ...] | None:
        if part_count == 0:
            return None if anchored and name_count else (UNMENTIONED,) * name_count
        part = parts[part_count - 1]
        if part == "**":
            ways = [best(part_count - 1, name_count)]
            if name_count:
                ways.append(_before(UNMENTIONED, best(part_count, name_count - 1)))
            return max((way for way in ways if way is not None), default=None)
        if name_count == 0 or not fnmatchcase(segments[name_count - 1], part):
            return None
        return _before(_grade(part), best(part_count - 1, name_count - 1))

    return best(len(parts), len(segments))


@lru_cache(maxsize=1024)
def _parse(pattern: str) -> tuple[bool, tuple[str, ...], frozenset[str]]:
    """Return whether a pattern is anchored, its segments, and those that are names without a wildcard."""
    parts = tuple(part for part in pattern.removeprefix("/").split("/") if part)
    return pattern.startswith("/"), parts, frozenset(part for part in parts if _WILDCARDS.isdisjoint(part))


def _before(grade: Grade, rest: tuple[Grade, ...] | None) -> tuple[Grade, ...] | None:
    return None if rest is None else (grade, *rest)


@lru_cache(maxsize=1024)
def _grade(part: str) -> Grade:
    if part == "*":
        return (ANY_NAME, 0)
    tokens = list(_TOKEN.finditer(part))
    spelled_count = sum(1 for token in tokens if token["one"] or token["plain"])
    return (SPELLED if spelled_count == len(tokens) else PARTLY_SPELLED, spelled_count)

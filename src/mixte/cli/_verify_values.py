"""How ``mixte verify`` writes times, shares, types and long kernel names in a line of 80 columns."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from mixte.profiles._model import Weight

if TYPE_CHECKING:
    from mixte.profiles._verdict import Shares

_MIN_WIDTH, _MAX_WIDTH = 60, 160
_FILLING = re.compile(r"^void |\(anonymous namespace\)::|<unnamed>::|at::native::")
_LAUNCHED = re.compile(
    r"(?:cutlass\w*::(?:Kernel2?|device_kernel)|ck_tile::kentry)<(?:[\w:]+_t, )?(?:\d+, )*(\w[\w:]*)"
)
_BRACKETS = re.compile(r"[<>(]")
_SHORT_TYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}


def width() -> int:
    """Columns to write in: the terminal's within reason, 80 where there is none."""
    return max(_MIN_WIDTH, min(shutil.get_terminal_size((80, 24)).columns, _MAX_WIDTH))


def percent(share: float | None) -> str:
    """Write a share from 0 to 1."""
    return "-" if share is None else f"{share:.1%}"


def three(shares: Shares) -> tuple[float, float, float]:
    """Give the shares that answer the question, without the rest."""
    return shares.tensor_core, shares.cuda_core, shares.unknown


def amount_title(weight: Weight) -> str:
    """Head a column of amounts."""
    return "time" if weight is Weight.TIME else "launches"


def amount(value: int, weight: Weight) -> str:
    """Write nanoseconds as a time, or launches as they are."""
    return duration(value) if weight is Weight.TIME else f"{value:,}"


def duration(time_ns: int) -> str:
    """Write a time with four digits in the unit that fits."""
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if time_ns >= size_ns:
            value = time_ns / size_ns
            return f"{value:.4g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"
    return f"{time_ns} ns"


def short_type(dtype: str | None) -> str:
    """Write a data type in nine columns."""
    text = dtype or ""
    return fit(_SHORT_TYPES.get(text, text).replace("float8_", "").replace("float4_", ""), 9)


def short_name(name: str, room: int) -> str:
    """Write a kernel's name within a number of columns, keeping what tells kernels apart.

    Return type, argument list and namespaces that tell nothing go first; of a launcher such as
    ``cutlass::Kernel2<...>`` the kernel that it launches stays; what is still too long is cut in the middle.
    """
    text = _FILLING.sub("", printable(name))
    if len(text) > room and not text.startswith("_Z"):
        text = _without_arguments(text)
        if launched := _LAUNCHED.match(text):
            text = launched[1]
    return fit(text, room) or "(no name)"


def _without_arguments(text: str) -> str:
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        if bracket[0] == "(" and depth == 0 and bracket.start() > 0:
            return text[: bracket.start()]
        depth += {"<": 1, ">": -1}.get(bracket[0], 0)
    return text


def printable(text: str) -> str:
    """Write a text from a file in one line, without what could command the terminal."""
    line = " ".join(text.split()).replace("\N{HORIZONTAL ELLIPSIS}", "..")
    return line if line.isprintable() else "".join(one if one.isprintable() else "?" for one in line)


def fit(text: str, room: int) -> str:
    """Cut in the middle: both ends of a name tell something."""
    if len(text) <= room:
        return text
    tail = room // 3
    return f"{text[: room - tail - 2]}..{text[len(text) - tail :]}"

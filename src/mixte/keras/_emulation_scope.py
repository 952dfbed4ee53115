"""Which arithmetic the layer that is being called is to be given: a stack for each thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, final

if TYPE_CHECKING:
    from collections.abc import Generator


@final
@dataclass(frozen=True, slots=True)
class Float32Products:
    """Products of 16-bit operands are accumulated in float32, in whatever order the backend takes."""


@final
@dataclass(frozen=True, slots=True)
class Float8Products:
    """As ``Float32Products``, with operands rounded to float8 first: e4m3 forward, e5m2 for gradients."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExactProducts:
    """Products go through the bit-accurate model of an architecture's Tensor Cores, on the host.

    Attributes:
        arch: The architecture, as ``mixte.tensorcore`` names it.
        operands: ``"float8"`` to round the operands to float8 first; ``"compute"`` to take them as they are.
    """

    arch: str
    operands: Literal["compute", "float8"]


Products: TypeAlias = Float32Products | Float8Products | ExactProducts


class _Stack(threading.local):
    def __init__(self) -> None:
        self.entries: list[Products | None] = []


_STACK = _Stack()


def products() -> Products | None:
    """Return the arithmetic of the emulated layer that this thread is in; None outside of any."""
    return _STACK.entries[-1] if _STACK.entries else None


def is_outermost() -> bool:
    """Tell whether this thread is in no layer that was given an arithmetic."""
    return not _STACK.entries


@contextmanager
def entered(entry: Products | None) -> Generator[None]:
    """Give what is called inside an arithmetic; None for the backend's own."""
    _STACK.entries.append(entry)
    try:
        yield
    finally:
        _STACK.entries.pop()

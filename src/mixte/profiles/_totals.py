"""Kernels added up over streams, steps and devices: what a reader of the verdict looks at."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from mixte.profiles._decide import Decision
    from mixte.profiles._verdict import JudgedKernel, ProfileVerdict

_MAX_LISTED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTotal:
    """One kernel under one op, with one verdict.

    Attributes:
        name: As the profiler wrote it.
        count: Launches; None if the profile does not count them.
        weight: Nanoseconds, or launches where the profile holds no times.
        share: Of all weight in the profile, 0 to 1.
        decision: The verdict, and why.
        op: The operator that launched it; None if unknown.
        op_shapes: The op with the shapes it was called with, the heaviest first, at most eight.
        layers: Layers it belongs to, the heaviest first, at most eight.
    """

    name: str
    count: int | None
    weight: int
    share: float
    decision: Decision
    op: str | None
    op_shapes: tuple[str, ...]
    layers: tuple[str, ...]


def kernel_totals(verdict: ProfileVerdict) -> tuple[KernelTotal, ...]:
    """Add up the rows of a profile by kernel, op and verdict, the heaviest first."""
    members: defaultdict[Hashable, list[JudgedKernel]] = defaultdict(list)
    for row in verdict.kernels:
        decision = row.decision
        members[row.kernel.name, decision.verdict, decision.reason, decision.dtype, row.kernel.op].append(row)
    total = verdict.total
    totals = (_total(rows, total) for rows in members.values())
    return tuple(sorted(totals, key=lambda one: -one.weight))


def op_text(row: JudgedKernel) -> str | None:
    """Write an op with its input shapes, as ``aten::mm [64, 512] [512, 1000]``; None if the op is unknown."""
    if row.kernel.op is None:
        return None
    shapes = " ".join(str(list(shape)) for shape in row.kernel.input_shapes or () if shape)
    return f"{row.kernel.op} {shapes}".rstrip()


def launches(rows: Iterable[JudgedKernel]) -> int | None:
    """Add up launches; None if those of any row are unknown."""
    total = 0
    for row in rows:
        if row.kernel.count is None:
            return None
        total += row.kernel.count
    return total


def _total(rows: list[JudgedKernel], total: int) -> KernelTotal:
    first = rows[0]  # rows come heaviest first, and so do the shapes and layers
    weight = sum(row.weight for row in rows)
    return KernelTotal(
        name=first.kernel.name,
        count=launches(rows),
        weight=weight,
        share=weight / total if total else 0.0,
        decision=first.decision,
        op=first.kernel.op,
        op_shapes=_listed(op_text(row) for row in rows),
        layers=_listed(row.kernel.layer for row in rows),
    )


def _listed(texts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text is not None))[:_MAX_LISTED]

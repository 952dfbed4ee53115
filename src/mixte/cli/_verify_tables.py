"""The tables of ``mixte verify``: kernels, and shares by op, stream, rank or layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.cli._verify_values import (
    amount,
    amount_title,
    fit,
    percent,
    printable,
    short_name,
    short_type,
    three,
    width,
)
from mixte.profiles._rules import Verdict
from mixte.profiles._totals import KernelTotal, kernel_totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.profiles._model import Weight
    from mixte.profiles._verdict import Group, ProfileVerdict

_VERDICTS = {
    Verdict.TENSOR_CORE: "tensor",
    Verdict.CUDA_CORE: "cuda",
    Verdict.UNKNOWN: "unknown",
    Verdict.NOT_MATMUL: "-",
}
_BEFORE_NAME = 44  # columns of the kernel table in front of the name


def group_table(by: str, groups: Sequence[Group], weight: Weight, *, top: int) -> str:
    """Write the shares within each group, the heaviest first.

    Args:
        by: What was grouped by.
        groups: The groups, the heaviest first.
        weight: What they are weighed in.
        top: Rows to write; 0 for all.
    """
    total = sum(group.weight for group in groups)
    room = width() - 54
    head = (
        f"{by:<{room}}{'of all':>8}{amount_title(weight):>11}{'Tensor':>9}{'CUDA':>9}{'unknown':>9}{'rest':>8}"
    )
    shown = groups[:top] if top else groups
    label = short_name if by == "kernel" else _label
    lines = ["", head]
    for group in shown:
        text = "(not recorded)" if group.label is None else label(group.label, room - 1)
        lines.append(_group_line(group, text, total, weight))
    left = [group.weight / total for group in groups[len(shown) :]]
    return "\n".join([*lines, *_left_out(left)])


def kernel_table(verdict: ProfileVerdict, *, top: int, titled: bool) -> str:
    """Write the kernels, the heaviest first, with the op below each where the profile links them.

    Args:
        verdict: A judged profile.
        top: Rows to write; 0 for all.
        titled: Whether to name the file, as one of several.
    """
    weight = verdict.profile.weight
    totals = kernel_totals(verdict)
    shown = totals[:top] if top else totals
    lines = ["", f"{verdict.profile.path}:"] if titled else [""]
    lines.append(f"{'share':>6} {amount_title(weight):>9} {'count':>7}  {'verdict':<8}{'type':<9} kernel / op")
    for total in shown:
        lines += _kernel_lines(total, weight)
    return "\n".join([*lines, *_left_out([total.share for total in totals[len(shown) :]])])


def _label(text: str, room: int) -> str:
    return fit(printable(text), room)


def _group_line(group: Group, label: str, total: int, weight: Weight) -> str:
    room = width() - 54
    columns = "".join(f"{percent(share):>9}" for share in three(group.shares))
    return (
        f"{label:<{room}}{percent(group.weight / total):>8}{amount(group.weight, weight):>11}{columns}"
        f"{percent(group.shares.not_matmul):>8}"
    )


def _kernel_lines(total: KernelTotal, weight: Weight) -> list[str]:
    room = width() - _BEFORE_NAME
    count = "" if total.count is None else f"{total.count}"
    line = (
        f"{percent(total.share):>6} {amount(total.weight, weight):>9} {count:>7}  "
        f"{_VERDICTS[total.decision.verdict]:<8}{short_type(total.decision.dtype):<9} "
    )
    lines = [line + short_name(total.name, room)]
    if total.op is not None:
        lines.append(
            " " * _BEFORE_NAME
            + fit(printable(f"in {total.op_shapes[0] if total.op_shapes else total.op}"), room)
        )
    return lines


def _left_out(shares: Sequence[float]) -> list[str]:
    return [f"and {len(shares)} more with {percent(sum(shares))} in all: --top 0 shows them"] if shares else []

"""A table of a model's layers: what each stores and computes in, and why."""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mixte._errors import InputError
from mixte.keras._apply import AppliedPolicy
from mixte.keras._describe import describe_layers
from mixte.keras._framework import keras
from mixte.keras._governor import GOVERNOR
from mixte.policy import Decision, LayerDescription, describe_selector

if TYPE_CHECKING:
    from collections.abc import Sequence

_NARROWEST: Final = 40
_HEADER: Final = ("layer", "class", "variables", "compute", "why")
_GAP: Final = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    layer: Any
    path: str
    class_name: str
    decided_by: str  # in a few words, for the row
    reason: str  # in full, for the note


def summary(model: Any, *, width: int = 80) -> str:
    """Return a table of all layers: path, class, dtype of the variables, compute dtype, and why.

    The dtypes are those that the layers have now. The numbers in the last column refer to the reasons below the
    table. The model itself has the path ``/``.

    Args:
        model: A model, or what ``mixte.keras.apply`` returned for it.
        width: Columns at most; at least 40. What does not fit is shortened, paths at their beginning.

    Raises:
        InputError: If ``model`` is neither, or ``width`` is too small.

    Example:
        >>> print(mixte.keras.summary(mixte.keras.apply(model, "mixed_float16")))
    """
    if width < _NARROWEST:
        raise InputError(f"a summary needs a width of at least {_NARROWEST} columns, received {width}.")
    if isinstance(model, AppliedPolicy):
        applied = model
    elif isinstance(model, keras.Layer):
        applied = GOVERNOR.applied_to(model)
    else:
        raise InputError(
            f"summary() needs a Keras model, or what mixte.keras.apply() returned, received {model!r} "
            f"({type(model).__name__})."
        )
    rows = [_undecided(each) for each in describe_layers(model)] if applied is None else _decided(applied)
    numbers = {row.reason: 0 for row in rows}
    numbers = {reason: number for number, reason in enumerate(numbers, start=1)}
    cells = [_cells(row, numbers[row.reason]) for row in rows]
    parts = [
        *([] if applied is None else [_heading(applied, width), ""]),
        *_table(cells, width),
        "",
        *(
            _note(f"{number} {reason}", width, indent=len(str(number)) + 1)
            for reason, number in numbers.items()
        ),
        "",
        textwrap.fill(_totals(rows), width),
        *([] if applied is None else [_note(f"Warning: {text}", width, indent=2) for text in applied.warnings]),
    ]
    return "\n".join(parts)


def _decided(applied: AppliedPolicy) -> list[_Row]:
    return [
        _Row(
            layer=decision.layer.layer,
            path=decision.path,
            class_name=decision.class_name,
            decided_by=decision.origin if decision.rule is None else describe_selector(decision.rule.select),
            reason=_reason(decision),
        )
        for decision in applied.decisions
    ]


def _reason(decision: Decision) -> str:
    match decision.origin:
        case "default" | "script":
            return f"{decision.origin}: {decision.reason}"
        case "safeguard":
            return f"safe default, {decision.source}: {decision.reason}"
        case "rule" | "owner":
            return f"rule, {decision.source}: {decision.reason}"


def _undecided(description: LayerDescription) -> _Row:
    layer: Any = description.layer
    by_script = description.dtype_set_by_user is not None
    name = layer.dtype_policy.name
    return _Row(
        layer=layer,
        path=description.path,
        class_name=description.class_name,
        decided_by="script" if by_script else "Keras",
        reason=f"script: it sets dtype={name!r}" if by_script else f"Keras: the dtype policy {name}",
    )


def _cells(row: _Row, number: int) -> tuple[str, ...]:
    compute, variables = row.layer.compute_dtype, _variable_dtypes(row.layer)
    return (row.path or "/", row.class_name, variables, compute, f"{number} {row.decided_by}")


def _variable_dtypes(layer: Any) -> str:
    """Return the dtypes of the layer's own floating variables, or ``-`` if it has none."""
    if not layer.built:
        return layer.variable_dtype
    own = [*layer._trainable_variables, *layer._non_trainable_variables]  # noqa: SLF001 - without sublayers'
    dtypes = {keras.backend.standardize_dtype(variable.dtype) for variable in own}
    return "/".join(sorted(dtype for dtype in dtypes if keras.backend.is_float_dtype(dtype))) or "-"


def _heading(applied: AppliedPolicy, width: int) -> str:
    policy = applied.policy
    reason = f" ({policy.reason})" if policy.reason else ""
    return textwrap.fill(f"Policy {policy.name}: {policy.default} unless said otherwise{reason}", width)


def _table(cells: Sequence[tuple[str, ...]], width: int) -> list[str]:
    lines = [_HEADER, *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    available = width - len(_GAP) * (len(_HEADER) - 1)
    while sum(widths) > available:
        widths[widths.index(max(widths))] -= 1
    return [_line(line, widths) for line in lines]


def _line(line: tuple[str, ...], widths: Sequence[int]) -> str:
    path, *others = line
    shortened = [_keep_end(path, widths[0])]
    shortened += [_keep_start(text, size) for text, size in zip(others, widths[1:], strict=True)]
    return _GAP.join(text.ljust(size) for text, size in zip(shortened, widths, strict=True)).rstrip()


def _keep_end(text: str, size: int) -> str:
    return text if len(text) <= size else f"..{text[len(text) - size + 2 :]}"


def _keep_start(text: str, size: int) -> str:
    return text if len(text) <= size else f"{text[: size - 2]}.."


def _note(text: str, width: int, *, indent: int) -> str:
    return textwrap.fill(text, width, subsequent_indent=" " * indent)


def _totals(rows: Sequence[_Row]) -> str:
    counts = Counter(row.layer.compute_dtype for row in rows if row.path)  # the model computes nothing itself
    return ", ".join(
        f"{count} of {counts.total()} layers compute in {dtype}" for dtype, count in counts.items()
    )

"""Finds for each kernel of an Nsight Systems file the NVTX ranges in which it was launched.

A kernel and its launch share a correlation id within one process; the ranges are those around the launch on its
thread. ``torch.autograd.profiler.emit_nvtx`` and ``nsys profile --pytorch`` name a range after each operator
(``aten::mm, seq = 12, op_id = 34, sizes = [[64, 768], [768, 768]]``), XLA after each operation
(``TSL:Thunk:#hlo_op=fusion.3,hlo_module=jit_step#``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, final

import msgspec

from mixte.profiles.readers import _nesting
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._sqlite import whole
from mixte.profiles.readers._steps import Steps

if TYPE_CHECKING:
    from mixte.profiles.readers._sqlite import Database

Shapes = tuple[tuple[int, ...], ...] | None

_PUSH_POP, _START_END = 59, 60  # ENUM_NSYS_EVENT_TYPE: NvtxPushPopRange, NvtxStartEndRange
# The low 24 bits of a global thread id are the thread; the rest is its process.
_PROCESS = ~0xFFFFFF
_OPERATOR = re.compile(r"(?P<op>[^,]+?)(?:, (?:seq|op_id|sizes|input_op_ids) = .*)")
_SIZES = re.compile(r"sizes = (\[[\[\]\d, ]*\])")
_HLO = re.compile(r"\bhlo_op=(?P<op>[^,#]+)")
_STEP = re.compile(
    r"(?:ProfilerStep\s?#|(?:(?:train|training|global)[ _]?)?(?:step|iteration|iter|batch)[ _:#=]*)"
    r"(?P<number>\d{1,18})",
    re.IGNORECASE,
)


class _Range(NamedTuple):
    op: str | None
    layer: str | None
    shapes: Shapes


@final
class NsysLinks:
    """The ranges of one file, by thread.

    Attributes:
        steps: Numbers of the steps that ranges mark, ascending.
    """

    def __init__(self, database: Database, names: dict[int, str]) -> None:
        self._database = database
        self._starts: dict[int, list[int]] = {}
        self._ends: dict[int, list[int]] = {}
        self._texts: dict[int, list[str]] = {}
        steps: list[tuple[float, float, int]] = []
        columns = ("start", "end", "text", "textId", "globalTid")
        kinds = f"eventType IN ({_PUSH_POP}, {_START_END}) AND end IS NOT NULL"
        where = kinds if "eventType" in database.columns("NVTX_EVENTS") else "end IS NOT NULL"
        for start, end, text, text_id, thread in database.rows("NVTX_EVENTS", columns, where=where):
            if not (isinstance(start, int) and isinstance(end, int) and isinstance(thread, int)):
                continue
            name = text if isinstance(text, str) else names.get(text_id, "") if isinstance(text_id, int) else ""
            step = _STEP.fullmatch(name.strip())
            if step:
                steps.append((start, end, int(step["number"])))
            elif name:
                self._starts.setdefault(thread, []).append(start)
                self._ends.setdefault(thread, []).append(end)
                self._texts.setdefault(thread, []).append(name)
        self._steps = Steps.of(steps)
        self.steps = tuple(sorted(self._steps.numbers))

    def add_to(self, rows: Rows, names: dict[int, str]) -> None:
        """Add all kernels with what they belong to."""
        from mixte.profiles.readers._nsys_sqlite import kernel_name, name_column  # noqa: PLC0415 - a cycle otherwise

        launches = self._launches()
        ranges = self._ranges_of(launches)
        columns = (
            name_column(self._database),
            "start",
            "end",
            "deviceId",
            "streamId",
            "correlationId",
            "globalPid",
        )
        nowhere = _Range(None, None, None)
        for name, start, end, device, stream, correlation, process in self._database.rows(
            "CUPTI_ACTIVITY_KIND_KERNEL", columns
        ):
            if not (isinstance(start, int) and isinstance(end, int)):
                continue
            key = (whole(correlation), whole(process))
            launched = launches.get(key) or launches.get((key[0], None))
            place = ranges.get(key) or ranges.get((key[0], None), nowhere)
            launch = Launch(
                kernel_name(names, name),
                whole(device),
                whole(stream),
                None if launched is None else self._steps.at(launched[1]),
                place.op,
                place.layer,
                place.shapes,
            )
            rows.add(launch, count=1, duration_ns=end - start)

    def _launches(self) -> dict[tuple[int | None, int | None], tuple[int, int]]:
        """Give thread and time of each launch by correlation id and process."""
        launches: dict[tuple[int | None, int | None], tuple[int, int]] = {}
        no_process = "globalPid" not in self._database.columns("CUPTI_ACTIVITY_KIND_KERNEL")
        for correlation, thread, start in self._database.rows(
            "CUPTI_ACTIVITY_KIND_RUNTIME", ("correlationId", "globalTid", "start")
        ):
            if isinstance(correlation, int) and isinstance(thread, int) and isinstance(start, int):
                launches[correlation, None if no_process else thread & _PROCESS] = (thread, start)
        return launches

    def _ranges_of(
        self, launches: dict[tuple[int | None, int | None], tuple[int, int]]
    ) -> dict[tuple[int | None, int | None], _Range]:
        by_thread: dict[int, list[tuple[int | None, int | None]]] = {}
        for key, (thread, _) in launches.items():
            by_thread.setdefault(thread, []).append(key)
        found: dict[tuple[int | None, int | None], _Range] = {}
        for thread, keys in by_thread.items():
            if thread not in self._texts:
                continue
            described = self._described(thread)
            moments = [launches[key][1] for key in keys]
            around = _nesting.innermost(self._starts[thread], self._ends[thread], moments)
            found |= {
                key: described[index] for key, index in zip(keys, around, strict=True) if index is not None
            }
        return found

    def _described(self, thread: int) -> list[_Range]:
        """Tell for each range of a thread the operator that it is or lies in, and the path of the others."""
        starts, ends, texts = self._starts[thread], self._ends[thread], self._texts[thread]
        parents = _nesting.parents(starts, ends)
        result: list[_Range] = [_Range(None, None, None)] * len(texts)
        for index in _nesting.outermost_first(starts, ends):
            parent = parents[index]
            around = _Range(None, None, None) if parent is None else result[parent]
            op, shapes = operator_of(texts[index])
            if op is not None:
                result[index] = _Range(op, around.layer, shapes)
            else:
                name = texts[index].strip()
                result[index] = _Range(None, f"{around.layer}/{name}" if around.layer else name, None)
        return result


def operator_of(text: str) -> tuple[str | None, Shapes]:
    """Read operator and input shapes from the text of a range; None for a range that names no operator."""
    hlo = _HLO.search(text)
    if hlo:
        return hlo["op"].strip(), None
    found = _OPERATOR.fullmatch(text)
    if found is None:
        return None, None
    sizes = _SIZES.search(text)
    if sizes is None:
        return found["op"].strip(), None
    try:
        shapes = msgspec.json.decode(sizes[1], type=list[list[int]])
    except (msgspec.DecodeError, RecursionError):
        return found["op"].strip(), None
    return found["op"].strip(), tuple(tuple(shape) for shape in shapes if shape) or None

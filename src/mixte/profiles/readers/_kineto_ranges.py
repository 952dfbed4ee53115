"""CUPTI counter ranges in a Kineto trace: kernels with counters, but without times.

Recorded with ``_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True)``; then there are no
kernel events. Every range has one and the same duration, which is not the kernel's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mixte.profiles._counters import is_evidence
from mixte.profiles.readers._rows import Launch, Rows, counter_items
from mixte.profiles.readers._trace_events import Identifier, open_events

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

# CUPTI's word for a name that it does not know.
_UNNAMED = "__missing__"


class _Range(msgspec.Struct, gc=False):
    cat: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


def add_ranges(rows: Rows, source: Source) -> None:
    """Read the trace once more, for its counter ranges."""
    for batch in open_events(source, _Range).batches():
        for event in batch:
            if event.cat == "cuda_profiler_range":
                name = "" if event.name in {None, _UNNAMED} else (event.name or "").strip()
                rows.add(Launch(name, counters=counter_items(_counters(event.args))), count=1, duration_ns=None)


def _counters(arguments: msgspec.Raw) -> dict[str, float]:
    try:
        metrics = msgspec.json.decode(arguments, type=dict[str, Identifier])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return {}
    return {
        metric: float(value)
        for metric, value in metrics.items()
        if isinstance(value, int | float) and is_evidence(metric)
    }

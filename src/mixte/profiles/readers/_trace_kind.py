"""Whose Chrome trace a file is: PyTorch's, or TensorFlow's and JAX's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mixte._errors import ProfileError
from mixte.profiles.readers._trace_events import open_events, surroundings

if TYPE_CHECKING:
    from mixte.profiles._model import Format
    from mixte.profiles.readers._source import Source

# Categories that only Kineto writes, in lower case.
_KINETO = {
    *("kernel", "cpu_op", "operator", "cuda_runtime", "cuda_driver", "runtime", "python_function"),
    *("user_annotation", "gpu_memcpy", "gpu_memset", "ac2g", "cuda_profiler_range", "cpu_instant_event"),
    *("mtia_ccp_events", "mtia_runtime", "fwdbwd"),
}


class _Probe(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class _Named(msgspec.Struct, gc=False):
    name: str | None = None


class _Schema(msgspec.Struct, gc=False):
    schema: int | float | str | None = msgspec.field(name="schemaVersion", default=None)
    devices: msgspec.Raw | None = msgspec.field(name="deviceProperties", default=None)


def trace_kind(source: Source) -> Format | None:
    """Tell by the first events that settle it; None for any other JSON file."""
    events = open_events(source, _Probe)
    try:
        for batch in events.batches():
            for event in batch:
                if event.cat is not None and event.cat.lower() in _KINETO:
                    return "kineto"
                if event.ph == "M" and event.name == "process_name" and _is_xprof_process(event.args):
                    return "tf_trace_json"
        schema = surroundings(events, _Schema)
    except ProfileError:  # no list of events
        return None
    return "kineto" if schema.schema is not None or schema.devices is not None else None


def _is_xprof_process(arguments: msgspec.Raw) -> bool:
    try:
        name = msgspec.json.decode(arguments, type=_Named).name
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return name is not None and name.startswith(("/device:", "/host:"))

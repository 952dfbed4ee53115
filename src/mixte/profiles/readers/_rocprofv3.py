"""``rocprofv3 --output-format json``: dispatches refer to kernels by id.

Layout: ROCm/rocprofiler-sdk, source/lib/output. The file is read three times, each time for one of its lists, so
that memory does not grow with it: the GPUs, the kernels' names, the dispatches.
"""

from __future__ import annotations

import msgspec

from mixte._errors import ProfileError
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._json_array import JsonArray
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._source import Source
from mixte.profiles.readers._trace_events import NONE_READ

_NOT_TRACED = "the file holds no kernel dispatches: record with --kernel-trace"
_GPU = 2  # rocprofiler_agent_type_t: ROCPROFILER_AGENT_TYPE_GPU


class _Handle(msgspec.Struct, gc=False):
    handle: int


class _Agent(msgspec.Struct, gc=False):
    id: _Handle
    type: int
    name: str = ""
    product_name: str = ""
    node_id: int | None = None


class _Symbol(msgspec.Struct, gc=False):
    kernel_id: int
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    truncated_kernel_name: str = ""
    kernel_name: str = ""

    @property
    def name(self) -> str:
        """The longest form: demangled with its arguments, if it could be."""
        return (
            self.formatted_kernel_name
            or self.demangled_kernel_name
            or self.kernel_name
            or self.truncated_kernel_name
        )


class _DispatchInfo(msgspec.Struct, gc=False):
    kernel_id: int
    agent_id: _Handle


class _Dispatch(msgspec.Struct, gc=False):
    start_timestamp: int
    end_timestamp: int
    dispatch_info: _DispatchInfo
    stream_id: _Handle | None = None


def read(source: Source) -> Profile:
    """Read rocprofv3's JSON."""
    missing: list[str] = []
    agents, symbols = _agents(source, missing), _symbols(source, missing)
    dispatches = JsonArray(source, "kernel_dispatch", _Dispatch)
    rows = Rows()
    try:
        for batch in dispatches.batches():
            for dispatch in batch:
                info = dispatch.dispatch_info
                name = symbols.get(info.kernel_id)
                launch = Launch(
                    name or "",
                    device=agents[info.agent_id.handle].index if info.agent_id.handle in agents else None,
                    stream=dispatch.stream_id.handle if dispatch.stream_id else None,
                )
                rows.add(launch, count=1, duration_ns=dispatch.end_timestamp - dispatch.start_timestamp)
        if not dispatches.complete:
            missing.append("the file ends in the middle of its list of kernel dispatches")
        if dispatches.skipped:
            missing.append(f"{dispatches.skipped} damaged dispatches were skipped")
    except ProfileError:
        missing.append("the file ends before its list of kernel dispatches")
    return Profile(
        format="rocprof",
        path=source.path,
        kernels=rows.kernels(),
        gpus=tuple(agents.values()),
        producer="rocprofv3",
        no_kernels_reason=None if len(rows) else NONE_READ if missing else _NOT_TRACED,
        missing=(*dict.fromkeys(source.damage), *missing, *rows.unnamed(), *rows.missing()),
    )


def _agents(source: Source, missing: list[str]) -> dict[int, Gpu]:
    agents: dict[int, Gpu] = {}
    try:
        for batch in JsonArray(_again(source), "agents", _Agent).batches():
            for agent in batch:
                if agent.type == _GPU:
                    agents[agent.id.handle] = Gpu(
                        index=len(agents) if agent.node_id is None else agent.node_id,
                        name=agent.product_name or None,
                        vendor="amd",
                        architecture=agent.name or None,
                    )
    except ProfileError:
        missing.append("the file's list of agents is missing")
    return agents


def _symbols(source: Source, missing: list[str]) -> dict[int, str]:
    symbols: dict[int, str] = {}
    try:
        for batch in JsonArray(_again(source), "kernel_symbols", _Symbol).batches():
            symbols |= {symbol.kernel_id: symbol.name for symbol in batch}
    except ProfileError:
        missing.append("the file's list of kernel names is missing")
    return symbols


def _again(source: Source) -> Source:
    """Give the file once more, without progress: only the last of the passes tells it."""
    return Source(source.path)

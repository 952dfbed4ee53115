"""TensorBoard's trace of TensorFlow and JAX: ``.trace.json.gz``, written from an XPlane.

Layout: openxla/xprof, plugin/xprof/convert/trace_events_json.py. Events have no category: a kernel is an event on
a ``Stream #`` line of a GPU process. The other lines of the GPU show the same time again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from mixte.profiles import _limits
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._scope import split_scope
from mixte.profiles.readers._steps import Steps
from mixte.profiles.readers._trace_events import (
    NONE_READ,
    Identifier,
    Number,
    incompleteness,
    microseconds,
    open_events,
    whole_number,
)

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_GPU = re.compile(r"/device:GPU:(\d{1,9})")
_STREAM = re.compile(r"Stream #(\d{1,18})")
_COPY = re.compile(r"Mem(?:cpy|set|ory)", re.IGNORECASE)
# TensorFlow's viewer keeps this many events and drops the rest, without a word in the file.
_EVENT_CAP = 1_000_000


class _Arguments(msgspec.Struct, gc=False):
    name: Identifier = None
    tf_op: Identifier = None
    hlo_op: Identifier = None


class _Event(msgspec.Struct, gc=False):
    ph: str | None = None
    name: str | None = None
    ts: Number = None
    dur: Number = None
    pid: Identifier = None
    tid: Identifier = None
    args: _Arguments | None = None


class _Gathered:
    """Events of threads whose names may come later in the file."""

    def __init__(self) -> None:
        self.processes: dict[int | None, str] = {}
        self.threads: dict[tuple[int | None, int | None], str] = {}
        self.events: dict[tuple[int | None, int | None], list[tuple[str, float, float, _Arguments | None]]] = {}
        self.count = 0
        self.kept = 0

    def take(self, event: _Event) -> None:
        """Take an event."""
        self.count += 1
        key = (whole_number(event.pid), whole_number(event.tid))
        if event.ph == "M":
            named = str(event.args.name) if event.args and event.args.name is not None else ""
            if event.name == "process_name":
                self.processes[key[0]] = named
            elif event.name == "thread_name":
                self.threads[key] = named
            return
        if event.ph != "X" or event.name is None or not self._may_matter(key):
            return
        start, duration = microseconds(event.ts), microseconds(event.dur)
        if start is not None and duration is not None and self.kept < _limits.MAX_LINKED_RANGES:
            self.kept += 1
            self.events.setdefault(key, []).append((event.name, start, duration, event.args))

    def _may_matter(self, key: tuple[int | None, int | None]) -> bool:
        """Drop events of threads that are known to be no stream: host threads hold most events of a trace."""
        process, thread = self.processes.get(key[0]), self.threads.get(key)
        if process is not None and not _GPU.match(process):
            return False
        return thread is None or thread == "Steps" or _STREAM.match(thread) is not None


def read(source: Source) -> Profile:
    """Read a trace of TensorFlow or JAX."""
    events = open_events(source, _Event)
    gathered = _Gathered()
    for batch in events.batches():
        for event in batch:
            gathered.take(event)
    rows = Rows()
    devices, steps = _add_kernels(rows, gathered)
    capped = max(gathered.count / _EVENT_CAP, gathered.kept / _limits.MAX_LINKED_RANGES) >= 1
    return Profile(
        format="tf_trace_json",
        path=source.path,
        kernels=rows.kernels(),
        gpus=tuple(Gpu(index=index) for index in sorted(devices)),
        steps=tuple(sorted(steps)),
        producer="XLA profiler",
        no_kernels_reason=None if len(rows) else _why_no_kernels(gathered) if events.complete else NONE_READ,
        missing=(
            *source.damage,
            *incompleteness(events),
            *(
                ["the trace viewer keeps a million events and drops the rest: read the .xplane.pb"]
                if capped
                else []
            ),
            *rows.missing(),
        ),
    )


def _add_kernels(rows: Rows, gathered: _Gathered) -> tuple[set[int], set[int]]:
    """Add the kernels; give the GPUs they ran on and the steps marked there."""
    devices: set[int] = set()
    steps: set[int] = set()
    for key, events in gathered.events.items():
        device = _GPU.match(gathered.processes.get(key[0], ""))
        stream = _STREAM.match(gathered.threads.get(key, ""))
        if device is None or stream is None:
            continue
        marked = _steps(gathered, key[0])
        devices.add(int(device[1]))
        steps |= marked.numbers
        for name, start, duration, arguments in events:
            if not _COPY.match(name):
                launch = _launch(name, int(device[1]), int(stream[1]), marked.at(start), arguments)
                rows.add(launch, count=1, duration_ns=duration * 1000)
    return devices, steps


def _launch(name: str, device: int, stream: int, step: int | None, arguments: _Arguments | None) -> Launch:
    if arguments is None:
        return Launch(name.strip(), device, stream, step)
    tf_op, scope, hlo_op = (_text(value) for value in (arguments.tf_op, arguments.name, arguments.hlo_op))
    layer, op = split_scope(tf_op, scope)
    return Launch(name.strip(), device, stream, step, op or hlo_op or None, layer)


def _text(value: Identifier) -> str:
    return value.strip() if isinstance(value, str) else ""


def _steps(gathered: _Gathered, process: int | None) -> Steps:
    return Steps.of(
        (start, start + duration, int(name))
        for key, events in gathered.events.items()
        if key[0] == process and gathered.threads.get(key) == "Steps"
        for name, start, duration, _ in events
        if name.isdecimal() and len(name) < 19
    )


def _why_no_kernels(gathered: _Gathered) -> str:
    processes = gathered.processes.values()
    if any(process.startswith("/device:TPU") for process in processes):
        return "the trace is of a TPU; its TensorCore is another thing than NVIDIA's Tensor Cores"
    if any(_GPU.match(process) for process in processes):
        return "the GPU's lines in the trace hold no kernels"
    return "the trace holds no GPU: nothing ran on one, or CUPTI or ROCm's tracer did not load"

"""TensorFlow's and JAX's profiler: ``.xplane.pb``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from mixte._errors import ProfileError
from mixte.profiles import _limits
from mixte.profiles._model import Gpu, Profile, Vendor
from mixte.profiles.readers._hlo import HloModules
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._scope import split_scope
from mixte.profiles.readers._steps import Steps
from mixte.profiles.readers._wire import BYTES, Field, WireError, fields, text
from mixte.profiles.readers._xplane_steps import HostSteps, device_steps
from mixte.profiles.readers._xspace import Plane, integer

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source
    from mixte.profiles.readers._xspace import Line, Value

_GPU_PLANE = re.compile(r"/device:GPU:(\d{1,9})")
_TPU_PLANE = re.compile(r"/device:TPU:\d+")
_STREAM_LINE = re.compile(r"Stream #(\d{1,18})")
# Copies and memory sets share the lines of kernels, or have lines of their own.
_NO_KERNEL = re.compile(r"Mem(?:cpy|set|ory)", re.IGNORECASE)
_STEP_LINE = "Steps"
_PS_PER_NS = 1000


@dataclass(slots=True, kw_only=True)
class _Contents:
    """What the planes hold."""

    gpus: list[tuple[int, Plane]] = field(default_factory=list[tuple[int, Plane]])
    host: list[Plane] = field(default_factory=list[Plane])
    hlo: HloModules
    tpu: bool = False
    missing: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])


def read(source: Source) -> Profile:
    """Read an XSpace."""
    data = source.whole(_limits.MAX_MESSAGE_BYTES)
    contents = _look_through(source, data)
    rows = Rows()
    numbers: set[int] = set()
    host = HostSteps.of(contents.host)
    for index, (device, plane) in enumerate(contents.gpus):
        gpu = _GpuPlane(device, plane, contents)
        numbers |= gpu.add_to(rows, host)
        source.report_fraction((index + 1) / len(contents.gpus))
    if host.damaged:
        contents.missing.append(f"{host.damaged} lines of host events are damaged")
    return Profile(
        format="xplane",
        path=source.path,
        kernels=rows.kernels(),
        gpus=tuple(_gpu(device, plane) for device, plane in contents.gpus),
        steps=tuple(sorted(numbers)),
        producer="XLA profiler",
        no_kernels_reason=None if len(rows) else _why_no_kernels(contents),
        missing=(*source.damage, *contents.missing, *rows.missing()),
        notes=tuple(contents.notes),
    )


def _look_through(source: Source, data: bytes) -> _Contents:
    contents = _Contents(hlo=HloModules(data))
    planes: list[Field] = []
    try:
        for part in fields(data, 0, len(data)):
            if part.number == 1 and part.kind == BYTES:
                planes.append(part)
            elif part.number == 2 and part.kind == BYTES:
                contents.missing.append(f"the profiler reported an error: {_one_line(text(data, part))}")
            elif part.number == 3 and part.kind == BYTES:
                contents.notes.append(f"the profiler warned: {_one_line(text(data, part))}")
    except WireError as error:
        contents.missing.append(f"the file is cut off or damaged: {error}")
    damaged = 0
    for part in planes:
        try:
            _sort_in(contents, Plane(data, part))
        except WireError:
            damaged += 1
    if damaged:
        contents.missing.append(f"{damaged} of {len(planes)} planes are damaged")
    if not planes and contents.missing:
        raise ProfileError(f"{source.path}: {contents.missing[0]}. Profile again.")
    return contents


def _sort_in(contents: _Contents, plane: Plane) -> None:
    gpu = _GPU_PLANE.match(plane.name)
    if gpu:
        contents.gpus.append((int(gpu[1]), plane))
    elif plane.name.startswith("/host:metadata"):
        contents.hlo.take(plane)
    elif plane.name.startswith("/host:"):
        contents.host.append(plane)
    contents.tpu |= _TPU_PLANE.match(plane.name) is not None


@final
class _GpuPlane:
    """The kernels of one GPU."""

    def __init__(self, device: int, plane: Plane, contents: _Contents) -> None:
        self._device = device
        self._plane = plane
        self._contents = contents
        self._kinds: dict[int, tuple[str, dict[str, Value]]] = {}
        self._damaged = 0

    def add_to(self, rows: Rows, host: HostSteps) -> frozenset[int]:
        """Add the kernels; give the numbers of the steps in which they may be."""
        streams, own_steps = self._lines()
        for stream, line in streams:
            for place in line.events:
                try:
                    event = self._plane.event(place)
                    name, known = self._kind(event.metadata)
                    if _NO_KERNEL.match(name):
                        continue
                    stats = known | self._plane.decode(event.stats)
                except WireError:
                    self._damaged += 1
                    continue
                if own_steps.extents:
                    step = own_steps.at(line.timestamp_ns * _PS_PER_NS + event.offset_ps)
                else:
                    step = host.at_launch(integer(stats.get("correlation_id")))
                launch = self._launch(name, stats, stream, step)
                rows.add(launch, count=event.occurrences, duration_ns=event.duration_ps / _PS_PER_NS)
        if self._damaged:
            self._contents.missing.append(f"{self._damaged} events of /device:GPU:{self._device} are damaged")
        return (own_steps if own_steps.extents else host.steps).numbers

    def _lines(self) -> tuple[list[tuple[int, Line]], Steps]:
        """Give the lines that hold kernels, and the steps marked on the plane."""
        streams: list[tuple[int, Line]] = []
        steps = Steps()
        for place in self._plane.lines:
            try:
                line = self._plane.line(place)
                stream = _STREAM_LINE.match(line.name)
                if stream and not _only_copies(line.name):
                    streams.append((int(stream[1]), line))
                elif line.name == _STEP_LINE:
                    steps = device_steps(self._plane, line)
            except WireError:
                self._damaged += 1
        return streams, steps

    def _kind(self, metadata: int) -> tuple[str, dict[str, Value]]:
        """Give name and statistics that all events of a kind share."""
        kind = self._kinds.get(metadata)
        if kind is None:
            name, stats = self._plane.metadata_of(metadata)
            kind = self._kinds[metadata] = (name.strip(), self._plane.decode(stats))
        return kind

    def _launch(self, name: str, stats: dict[str, Value], stream: int, step: int | None) -> Launch:
        hlo_op = _string(stats.get("hlo_op"))
        operation = self._contents.hlo.operation(
            _string(stats.get("hlo_module")), integer(stats.get("program_id")), hlo_op
        )
        scope = operation.scope or _string(stats.get("name")) or ""
        layer, op = split_scope(_string(stats.get("tf_op")) or "", scope)
        place = (self._device, stream, step)
        return Launch(name, *place, op or hlo_op, layer, operation.shapes, operation.dtypes)


def _only_copies(line_name: str) -> bool:
    return "(" in line_name and "Kernel" not in line_name and _NO_KERNEL.search(line_name) is not None


def _gpu(device: int, plane: Plane) -> Gpu:
    try:
        stats = plane.stats()
    except WireError:
        stats = {}
    major, minor = integer(stats.get("compute_cap_major")), integer(stats.get("compute_cap_minor"))
    if major is not None and minor is None:
        minor = 0  # a value of 0 is not stored
    vendor_name = (_string(stats.get("device_vendor")) or "").lower()
    vendor: Vendor | None = "nvidia" if "nvidia" in vendor_name else "amd" if "amd" in vendor_name else None
    return Gpu(
        index=device,
        name=_string(stats.get("gpu_device_name")) or _string(stats.get("device_type_string")),
        compute_capability=None if major is None or minor is None else (major, minor),
        vendor=vendor,
    )


def _why_no_kernels(contents: _Contents) -> str:
    if contents.gpus:
        return "the GPU planes of the file hold no kernels"
    if contents.tpu:
        return "the profile is of a TPU; its TensorCore is another thing than NVIDIA's Tensor Cores"
    return "the file holds no plane of a GPU: nothing ran on one, or CUPTI or ROCm's tracer did not load"


def _string(value: Value | None) -> str | None:
    return (value.strip() or None) if isinstance(value, str) else None


def _one_line(message: str) -> str:
    return " ".join(message.split())[:200]

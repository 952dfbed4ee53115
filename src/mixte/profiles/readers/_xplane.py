"""TensorFlow's and JAX's profiler: ``.xplane.pb``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from mixte._errors import ProfileError
from mixte.profiles import _limits
from mixte.profiles._model import Gpu, Profile, Vendor
from mixte.profiles.readers._hlo import HloModules, Operation
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._scope import split_scope
from mixte.profiles.readers._steps import Steps
from mixte.profiles.readers._wire import BYTES, Field, WireError, fields, text
from mixte.profiles.readers._xplane_steps import HostSteps, device_steps
from mixte.profiles.readers._xspace import Plane, integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mixte.profiles.readers._source import Source
    from mixte.profiles.readers._xspace import Event, Line, Value

_GPU_PLANE = re.compile(r"/device:GPU:(\d{1,9})")
_TPU_PLANE = re.compile(r"/device:TPU:\d+")
_STREAM_LINE = re.compile(r"Stream #(\d{1,18})")
# Copies and memory sets share the lines of kernels, or have lines of their own.
_NO_KERNEL = re.compile(r"Mem(?:cpy|set|ory)", re.IGNORECASE)
_STEP_LINE = "Steps"
_PRODUCT = re.compile(r"dot|conv|matmul|einsum|gemm|attention", re.IGNORECASE)
_PS_PER_NS = 1000
_MAX_BY_BYTES = 20_000
_REPORT_EVERY = 10_000
_MAX_PLANES = 100_000  # a host with 16 GPUs writes about 20


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
    for device, plane in contents.gpus:
        gpu = _GpuPlane(device, plane, contents, lambda at: source.report_fraction(at / len(data)))
        numbers |= gpu.add_to(rows, host)
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
        missing=(*source.damage, *contents.missing, *rows.unnamed(), *rows.missing()),
        notes=tuple(contents.notes),
    )


def _look_through(source: Source, data: bytes) -> _Contents:
    contents = _Contents(hlo=HloModules(data))
    places = _planes(contents, data)
    damaged = 0
    for place in places:
        try:
            _sort_in(contents, Plane(data, place))
        except WireError:
            damaged += 1
    if damaged:
        contents.missing.append(f"{damaged} of {len(places)} planes are damaged")
    if not places and contents.missing:
        raise ProfileError(f"{source.path}: {contents.missing[0]}. Profile again.")
    return contents


def _planes(contents: _Contents, data: bytes) -> list[Field]:
    """Find the planes, and note what the profiler itself says went wrong."""
    places: list[Field] = []
    try:
        for part in fields(data, 0, len(data)):
            if part.number == 1 and part.kind == BYTES and len(places) < _MAX_PLANES:
                places.append(part)
            elif part.number == 2 and part.kind == BYTES:
                contents.missing.append(f"the profiler reported an error: {_one_line(text(data, part))}")
            elif part.number == 3 and part.kind == BYTES:
                contents.notes.append(f"the profiler warned: {_one_line(text(data, part))}")
    except WireError as error:
        contents.missing.append(f"the file is cut off or damaged: {error}")
    # A message that is repeated is told once.
    contents.missing[:] = dict.fromkeys(contents.missing)
    contents.notes[:] = dict.fromkeys(contents.notes)
    return places


def _sort_in(contents: _Contents, plane: Plane) -> None:
    gpu = _GPU_PLANE.match(plane.name)
    if gpu:
        contents.gpus.append((int(gpu[1]), plane))
    elif plane.name.startswith("/host:metadata"):
        contents.hlo.take(plane)
    elif plane.name.startswith("/host:"):
        contents.host.append(plane)
    contents.tpu |= _TPU_PLANE.match(plane.name) is not None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kind:
    """What kernels of one name and with equal statistics share; the correlation id is not among these.

    Compared by identity: shapes deep inside would be hashed for every event.
    """

    name: str
    op: str | None
    layer: str | None
    operation: Operation
    occurrences: int


@final
class _GpuPlane:
    """The kernels of one GPU."""

    def __init__(self, device: int, plane: Plane, contents: _Contents, report: Callable[[int], None]) -> None:
        self._report = report
        self._device = device
        self._plane = plane
        self._contents = contents
        self._names: dict[int, tuple[str, dict[str, Value]]] = {}
        self._kinds: dict[tuple[int, int, tuple[bytes, ...]], _Kind] = {}
        self._by_bytes: dict[tuple[int, bytes], _Kind] = {}
        self._correlation = plane.prefix_of("correlation_id")
        self._damaged = 0

    def add_to(self, rows: Rows, host: HostSteps) -> frozenset[int]:
        """Add the kernels; give the numbers of the steps in which they may be."""
        streams, own_steps = self._lines()
        for stream, line in streams:
            sums: dict[tuple[_Kind, int | None], list[int]] = {}
            for event, kind, correlation in self._kernels(line, wanted=bool(host.steps.extents)):
                if own_steps.extents:
                    step = own_steps.at(line.timestamp_ns * _PS_PER_NS + event.offset_ps)
                else:
                    step = host.at_launch(correlation)
                total = sums.setdefault((kind, step), [0, 0])
                if event.duration_ps < 0:
                    rows.refused += 1
                    continue
                total[0] += kind.occurrences
                total[1] += event.duration_ps
            for (kind, step), (count, duration_ps) in sums.items():
                place = (self._device, stream, step, kind.op, kind.layer)
                launch = Launch(kind.name, *place, kind.operation.shapes, kind.operation.dtypes)
                if count:
                    rows.add(launch, count=count, duration_ns=duration_ps / _PS_PER_NS)
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

    def _kernels(self, line: Line, *, wanted: bool) -> Iterator[tuple[Event, _Kind, int | None]]:
        """Yield the kernels of a line, each with its kind and, if wanted, its correlation id."""
        try:
            for index, place in enumerate(self._plane.events_of(line)):
                if index % _REPORT_EVERY == 0:
                    self._report(place.begin)
                try:
                    event = self._plane.event(place)
                    kind, correlation = self._kind_of(event, wanted=wanted)
                except WireError:
                    kind, correlation, event = None, None, None
                if event is None or kind is None or place.begin == place.end:  # zeros where events should be
                    self._damaged += 1
                    if self._damaged > _limits.MAX_DAMAGED:
                        return
                elif not _NO_KERNEL.match(kind.name):
                    yield event, kind, correlation
        except WireError:
            self._damaged += 1

    def _kind_of(self, event: Event, *, wanted: bool) -> tuple[_Kind, int | None]:
        """Give the kind of a kernel and, if wanted, its correlation id, which alone tells its events apart."""
        own, shared = b"", event.rest
        prefix = self._correlation
        if prefix is not None and len(shared) > 2 and shared[1] < 0x80 and shared.startswith(prefix, 2):
            # Profilers write it first: what follows is known byte for byte.
            end = 2 + shared[1]
            own, shared = shared[2:end], shared[end:]
        kind = self._by_bytes.get((event.metadata, shared))
        if kind is None:
            raws, occurrences = self._plane.rest_of(event)
            if prefix is not None:
                own = next((raw for raw in raws if raw.startswith(prefix)), b"")
                raws = tuple(raw for raw in raws if not raw.startswith(prefix))
            kind = self._kinds.get((event.metadata, occurrences, raws))
            if kind is None:
                name, known = self._named(event.metadata)
                kind = self._kind(name, known | self._plane.decode(raws), occurrences)
                if len(self._kinds) < _limits.MAX_ROWS:
                    self._kinds[event.metadata, occurrences, raws] = kind
            if len(self._by_bytes) < _MAX_BY_BYTES:
                self._by_bytes[event.metadata, shared] = kind
        if not wanted or not own:
            return kind, None
        return kind, integer(self._plane.decode((own,)).get("correlation_id"))

    def _named(self, metadata: int) -> tuple[str, dict[str, Value]]:
        """Give name and statistics that all events of one metadata share."""
        named = self._names.get(metadata)
        if named is None:
            name, stats = self._plane.metadata_of(metadata)
            named = self._names[metadata] = (name.strip(), self._plane.decode(stats))
        return named

    def _kind(self, name: str, stats: dict[str, Value], occurrences: int) -> _Kind:
        hlo_op = _string(stats.get("hlo_op"))
        operation = self._contents.hlo.operation(
            _string(stats.get("hlo_module")), integer(stats.get("program_id")), hlo_op
        )
        scope = operation.scope or _string(stats.get("name")) or ""
        layer, op = split_scope(_string(stats.get("tf_op")) or "", scope)
        if operation.product and not (op and _PRODUCT.search(op)):
            # XLA keeps the name of whatever it merged into the product, often a transpose.
            op = operation.product
        return _Kind(name=name, op=op or hlo_op, layer=layer, operation=operation, occurrences=occurrences)


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

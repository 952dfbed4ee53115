"""PyTorch's profiler: a Kineto trace, ``.pt.trace.json`` or ``.json.gz``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mixte.profiles import _limits
from mixte.profiles._dtype import spell
from mixte.profiles._model import Gpu, Profile, Vendor, Weight
from mixte.profiles.readers._kineto_events import Collection, Event
from mixte.profiles.readers._kineto_links import Links, link
from mixte.profiles.readers._kineto_ranges import add_ranges
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._trace_events import (
    NONE_READ,
    incompleteness,
    open_events,
    surroundings,
    whole_number,
)

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

Shapes = tuple[tuple[int, ...], ...] | None
Dtypes = tuple[str | None, ...] | None


class _Device(msgspec.Struct, gc=False):
    id: int | None = None
    name: str | None = None
    major: int | None = msgspec.field(name="computeMajor", default=None)
    minor: int | None = msgspec.field(name="computeMinor", default=None)


class _Rank(msgspec.Struct, gc=False):
    rank: int | None = None


class _Surroundings(msgspec.Struct, gc=False):
    devices: list[_Device] | None = msgspec.field(name="deviceProperties", default=None)
    distributed: _Rank | None = msgspec.field(name="distributedInfo", default=None)
    cuda: int | float | str | None = msgspec.field(name="cuda_runtime_version", default=None)
    cupti: int | float | str | None = msgspec.field(name="cupti_version", default=None)
    hip: int | float | str | None = msgspec.field(name="hip_runtime_version", default=None)
    roctracer: int | float | str | None = msgspec.field(name="roctracer_version", default=None)


def read(source: Source) -> Profile:
    """Read a Kineto trace."""
    collection = Collection()
    events = open_events(source, Event)
    for batch in events.batches():
        collection.take(batch)
    surrounding = surroundings(events, _Surroundings)
    vendor = _vendor(surrounding, collection)
    rows = Rows()
    weight = Weight.TIME
    notes: list[str] = []
    if collection.kernels:
        links = link(collection)
        _add_kernels(rows, collection, links)
        notes += _notes(collection, links)
    elif "cuda_profiler_range" in collection.categories:
        weight = Weight.LAUNCHES
        add_ranges(rows, source)
        notes.append("the file holds CUPTI counter ranges instead of kernel times: shares are of launches")
    return Profile(
        format="kineto",
        path=source.path,
        kernels=rows.kernels(),
        weight=weight,
        gpus=_gpus(surrounding, vendor),
        rank=surrounding.distributed.rank if surrounding.distributed else None,
        steps=tuple(sorted({number for _, _, number in (*collection.steps, *collection.gpu_steps)})),
        producer="PyTorch profiler",
        no_kernels_reason=_why_no_kernels(collection, surrounding, complete=events.complete)
        if not len(rows)
        else None,
        missing=(*source.damage, *incompleteness(events), *rows.missing()),
        notes=tuple(notes),
    )


def _add_kernels(rows: Rows, collection: Collection, links: Links) -> None:
    kernels, operators = collection.kernels, collection.operators
    rows.overflow += collection.dropped_kernels
    sums: dict[tuple[str, int, int | None, str | None, str | None, int], list[float]] = {}
    for index, duration_us in enumerate(kernels.duration_us):
        operator = links.operators[index]
        key = (
            kernels.names[index],
            kernels.places[index],
            links.steps[index],
            None if operator is None else operators.ranges.names[operator],
            links.layers[index],
            0 if operator is None else operators.inputs[operator],
        )
        total = sums.get(key)
        if total is None:
            total = sums[key] = [0, 0.0]
        if duration_us >= 0:
            total[0] += 1
            total[1] += duration_us
        else:
            rows.refused += 1
    places, inputs = collection.places.values(), collection.inputs.values()
    for (name, place, step, op, layer, input_number), (count, duration_us) in sums.items():
        device, stream = places[place]
        shapes, dtypes = tensor_inputs(*inputs[input_number])
        launch = Launch(
            name.strip(), whole_number(device), whole_number(stream), step, op, layer, shapes, dtypes
        )
        if count:
            rows.add(launch, count=int(count), duration_ns=duration_us * 1000)
    for (name, place), (number, duration_us) in collection.unlinked.items():
        device, stream = places[place]
        launch = Launch(name.strip(), whole_number(device), whole_number(stream))
        rows.add(launch, count=number, duration_ns=duration_us * 1000)


def tensor_inputs(shapes: bytes, dtypes: bytes) -> tuple[Shapes, Dtypes]:
    """Read ``Input Dims`` and ``Input type`` of an operator, keeping tensors only.

    Args:
        shapes: JSON such as ``[[64, 768], [768, 768], [], []]``; a list of tensors is a list of such lists. Empty
            if not recorded.
        dtypes: JSON such as ``["c10::Half", "c10::Half", "Scalar", ""]``; empty if not recorded.
    """
    try:
        dims = msgspec.json.decode(shapes, type=list[object]) if shapes else []
        types = msgspec.json.decode(dtypes, type=list[object]) if dtypes else []
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None, None
    kept_shapes: list[tuple[int, ...]] = []
    kept_dtypes: list[str | None] = []
    for position, dim in enumerate(dims):
        written = types[position] if position < len(types) else None
        dtype = spell(written) if isinstance(written, str) else None
        for shape in _shapes_of(dim):
            if shape or dtype is not None:
                kept_shapes.append(shape)
                kept_dtypes.append(dtype)
    if not kept_shapes:
        return None, None
    return tuple(kept_shapes), tuple(kept_dtypes) if any(kept_dtypes) else None


def _shapes_of(dim: object) -> list[tuple[int, ...]]:
    """Give the shape that an input has, or the shapes of a list of tensors."""
    try:
        return [msgspec.convert(dim, tuple[int, ...])]
    except msgspec.ValidationError:
        pass
    try:
        return [shape for shape in msgspec.convert(dim, list[tuple[int, ...]]) if shape]
    except msgspec.ValidationError:
        return []


def _vendor(surrounding: _Surroundings, collection: Collection) -> Vendor | None:
    names = " ".join(device.name or "" for device in surrounding.devices or ()).lower()
    calls = set(collection.launches.names)
    if surrounding.hip is not None or surrounding.roctracer is not None or "amd " in names:
        return "amd"
    if any(word in names for word in ("nvidia", "tesla", "geforce", "quadro")):
        return "nvidia"
    if surrounding.cuda is not None or surrounding.cupti is not None:
        return "nvidia"
    if any(call.startswith("hip") for call in calls):
        return "amd"
    return "nvidia" if any(call.startswith("cu") for call in calls) else None


def _gpus(surrounding: _Surroundings, vendor: Vendor | None) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            index=device.id if device.id is not None else index,
            name=(device.name or "").strip() or None,
            compute_capability=(device.major, device.minor) if device.minor is not None else None,
            vendor=vendor,
        )
        for index, device in enumerate(surrounding.devices or ())
        # Accelerators that are no GPU (MTIA) have no compute capability.
        if device.major is not None
    )


def _why_no_kernels(collection: Collection, surrounding: _Surroundings, *, complete: bool) -> str:
    if not complete:
        return NONE_READ
    categories = {category.lower() for category in collection.categories}
    if any(category.startswith("mtia") for category in categories):
        names = ", ".join(sorted({device.name for device in surrounding.devices or () if device.name}))
        return f"the trace is of an MTIA accelerator ({names or 'not named'}), not of a GPU"
    if any(category.startswith("gpu_mem") or category in {"memcpy", "memset"} for category in categories):
        return "the GPU did nothing but copy and set memory"
    if categories & {"cuda_runtime", "cuda_driver", "runtime"}:
        return "the file holds calls to the GPU's runtime but no kernels: record ProfilerActivity.CUDA"
    if categories & {"cpu_op", "operator", "user_annotation", "python_function"}:
        return "the file holds what the CPU did, and nothing of a GPU"
    return "the file holds no kernels"


def _notes(collection: Collection, links: Links) -> list[str]:
    notes: list[str] = []
    if any("GraphLaunch" in name for name in set(collection.launches.names)):
        notes.append("kernels of a CUDA or HIP graph belong to one launch: their operators are not recorded")
    if links.unlaunched and collection.launches:
        notes.append(
            f"{links.unlaunched} of {len(collection.kernels)} kernels were launched outside the recorded window"
        )
    if collection.dropped_ranges or collection.unlinked:
        notes.append(
            f"operators are looked for among the first {_limits.MAX_LINKED_RANGES} kernels and operators only"
        )
    return notes

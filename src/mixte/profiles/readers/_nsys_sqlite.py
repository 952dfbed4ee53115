"""Nsight Systems, exported with ``nsys export --type sqlite``.

Schema: Nsight Systems user guide, "SQLite Schema Reference"; columns are selected by name, since every release
adds some. NVIDIA's export lists all GPUs of the host, or, in some files, none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles import _limits
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._nsys_links import NsysLinks
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._sqlite import Database, whole

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"


def read(source: Source) -> Profile:
    """Read an export of Nsight Systems."""
    with Database.of(source) as database:
        names = database.strings("StringIds", "id", "value")
        rows = Rows()
        notes: list[str] = []
        steps: tuple[int, ...] = ()
        refusal = _why_not_linked(database)
        if refusal is None:
            links = NsysLinks(database, names)
            steps = links.steps
            links.add_to(rows, names)
        elif _KERNELS in database.tables:
            _add_sums(rows, database, names)
            notes += [refusal] if refusal else []
        return Profile(
            format="nsys_sqlite",
            path=source.path,
            kernels=rows.kernels(),
            gpus=_gpus(database),
            steps=steps,
            producer=_producer(database),
            no_kernels_reason=None if len(rows) else _why_no_kernels(database),
            missing=(*source.damage, *database.damage, *_graphs(database), *rows.unnamed(), *rows.missing()),
            notes=tuple(notes),
        )


def _why_not_linked(database: Database) -> str | None:
    """Tell why kernels are summed up without what they belong to; empty if there is nothing, None to link them."""
    launches = database.count(_KERNELS)
    ranges, calls = database.count("NVTX_EVENTS"), database.count("CUPTI_ACTIVITY_KIND_RUNTIME")
    if not launches or not ranges or calls is None:
        return ""
    if launches > _limits.MAX_LINKED_LAUNCHES or ranges + calls > _limits.MAX_LINKED_RANGES:
        return (
            f"operators and steps are left out: the file has {launches} kernels, {ranges} NVTX ranges and {calls} "
            f"CUDA calls (they are looked up below {_limits.MAX_LINKED_LAUNCHES} kernels)"
        )
    return None


def name_column(database: Database) -> str:
    """Name the column with the longest form of a kernel's name: ``shortName`` lacks template arguments."""
    present = database.columns(_KERNELS)
    return next(
        (column for column in ("demangledName", "mangledName", "shortName") if column in present), "name"
    )


def _add_sums(rows: Rows, database: Database, names: dict[int, str]) -> None:
    keys = (name_column(database), "deviceId", "streamId")
    for (name, device, stream), (count, time_ns) in database.sums(_KERNELS, keys).items():
        launch = Launch(kernel_name(names, name), device=whole(device), stream=whole(stream))
        rows.add(launch, count=count, duration_ns=time_ns)


def kernel_name(names: dict[int, str], written: object) -> str:
    """Give a kernel's name, which is an id of ``StringIds``."""
    return names.get(written, "").strip() if isinstance(written, int) else str(written or "").strip()


def _gpus(database: Database) -> tuple[Gpu, ...]:
    columns = ("cuDevice", "id", "name", "chipName", "computeMajor", "computeMinor")
    found: list[Gpu] = []
    for cuda, identifier, name, chip, major, minor in database.rows("TARGET_INFO_GPU", columns):
        index = whole(cuda) if whole(cuda) is not None else whole(identifier)
        if index is not None:
            # smMajor and smMinor are another thing: an RTX 5060 Ti has 10.4 there and computes as 12.0.
            capability = (major, minor) if isinstance(major, int) and isinstance(minor, int) else None
            found.append(
                Gpu(
                    index=index,
                    name=str(name).strip() or None if name is not None else None,
                    compute_capability=capability,
                    vendor="nvidia",
                    chip=str(chip).strip() or None if chip is not None else None,
                )
            )
    return tuple(found)


def _producer(database: Database) -> str:
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        for name, value in database.rows(table, ("name", "value")):
            if name == "EXPORT_PRODUCT_VERSION":
                return f"Nsight Systems {value}"
    return "Nsight Systems"


def _graphs(database: Database) -> list[str]:
    """Say what is hidden in CUDA graphs that were traced as a whole."""
    if not database.count(_GRAPHS):
        return []
    count, time_ns = database.sums(_GRAPHS, ("NULL",)).get((None,), (0, 0))
    hidden = f"{count} CUDA graphs ({time_ns / 1e6:.3f} ms) were traced as a whole"
    return [f"{hidden}, their kernels are not in the file: profile with --cuda-graph-trace=node"]


def _why_no_kernels(database: Database) -> str:
    if _KERNELS in database.tables:
        return "the file's table of kernels is empty"
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in database.tables:
        return "no kernels were recorded: the file holds CUDA calls only"
    return "no kernels were recorded: profile with --trace=cuda"

"""DLProf's database, ``dlprof_dldb.sqlite``.

Tables: ``read_only_kernels`` (names are ids of ``dictionary``), ``read_only_gpu_infos``, ``op_nodes`` with what
DLProf found out about each operator, ``read_only_ops`` with its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles._dtype import spell
from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._sqlite import Database, whole

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source


def read(source: Source) -> Profile:
    """Read DLProf's database."""
    with Database.of(source) as database:
        names = database.strings("dictionary", "id", "string")
        rows = Rows()
        _add_kernels(rows, database, names)
        return Profile(
            format="dlprof",
            path=source.path,
            kernels=rows.kernels(),
            gpus=_gpus(database, names),
            producer="DLProf",
            no_kernels_reason=None if len(rows) else "DLProf recorded no kernels",
            missing=(*source.damage, *database.damage, *rows.missing()),
        )


def _add_kernels(rows: Rows, database: Database, names: dict[int, str]) -> None:
    ops = _ops(database, names)
    eligible = {
        op: bool(value)
        for op, value in database.rows("op_nodes", ("op_id", "tc_eligible"))
        if isinstance(op, int) and isinstance(value, int)
    }
    columns = ("name_id", "long_name_id", "uses_tc", "gpu_start", "gpu_stop", "device_id", "op_id")
    for short, long, uses, start, stop, device, op in database.rows("read_only_kernels", columns):
        if not (isinstance(start, int) and isinstance(stop, int)):
            continue
        name = (names.get(long) if isinstance(long, int) else None) or (
            names.get(short, "") if isinstance(short, int) else ""
        )
        op_name, dtypes = ops.get(op, (None, None)) if isinstance(op, int) else (None, None)
        launch = Launch(
            name.strip(),
            device=whole(device),
            op=op_name,
            input_dtypes=dtypes,
            uses_tensor_cores=bool(uses) if isinstance(uses, int) else None,
            eligible=eligible.get(op) if isinstance(op, int) else None,
        )
        rows.add(launch, count=1, duration_ns=stop - start)


def _ops(
    database: Database, names: dict[int, str]
) -> dict[int, tuple[str | None, tuple[str | None, ...] | None]]:
    found: dict[int, tuple[str | None, tuple[str | None, ...] | None]] = {}
    for op, name, data_type in database.rows("read_only_ops", ("id", "op_name", "data_type_id")):
        if isinstance(op, int):
            written = names.get(name) if isinstance(name, int) else name if isinstance(name, str) else None
            dtype = spell(names.get(data_type, "")) if isinstance(data_type, int) else None
            found[op] = (written or None, None if dtype is None else (dtype,))
    return found


def _gpus(database: Database, names: dict[int, str]) -> tuple[Gpu, ...]:
    columns = ("device_id", "id", "name_id", "name", "compute_capability_major", "compute_capability_minor")
    gpus: list[Gpu] = []
    for device, identifier, name_id, name, major, minor in database.rows("read_only_gpu_infos", columns):
        index = whole(device) if whole(device) is not None else whole(identifier)
        if index is not None:
            written = (
                names.get(name_id) if isinstance(name_id, int) else name if isinstance(name, str) else None
            )
            capability = (major, minor) if isinstance(major, int) and isinstance(minor, int) else None
            gpus.append(Gpu(index=index, name=written or None, compute_capability=capability, vendor="nvidia"))
    return tuple(gpus)

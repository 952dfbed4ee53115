"""nvprof's database, ``.nvvp`` or ``.nvprof``: CUPTI's activity records in SQLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles._model import Gpu, Profile
from mixte.profiles.readers._rows import Launch, Rows
from mixte.profiles.readers._sqlite import Database, whole

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

# Which of the two a kernel is in depends on whether it could overlap with others: both are read.
_TABLES = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")


def read(source: Source) -> Profile:
    """Read a database of nvprof."""
    with Database.of(source) as database:
        names = database.strings("StringTable", "_id_", "value")
        rows = Rows()
        for table in _TABLES:
            if table not in database.tables:
                continue
            sums = database.sums(table, ("name", "deviceId", "streamId"))
            for (name, device, stream), (count, time_ns) in sums.items():
                written = names.get(name, "") if isinstance(name, int) else str(name or "")
                launch = Launch(written.strip(), device=whole(device), stream=whole(stream))
                rows.add(launch, count=count, duration_ns=time_ns)
        return Profile(
            format="nvvp",
            path=source.path,
            kernels=rows.kernels(),
            gpus=_gpus(database, names),
            producer="nvprof",
            no_kernels_reason=None if len(rows) else "nvprof recorded no kernels",
            missing=(*source.damage, *database.damage, *rows.unnamed(), *rows.missing()),
        )


def _gpus(database: Database, names: dict[int, str]) -> tuple[Gpu, ...]:
    columns = ("id", "name", "computeCapabilityMajor", "computeCapabilityMinor")
    return tuple(
        Gpu(
            index=index,
            name=(names.get(name) if isinstance(name, int) else str(name or "")) or None,
            compute_capability=(major, minor) if isinstance(major, int) and isinstance(minor, int) else None,
            vendor="nvidia",
        )
        for index, name, major, minor in database.rows("CUPTI_ACTIVITY_KIND_DEVICE", columns)
        if isinstance(index, int)
    )

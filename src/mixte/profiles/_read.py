"""Read one profile, whatever profiler wrote it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol, cast

from mixte._errors import ProfileError
from mixte.profiles._recognise import SQLITE_MAGIC, advice_for, format_of
from mixte.profiles.readers._source import Source

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from mixte.profiles._model import Format, Profile, Progress

# Format -> module in mixte.profiles.readers, imported only when a file of that format is read.
_READERS: dict[Format, str] = {
    "dlprof": "_dlprof",
    "kineto": "_kineto",
    "ncu_csv": "_ncu_csv",
    "ncu_text": "_ncu_text",
    "nsys_sqlite": "_nsys_sqlite",
    "nsys_stats_csv": "_nsys_stats_csv",
    "nsys_stats_text": "_nsys_stats_text",
    "nvprof_csv": "_nvprof_csv",
    "nvprof_text": "_nvprof_text",
    "nvvp": "_nvvp",
    "rocprof": "_rocprof",
    "tf_trace_json": "_tf_trace",
    "torch_table": "_torch_table",
    "xplane": "_xplane",
}


class _Reader(Protocol):
    def read(self, source: Source) -> Profile: ...


def read_profile(path: str | os.PathLike[str], *, progress: Progress | None = None) -> Profile:
    """Read a profile into rows of kernels.

    Args:
        path: A file of any format of `Format`, recognised by its content; gzip is unpacked. Nsight's binary
            reports must be exported first, which the error explains.
        progress: Called every few megabytes with the fraction of the file that has been read, 0 to 1.

    Returns:
        The kernels with what the file says about them. A file that is cut off or damaged gives what could be
        read, and says in `Profile.missing` what could not.

    Raises:
        ProfileError: The file cannot be opened, has no format that mixte reads, or is damaged beyond use.

    Example:
        >>> profile = read_profile("resnet50.pt.trace.json.gz")  # doctest: +SKIP
        >>> profile.format, profile.gpu_time_ns  # doctest: +SKIP
        ('kineto', 162532340)
    """
    from pathlib import Path  # noqa: PLC0415 - keeps the module free of work at import

    file = Path(path)
    try:
        source = Source(file, progress)
        found = format_of(source)
        if found is None:
            raise ProfileError(_unknown(file, source))
        reader = cast("_Reader", importlib.import_module(f"mixte.profiles.readers.{_READERS[found]}"))
        return reader.read(source)
    except OSError as error:
        raise ProfileError(f"{file} cannot be read: {error.strerror or error}.") from error
    except RecursionError as error:
        raise ProfileError(f"{file} is nested too deeply for a profile: it is damaged.") from error


def _unknown(path: Path, source: Source) -> str:
    head = source.head()
    if source.head_damage:
        return f"{path} cannot be unpacked: {source.head_damage[0]}."
    if not head:
        return f"{path} is empty."
    advice = advice_for(head)
    if advice is None and path.suffix in {".nsys-rep", ".qdrep", ".qdstrm"}:
        advice = advice_for(b"NVIDIA Tegra Profiler Report")
    if advice is None and path.suffix == ".ncu-rep":
        advice = advice_for(b"NVR\x00")
    if advice is not None:
        return f"{path} {advice.replace('FILE', str(path))}"
    if head.startswith(SQLITE_MAGIC):
        return f"{path} is an SQLite file that no profiler wrote, or a damaged one. Export the profile again."
    return (
        f"{path} is no profile that mixte reads. It reads nvprof, Nsight Systems (sqlite, stats), Nsight Compute "
        "(CSV, text), PyTorch traces and tables, XPlane, TensorFlow and JAX traces, DLProf and rocprofv3."
    )

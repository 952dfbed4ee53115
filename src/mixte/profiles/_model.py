"""What a reader returns: one profile as rows of kernels, whatever profiler wrote it.

The contract between the readers (``mixte.profiles.readers``) and the verdict:

- A reader reports what the file says and decides nothing. It never guesses: what the file does not hold is
  ``None`` (or an empty tuple), never ``-1``, ``0`` or a default.
- Only kernels are rows. Copies, memory sets, runtime calls, operator rows that repeat the time of their
  kernels, and derived timelines (steps, modules, annotations on the GPU track) are left out.
- A row stands for every launch that agrees in all fields but ``count`` and ``duration_ns``: a reader adds
  launches up while it reads and builds one `Kernel` per group, so that a million launches cost a few thousand
  rows. Leave a field ``None`` rather than split rows by something that the file does not tell. Only a launch
  with counters of its own may be a row of its own.
- A file without kernels is a valid answer: a `Profile` without rows and with ``no_kernels_reason``. A file cut
  off in the middle is a `Profile` with what could be read and a sentence in ``missing``. A file that cannot be
  read at all is a `mixte.ProfileError`.

The entry is ``read_profile(path, *, progress=None) -> Profile``; ``progress`` is a `Progress` that a reader may
call.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Format = Literal[
    "dlprof",
    "kineto",
    "ncu_csv",
    "ncu_text",
    "nsys_sqlite",
    "nsys_stats_csv",
    "nsys_stats_text",
    "nvprof_csv",
    "nvprof_text",
    "nvvp",
    "rocprof",
    "tf_trace_json",
    "torch_table",
    "xplane",
]
"""The formats by the names that the JSON output uses."""

Vendor = Literal["nvidia", "amd"]

Progress = Callable[[float], None]
"""Called by a reader every few megabytes with the fraction of the file that has been read, 0 to 1."""


class Weight(Enum):
    """What the share of a kernel is measured in."""

    TIME = "time"
    """`Kernel.duration_ns`; every row has one."""

    LAUNCHES = "launches"
    """`Kernel.count`: the file holds no durations (nvprof metrics, CUPTI ranges, ncu without a time metric)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU as the file describes it.

    Attributes:
        index: The number by which `Kernel.device` refers to it.
        name: The product name, as written, for example ``"NVIDIA A100-SXM4-80GB"``; None if not named or empty.
        compute_capability: ``(major, minor)`` as written. For AMD GPUs profilers write the architecture in the
            same fields (9.0 = gfx90a, 9.4 = gfx942, 9.5 = gfx950): set `vendor`, so that nobody takes it for
            NVIDIA's.
        vendor: None if the file does not tell (the kernel names will).
        architecture: AMD's ``"gfx942"`` and the like, where written.
        chip: NVIDIA's chip name, such as ``"GA102"`` or ``"TU116"``, where written (nsys).
    """

    index: int
    name: str | None = None
    compute_capability: tuple[int, int] | None = None
    vendor: Vendor | None = None
    architecture: str | None = None
    chip: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerStatement:
    """What the profiler itself says about Tensor Cores for this row (only DLProf does).

    Attributes:
        uses_tensor_cores: DLProf's "Uses TC" of the kernel (of the kernel, not of its op).
        eligible: Whether the op could use them ("TC Eligible"); None if not stated.
    """

    uses_tensor_cores: bool | None = None
    eligible: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """All launches of one kernel that agree in every field below but `count` and `duration_ns`.

    Attributes:
        name: The longest form of the name that the file holds, as written (mangled, demangled or cut), stripped
            of surrounding white space. The empty string where the file has none.
        count: Launches; None where the file does not count them (DLProf).
        duration_ns: Sum of the GPU durations of these launches in nanoseconds, rounded once, after adding up;
            None where `Profile.weight` is not time.
        device: `Gpu.index` of the GPU it ran on.
        stream: CUDA or HIP stream number.
        step: Number of the training or profiler step in which it was launched (Kineto ``ProfilerStep#7``, the
            ``Steps`` line of XPlane); one of `Profile.steps`.
        op: The framework's operator that launched it, innermost: ``aten::mm``, ``dot_general``, ``conv2d``.
        layer: The layer, module path, name scope or NVTX range it belongs to, outermost to innermost, joined by
            ``"/"``.
        input_shapes: Of the op's tensor inputs, in order; None where the file does not record them.
        input_dtypes: Aligned with `input_shapes` (or alone), spelled as `mixte.profiles._dtype.spell` does:
            ``float32``, ``bfloat16``, ``float8_e4m3fn``; None for an input of unknown or unlisted type.
        threads_per_launch: Grid size x block size, for the counter rules; set it only where `counters` is set.
        counters: Hardware counters by the profiler's own metric name: the value for ONE launch (the average
            where the file averages several). Keep every metric for which `mixte.profiles._counters.is_evidence`
            is true, the zeros too: "0 tensor instructions" is evidence. nvprof's levels, ``Max (10)``, are the
            number in brackets (of its Max column). None where no such metric was collected.
        statement: What the profiler says itself.
    """

    name: str
    count: int | None
    duration_ns: int | None
    device: int | None = None
    stream: int | None = None
    step: int | None = None
    op: str | None = None
    layer: str | None = None
    input_shapes: tuple[tuple[int, ...], ...] | None = None
    input_dtypes: tuple[str | None, ...] | None = None
    threads_per_launch: int | None = None
    counters: Mapping[str, float] | None = None
    statement: ProfilerStatement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One profile file.

    Attributes:
        format: Which reader understood it.
        path: The file, as given.
        kernels: The rows. Empty together with `no_kernels_reason`.
        weight: What the shares are measured in.
        gpus: Every GPU that the file describes, used or not.
        rank: Of the process among those of a distributed run, where written (Kineto ``distributedInfo``).
        steps: Numbers of the steps marked in the file, ascending; empty where it marks none.
        producer: The profiler's name and version, where written, for example ``"Nsight Systems 2024.5.1"``.
        no_kernels_reason: Why there are no kernels, as a clause: ``"the file holds CPU operators only"``.
        missing: One sentence for each thing that should be in the file but is not (cut off, row limit, event
            cap, bytes that could not be decoded). The profile is partial if there is any.
        notes: One sentence for each thing that a reader of the verdict should know and that loses nothing, for
            example which of two tables was used or what a time was computed from.
    """

    format: Format
    path: Path
    kernels: tuple[Kernel, ...]
    weight: Weight = Weight.TIME
    gpus: tuple[Gpu, ...] = ()
    rank: int | None = None
    steps: tuple[int, ...] = ()
    producer: str | None = None
    no_kernels_reason: str | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether something that should be in the file is not."""
        return bool(self.missing)

    @property
    def gpu_time_ns(self) -> int | None:
        """Sum of the kernels' durations over all devices and streams, in nanoseconds; None without durations.

        Copies and memory sets are not kernels. With several streams the sum exceeds the time that passed.
        """
        if self.weight is not Weight.TIME or not self.kernels:
            return None
        return sum(kernel.duration_ns for kernel in self.kernels if kernel.duration_ns is not None)

"""What the CPU did in a profile: the time of the framework's operations, and how much of it was matrix work.

A profile that was taken on a machine without a GPU says nothing of Tensor Cores, but it does say which layers
would be theirs.

The time of an operation is measured on the thread that ran it, without the operations that it called itself.
Whatever it hands to a pool of threads is in there as the time that it waited.
"""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol, cast

from mixte._errors import ProfileError
from mixte.profiles._recognise import format_of
from mixte.profiles.readers._source import Source

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mixte.profiles._model import Progress

_READERS: Final = {"kineto": "_kineto_cpu", "xplane": "_xplane_cpu"}

# PyTorch: aten::addmm, aten::mkldnn_convolution, aten::_scaled_dot_product_flash_attention_for_cpu. Not
# aten::upsample_linear1d: the words end at an underscore, or at the end.
_TORCH_MATRIX: Final = re.compile(
    r"(?:^|[:_])(?:(?:add|badd|add)?b?mm|addmv|mv|v?dot|matmul|linear|bilinear|einsum|tensordot)(?:_|$)"
    r"|conv(?:olution)?(?:\dd)?(?:_|$)|attention(?:_|$)"
)
# TensorFlow: MatMul, BatchMatMulV2, _MklNativeFusedConv2D, Conv2DBackpropFilter, DepthwiseConv2dNative. JAX names
# its primitives dot_general and conv_general_dilated.
_OTHER_MATRIX: Final = re.compile(r"MatMul|Conv[123][Dd]|Einsum|Attention|CudnnRNN|^dot_general|^conv_general")


class Work(Enum):
    """What an operation does with its time."""

    MATRIX = "matrix"
    """Matrix products, convolutions, attention: what Tensor Cores could do."""

    OTHER = "other"
    """Anything else."""

    UNKNOWN = "unknown"
    """The profile does not tell: a call to a library, or code that a compiler has made of several operations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOperation:
    """All executions of one operation in one place.

    Attributes:
        op: The operation: ``aten::mm``, ``MatMul``, ``dot``.
        scope: Where it belongs to, as the framework writes it: ``"sequential_1/hidden_1"``; None if not told.
        work: What it does.
        count: Executions.
        duration_ns: Their time, without that of the operations that they called.
    """

    op: str
    scope: str | None
    work: Work
    count: int
    duration_ns: int


class _Reader(Protocol):
    def read_cpu(self, source: Source) -> tuple[CpuOperation, ...]: ...


def read_cpu_operations(path: Path, *, progress: Progress | None = None) -> tuple[CpuOperation, ...]:
    """Read the operations that ran on the CPU; where the file marks steps, those that began in one.

    Args:
        path: A Kineto trace of PyTorch, or an XPlane file of TensorFlow or JAX.
        progress: Called with the fraction of the file that has been read.

    Returns:
        The operations, the longest first. Empty if the file holds none.

    Raises:
        ProfileError: The file cannot be read, or has another format.
    """
    try:
        source = Source(path, progress)
        found = format_of(source)
        if found not in _READERS:
            raise ProfileError(
                f"{path} does not tell what the CPU did. PyTorch's Kineto traces and .xplane.pb do."
            )
        reader = cast("_Reader", importlib.import_module(f"mixte.profiles.readers.{_READERS[found]}"))
        return reader.read_cpu(source)
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror or error}.") from error


def torch_work(name: str) -> Work:
    """Tell what an operator of PyTorch does, by its name."""
    if "::" not in name or name.startswith("autograd::"):  # MmBackward0 calls aten::mm for its work
        return Work.UNKNOWN if "Compiled" in name else Work.OTHER
    return Work.MATRIX if _TORCH_MATRIX.search(name) else Work.OTHER


def graph_work(op: str) -> Work:
    """Tell what an operation of TensorFlow's or JAX's does, by its type."""
    return Work.MATRIX if _OTHER_MATRIX.search(op) else Work.OTHER


class Executions:
    """Adds single executions up to operations."""

    def __init__(self) -> None:
        self._sums: defaultdict[tuple[str, str | None, Work], list[float]] = defaultdict(lambda: [0, 0.0])

    def add(self, op: str, scope: str | None, work: Work, duration_ns: float) -> None:
        """Add one execution, by the time that it took itself."""
        total = self._sums[op, scope, work]
        total[0] += 1
        total[1] += max(duration_ns, 0.0)

    def operations(self) -> tuple[CpuOperation, ...]:
        """Give the operations, the longest first."""
        operations = (
            CpuOperation(op=op, scope=scope, work=work, count=int(count), duration_ns=round(duration_ns))
            for (op, scope, work), (count, duration_ns) in self._sums.items()
        )
        return tuple(sorted(operations, key=lambda one: (-one.duration_ns, one.op, one.scope or "")))


def time_by_work(operations: Iterable[CpuOperation]) -> dict[Work, int]:
    """Add the time of operations up by what they do, in nanoseconds."""
    times = dict.fromkeys(Work, 0)
    for operation in operations:
        times[operation.work] += operation.duration_ns
    return times

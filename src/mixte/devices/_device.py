"""What an accelerator is: its name, its generation, its memory and its peak rates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal

from mixte._errors import InputError

if TYPE_CHECKING:
    from mixte.devices._figure import Figure, Source

NumberFormat = Literal["float32", "tf32", "float16", "bfloat16", "float8", "float4"]
"""The operand types that peaks are published for. ``float8`` stands for E4M3 and E5M2, which run equally fast."""


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """NVIDIA's number for what a GPU's multiprocessors can do, such as 7.5.

    Compared as two integers: 10.0 comes after 9.0.
    """

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> ComputeCapability:
        """Read ``"7.5"``.

        Raises:
            InputError: The text is not two integers with a point between.
        """
        major, point, minor = text.strip().partition(".")
        if not point or not major.isdecimal() or not minor.isdecimal():
            raise InputError(f"{text!r} is not a compute capability; write it as in 7.5")
        return cls(int(major), int(minor))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class ComputeUnit(Enum):
    """Which part of the device reaches a peak."""

    VECTOR = "vector"
    """CUDA cores; stream processors on AMD."""

    MATRIX = "matrix"
    """Tensor Cores; matrix cores on AMD, matrix units on a TPU. Only matrix products and convolutions use them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A nameplate rate: dense, a multiply-add counted as two operations, at the boost clock.

    Attributes:
        ops_per_s: Operations a second.
        unit: What reaches it.
        input: The type of the operands.
        accumulate: The type of the running sum. On GeForce boards the rate with float32 is half of that with
            float16.
        source: Who says so.
        verified: As for ``Figure``.
        clock_hz: The clock at which it holds, where that is not the device's boost clock.
        note: What else to know about the figure.
    """

    ops_per_s: float
    unit: ComputeUnit
    input: NumberFormat
    accumulate: NumberFormat
    source: Source
    verified: bool
    clock_hz: float | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedTraining:
    """How much faster published mixed-precision trainings ran on the device than the same training without.

    Attributes:
        median: Throughput mixed over throughput baseline, median over the pairs.
        pairs: How many pairs.
        baseline: Precision of the baseline: on recent GPUs the published one is TF32.
        quartiles: The middle half of the pairs lies between these.
        range: Smallest and largest.
        note: What the pairs are, where they are not a mixture of models.
        source: Where the pairs were published.
    """

    median: float
    pairs: int
    baseline: NumberFormat
    quartiles: tuple[float, float] | None = None
    range: tuple[float, float] | None = None
    note: str | None = None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A kind of GPU or other accelerator. What is not known is None.

    Attributes:
        name: As the driver prints it, for example ``"Tesla V100-SXM2-16GB"``.
        vendor: ``"NVIDIA"``, ``"AMD"`` or ``"Google"``.
        architecture: The generation, for example ``"Volta"``.
        compute_capability: NVIDIA only.
        aliases: Shorter names for the same board.
        released: Year.
        memory_kind: For example ``"HBM2"``.
        memory_size_bytes: Of the board; a driver leaves somewhat less to programs.
        memory_bandwidth_bytes_per_s: Nameplate.
        l2_cache_bytes: Size of the last cache before memory.
        multiprocessors: Streaming multiprocessors; compute units on AMD.
        vector_lanes: CUDA cores or stream processors.
        tensor_cores: Their number; a value of 0 says that there are none. NVIDIA only.
        boost_clock_hz: The clock that the peaks assume.
        board_power_w: Limit of the whole board.
        peaks: Nameplate rates.
        mixed_training: Measured gains of mixed-precision training.
        note: What else to know about the board or its figures.
    """

    name: str
    vendor: str
    architecture: str | None = None
    compute_capability: ComputeCapability | None = None
    aliases: tuple[str, ...] = ()
    released: int | None = None
    memory_kind: str | None = None
    memory_size_bytes: Figure | None = None
    memory_bandwidth_bytes_per_s: Figure | None = None
    l2_cache_bytes: Figure | None = None
    multiprocessors: Figure | None = None
    vector_lanes: Figure | None = None
    tensor_cores: Figure | None = None
    boost_clock_hz: Figure | None = None
    board_power_w: Figure | None = None
    peaks: tuple[Peak, ...] = ()
    mixed_training: MixedTraining | None = None
    note: str | None = None

    def peak(
        self,
        number_format: NumberFormat,
        *,
        accumulate: NumberFormat | None = None,
        unit: ComputeUnit | None = None,
        allow_unverified: bool = False,
    ) -> Peak | None:
        """Return the highest known peak that fits, or None if there is none.

        Args:
            number_format: Type of the operands.
            accumulate: Type of the running sum; any if None.
            unit: Vector or matrix; any if None.
            allow_unverified: Whether a figure that nobody checked will do. Such a peak says so in ``verified``.
        """
        fitting = [
            peak
            for peak in self.peaks
            if peak.input == number_format
            and accumulate in {None, peak.accumulate}
            and unit in {None, peak.unit}
            and (peak.verified or allow_unverified)
        ]
        return max(fitting, key=lambda peak: peak.ops_per_s, default=None)

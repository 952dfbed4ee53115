"""What ``run.json`` says of the profile that ``mixte run --profile`` took."""

import msgspec


class StepRange(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that follow one another.

    Attributes:
        first: Number of the first, from 1.
        end: One past the number of the last.
    """

    first: int
    end: int


class KernelShares(msgspec.Struct, frozen=True, kw_only=True):
    """Shares of the GPU's kernel time, each in [0, 1], adding up to 1.

    Attributes:
        tensor_core: Matrix work on Tensor Cores.
        cuda_core: Matrix work on CUDA cores.
        unknown: What cannot be told.
        not_matmul: Everything else.
    """

    tensor_core: float
    cuda_core: float
    unknown: float
    not_matmul: float


class LayerTime(msgspec.Struct, frozen=True, kw_only=True):
    """The matrix work of one layer on the CPU.

    Attributes:
        layer: The layer's path in its model; null where the profile does not tell.
        share: Of the time of all operations, in [0, 1].
    """

    layer: str | None
    share: float


class OperationTime(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of operation on the CPU.

    Attributes:
        op: The operation, as the framework names it.
        work: ``"matrix"``, ``"other"`` or ``"unknown"``.
        count: Executions.
        share: Of the time of all operations, in [0, 1].
    """

    op: str
    work: str
    count: int
    share: float


class CpuTime(msgspec.Struct, frozen=True, kw_only=True):
    """What the CPU did, where no GPU did anything.

    Attributes:
        time_ns: Time of all operations, each without those that it called, added up over threads.
        matrix: Share of matrix products, convolutions and attention, in [0, 1].
        unknown: Share of what cannot be told, in [0, 1].
        layers: The layers with matrix work, the one with the most time first.
        operations: The operations with the most time; at most 20.
    """

    time_ns: int
    matrix: float
    unknown: float
    layers: tuple[LayerTime, ...] = ()
    operations: tuple[OperationTime, ...] = ()


class CapturedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The profile of a run. None is unknown, or not there.

    Attributes:
        asked: The steps asked for.
        steps: The steps in the profile; None if there is no profile.
        problem: What kept the profile from holding what was asked for, as a sentence.
        files: Its files, relative to the record.
        device: Name of the GPU.
        gpu_time_ns: Kernel time of the GPU, in the steps.
        gpu_time_outside_ns: Kernel time that the profile does not link to a step: of a validation between steps, say.
        shares: What the kernel time went to; None if no GPU ran a kernel.
        no_kernels_reason: Why there are no kernels.
        cpu: What the CPU did, if there are no kernels.
    """

    asked: StepRange
    steps: StepRange | None = None
    problem: str | None = None
    files: tuple[str, ...] = ()
    device: str | None = None
    gpu_time_ns: int | None = None
    gpu_time_outside_ns: int | None = None
    shares: KernelShares | None = None
    no_kernels_reason: str | None = None
    cpu: CpuTime | None = None

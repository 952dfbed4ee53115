"""For which devices a framework was built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuBuild:
    """It computes on the CPU only."""

    because: str
    """How this is known, for example ``"distribution tensorflow-cpu"``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaBuild:
    """It can use NVIDIA GPUs.

    Attributes:
        cuda_version: As far as the package says: ``"12.8"``, ``"12"``, or None.
        libraries_installed: Whether NVIDIA's libraries are installed as Python packages, for a build that does
            not bring them; None where that question does not arise.
        targets: The GPU targets that it was compiled for, such as ``"sm_80"`` and ``"compute_90"``; None if the
            package does not say.
    """

    cuda_version: str | None = None
    libraries_installed: bool | None = None
    targets: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmBuild:
    """It can use AMD GPUs.

    Attributes:
        version: Of ROCm or HIP, as far as the package says.
    """

    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TpuBuild:
    """It can use TPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownBuild:
    """The installed files do not tell.

    Attributes:
        reason: Why not.
    """

    reason: str


Build = CpuBuild | CudaBuild | RocmBuild | TpuBuild | UnknownBuild


def build_text(build: Build) -> str:
    """Describe a build in a few words."""
    match build:
        case CpuBuild(because=because):
            return f"CPU only ({because})"
        case CudaBuild(cuda_version=None):
            return "for CUDA"
        case CudaBuild(cuda_version=version):
            return f"for CUDA {version}"
        case RocmBuild(version=version):
            return "for ROCm" if version is None else f"for ROCm {version}"
        case TpuBuild():
            return "for TPU"
        case UnknownBuild(reason=reason):
            return f"unknown build ({reason})"

"""What a GPU's Tensor Cores can multiply, from its compute capability or its name.

Sources: NVIDIA CUDA C++ Programming Guide, "Compute Capabilities"; the list "CUDA-Enabled GPUs" (product to
compute capability); PTX ISA 8.7 (types of the mma instructions by target); AMD Instinct and Radeon ISA
documents (MFMA from gfx908, WMMA from gfx11).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mixte.profiles._model import Gpu, Vendor


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The GPU has Tensor Cores or matrix cores.

    Attributes:
        dtypes: Operand types they multiply; None where not listed (AMD).
    """

    dtypes: frozenset[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The GPU has none, so no kernel can have used them.

    Attributes:
        reason: Which GPU, and since which they exist.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Undetermined:
    """The profile does not say enough about the GPU."""


TensorCores = Present | Absent | Undetermined

# From this compute capability on, Tensor Cores also multiply these types.
_TYPES_SINCE: tuple[tuple[tuple[int, int], tuple[str, ...]], ...] = (
    ((7, 0), ("float16",)),
    ((7, 2), ("int8", "uint8")),  # Xavier
    ((7, 5), ("int4", "uint4")),
    ((8, 0), ("bfloat16", "tf32", "float64")),
    ((8, 9), ("float8_e4m3fn", "float8_e5m2")),
    ((10, 0), ("float4_e2m1fn",)),
)

# Product names to compute capability, for files that name the GPU only. The first match decides.
_PRODUCTS: tuple[tuple[str, tuple[int, int]], ...] = (
    (r"\bRTX PRO [456]\d{3}|\bRTX 50\d0", (12, 0)),
    (r"\bG?B300\b", (10, 3)),
    (r"\bG?B[12]00\b", (10, 0)),
    (r"\bG?H[128]00\b|\bGH200\b|\bH20\b", (9, 0)),
    (r"\bL40S?\b|\bL4\b|\bRTX 40\d0|\bRTX \d000 (?:SFF )?Ada", (8, 9)),
    (r"\bOrin\b", (8, 7)),
    (r"\bA(?:2|10G?|16|40)\b|\bRTX 30\d0|\bRTX A\d{4}\b", (8, 6)),
    (r"\bA100|\bA800\b|\bA30\b|\bPG509\b", (8, 0)),
    (r"\bTesla T4\b|\bT4G?\b|\bRTX 20\d0|\bQuadro RTX \d000|\bTITAN RTX\b|\bGTX 16\d0", (7, 5)),
    (r"\bXavier\b", (7, 2)),
    (r"\bV100|\bTITAN V\b|\bGV100\b", (7, 0)),
    (r"\bGTX 10\d0|\bP40?\b|\bTITAN X[Pp]?\b|\bQuadro P\d{3,4}", (6, 1)),
    (r"\bP100\b|\bGP100\b", (6, 0)),
    (r"\bTegra X1\b|\bNano\b", (5, 3)),
    (r"\bGTX 9\d0|\bM40\b|\bM60\b", (5, 2)),
    (r"\bK80\b", (3, 7)),
    (r"\bK40\b|\bK20", (3, 5)),
)

# Compute capability 7.5 without Tensor Cores: the chips TU116 and TU117.
_TURING_WITHOUT = re.compile(r"\bGTX 16\d0|\bMX[45]50\b|\bT(?:400|500|550|600|1000|1200)\b")
_TURING_WITHOUT_CHIPS = ("TU116", "TU117")

# AMD targets with neither MFMA nor WMMA: GCN and Vega before MI100, RDNA 1 and 2.
_AMD_WITHOUT = re.compile(r"gfx(?:[678]\d\d|90[0-6c9]|10\d\d)\b")

# What AMD's profilers write as compute capability stands for a gfx target. 9.0 is shared by gfx900 to gfx90a.
_AMD_TARGETS = {(9, 4): "gfx942", (9, 5): "gfx950"}


def vendor(gpu: Gpu) -> Vendor | None:
    """Tell the maker of a GPU, also where the file leaves it to the name or to an impossible number."""
    if gpu.vendor is not None:
        return gpu.vendor
    if gpu.architecture and gpu.architecture.startswith("gfx"):
        return "amd"
    name = gpu.name or ""
    if re.search(r"\bAMD\b|Radeon|Instinct|\bMI\d{3}", name):
        return "amd"
    if gpu.compute_capability in _AMD_TARGETS:  # NVIDIA has no 9.4 and no 9.5
        return "amd"
    if re.search(r"NVIDIA|Tesla|GeForce|Quadro|TITAN", name) or _from_name(name) is not None:
        return "nvidia"
    return None


def compute_capability(gpu: Gpu) -> tuple[int, int] | None:
    """Give the compute capability as the file states it or, for NVIDIA, as the product's name implies it."""
    if gpu.compute_capability is not None:
        return gpu.compute_capability
    return None if vendor(gpu) == "amd" else _from_name(gpu.name or "")


def architecture(gpu: Gpu) -> str | None:
    """Give AMD's gfx target, stated or implied; None for other makers."""
    if gpu.architecture is not None or vendor(gpu) != "amd":
        return gpu.architecture
    stated = gpu.compute_capability
    return _AMD_TARGETS.get(stated) if stated is not None else None


def tensor_cores(gpu: Gpu | None) -> TensorCores:
    """Tell what is known about the Tensor Cores (AMD: matrix cores) of a GPU.

    Args:
        gpu: As the profile describes it; None if it does not.
    """
    if gpu is None:
        return Undetermined()
    match vendor(gpu):
        case "amd":
            return _matrix_cores(gpu)
        case "nvidia" | None:
            return _nvidia_tensor_cores(gpu)


def _matrix_cores(gpu: Gpu) -> TensorCores:
    target = architecture(gpu)
    if target is None:
        return Undetermined()
    if _AMD_WITHOUT.match(target):
        return Absent(
            reason=f"{target} has no matrix cores: AMD GPUs have them from gfx908 (MI100) and gfx11 on"
        )
    return Present(dtypes=None)


def _nvidia_tensor_cores(gpu: Gpu) -> TensorCores:
    name = gpu.name or ""
    if _TURING_WITHOUT.search(name) or (gpu.chip or "").startswith(_TURING_WITHOUT_CHIPS):
        return Absent(reason=f"{name or gpu.chip} has no Tensor Cores, although its compute capability is 7.5")
    capability = compute_capability(gpu)
    if capability is None:
        return Undetermined()
    if capability < (7, 0):
        which = f"{name}, compute capability" if name else "compute capability"
        return Absent(reason=f"{which} {capability[0]}.{capability[1]}: Tensor Cores exist from 7.0 (Volta) on")
    types = (dtype for since, dtypes in _TYPES_SINCE if capability >= since for dtype in dtypes)
    return Present(dtypes=frozenset(types))


def _from_name(name: str) -> tuple[int, int] | None:
    for pattern, capability in _PRODUCTS:
        if re.search(pattern, name):
            return capability
    return None

"""What is known about a CPU: its instruction sets, cores and memory, as Linux reports them."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CPUINFO: Final = Path("/proc/cpuinfo")
MEMINFO: Final = Path("/proc/meminfo")

# The instruction-set names of /proc/cpuinfo that decide about 16-bit arithmetic: x86-64 first, then Arm.
FLOAT16_FLAGS: Final = ("avx512_fp16", "amx_fp16", "fphp", "asimdhp")
BFLOAT16_FLAGS: Final = ("avx512_bf16", "avx_ne_convert", "amx_bf16", "bf16", "svebf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A CPU. What is not known is None.

    Attributes:
        name: As the system prints it.
        machine: Instruction set, for example ``"x86_64"``.
        flags: Names of the instruction-set extensions, as in /proc/cpuinfo.
        usable_cores: Logical cores that this process may run on.
        memory_bytes: Main memory of the machine.
    """

    name: str | None = None
    machine: str | None = None
    flags: frozenset[str] | None = None
    usable_cores: int | None = None
    memory_bytes: int | None = None

    def float16_flags(self) -> tuple[str, ...]:
        """Return those of its extensions that compute in float16."""
        return tuple(flag for flag in FLOAT16_FLAGS if flag in (self.flags or ()))

    def bfloat16_flags(self) -> tuple[str, ...]:
        """Return those of its extensions that compute in bfloat16 or convert to it."""
        return tuple(flag for flag in BFLOAT16_FLAGS if flag in (self.flags or ()))


def local_cpu() -> Cpu:
    """Describe the CPU of this machine."""
    return parse_cpu(
        cpuinfo=_read(CPUINFO),
        meminfo=_read(MEMINFO),
        machine=platform.machine() or None,
        usable_cores=_usable_cores(),
    )


def parse_cpu(
    *, cpuinfo: str | None, meminfo: str | None, machine: str | None, usable_cores: int | None
) -> Cpu:
    """Describe a CPU from the text of /proc/cpuinfo and /proc/meminfo.

    Args:
        cpuinfo: Text of /proc/cpuinfo; None where there is none (not Linux).
        meminfo: Text of /proc/meminfo; None where there is none.
        machine: Instruction set.
        usable_cores: Logical cores that the process may use.
    """
    flags = _field(cpuinfo, "flags") or _field(cpuinfo, "Features")
    total_kib = re.match(r"(\d+) kB", _field(meminfo, "MemTotal") or "")
    return Cpu(
        name=_field(cpuinfo, "model name"),
        machine=machine,
        flags=None if flags is None else frozenset(flags.split()),
        usable_cores=usable_cores,
        memory_bytes=None if total_kib is None else int(total_kib[1]) * 1024,
    )


def _field(text: str | None, key: str) -> str | None:
    """The value of the first line ``key : value``."""
    found = re.search(rf"^{key}\s*:[ \t]*(\S.*)$", text or "", re.MULTILINE)
    return None if found is None else found[1].strip()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _usable_cores() -> int | None:
    # A container or a batch system may allow fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()

"""CPUs: read from recorded /proc files, and judged by their instruction sets."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mixte.devices import Capability, Cpu, Verdict, judge, local_cpu
from mixte.devices._cpu import parse_cpu

FAST, SLOW, IMPOSSIBLE, UNKNOWN = Verdict.FAST, Verdict.SLOW, Verdict.IMPOSSIBLE, Verdict.UNKNOWN

# Made by hand in the form of Linux (proc(5)), shortened to the flags that matter and a few others.
XEON = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
flags\t\t: fpu sse2 avx avx2 f16c avx512f avx512_bf16 avx512_fp16 amx_bf16 amx_tile

processor\t: 1
model name\t: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz
flags\t\t: fpu sse2 avx avx2 f16c avx512f avx512_bf16 avx512_fp16 amx_bf16 amx_tile
"""
BROADWELL = "model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\nflags\t\t: fpu sse2 avx avx2 f16c fma\n"
GRAVITON = "processor\t: 0\nBogoMIPS\t: 2100.00\nFeatures\t: fp asimd fphp asimdhp sve bf16 i8mm svebf16\n"
MEMINFO = "MemTotal:       24736344 kB\nMemFree:        12345678 kB\n"


def cpu_of(cpuinfo: str | None, machine: str = "x86_64") -> Cpu:
    return parse_cpu(cpuinfo=cpuinfo, meminfo=MEMINFO, machine=machine, usable_cores=2)


def of(cpu: Cpu, subject: str) -> Capability:
    return next(one for one in judge(cpu) if one.subject == subject)


def test_a_cpu_is_read_from_proc() -> None:
    cpu = cpu_of(XEON)
    assert cpu.name == "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
    assert cpu.memory_bytes == 24736344 * 1024
    assert cpu.float16_flags() == ("avx512_fp16",)
    assert cpu.bfloat16_flags() == ("avx512_bf16", "amx_bf16")


def test_an_arm_cpu_is_read_from_proc() -> None:
    cpu = cpu_of(GRAVITON, "aarch64")
    assert cpu.name is None
    assert cpu.float16_flags() == ("fphp", "asimdhp")
    assert cpu.bfloat16_flags() == ("bf16", "svebf16")


def test_without_proc_the_rest_is_unknown_and_not_a_default() -> None:
    cpu = parse_cpu(cpuinfo=None, meminfo=None, machine="arm64", usable_cores=None)
    assert (cpu.name, cpu.flags, cpu.memory_bytes, cpu.usable_cores) == (None, None, None, None)


def test_garbage_in_proc_is_unknown() -> None:
    cpu = parse_cpu(cpuinfo="\x00\xff nothing here", meminfo="MemTotal: many", machine=None, usable_cores=None)
    assert cpu == Cpu()


def test_the_local_cpu_agrees_with_the_system() -> None:
    cpu = local_cpu()
    if not Path("/proc/cpuinfo").exists():
        pytest.skip("the system has no /proc/cpuinfo to compare with")
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert cpu.memory_bytes == pages
    assert cpu.usable_cores == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        (cpu_of(BROADWELL), (FAST, IMPOSSIBLE, SLOW, SLOW, IMPOSSIBLE, SLOW, SLOW)),
        (cpu_of(XEON), (FAST, IMPOSSIBLE, FAST, FAST, IMPOSSIBLE, SLOW, UNKNOWN)),
        (
            cpu_of(XEON.replace("amx_tile", "amx_fp16")),
            (FAST, IMPOSSIBLE, FAST, FAST, IMPOSSIBLE, UNKNOWN, UNKNOWN),
        ),
        (cpu_of(GRAVITON, "aarch64"), (FAST, IMPOSSIBLE, FAST, FAST, IMPOSSIBLE, UNKNOWN, UNKNOWN)),
        (cpu_of(None, "arm64"), (FAST, IMPOSSIBLE, UNKNOWN, UNKNOWN, IMPOSSIBLE, UNKNOWN, UNKNOWN)),
        (
            cpu_of(XEON.replace("amx_tile", "amx_fp8 amx_tf32")),
            (FAST, UNKNOWN, FAST, FAST, UNKNOWN, SLOW, UNKNOWN),
        ),
    ],
    ids=["no 16-bit arithmetic", "avx512_fp16", "amx_fp16", "Arm", "flags unreadable", "amx_fp8"],
)
def test_verdicts_follow_the_instruction_sets(cpu: Cpu, expected: tuple[Verdict, ...]) -> None:
    assert tuple(one.verdict for one in judge(cpu)) == expected


def test_f16c_alone_is_no_float16_arithmetic() -> None:
    # f16c converts only; every x86-64 server CPU since 2012 has it.
    assert "f16c" in BROADWELL
    assert "no float16 arithmetic" in of(cpu_of(BROADWELL), "float16").reason


def test_float16_on_a_cpu_comes_with_the_measured_factor_and_a_way_out() -> None:
    # 1100 to 2700 ms (TensorFlow) and 4000 ms (PyTorch) against 207 ms in float32.
    factors = [round(step_ms / 207) for step_ms in (1100, 2700, 4000)]
    judged = of(cpu_of(BROADWELL), "mixed_float16")
    assert factors == [5, 13, 19]
    for factor in factors:
        assert str(factor) in judged.reason
    assert judged.advice is not None
    assert "float32" in judged.advice

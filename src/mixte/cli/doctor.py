"""``mixte doctor``: what this machine, or a named GPU, can do in which precision; loads no framework."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

from mixte._errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from mixte.devices import Capability, Cpu, Device, Figure, FrameworkCheck, LocalGpu, Machine, Problem

_NAMES = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--gpu",
        metavar="NAME[,NAME...]",
        help="judge these GPUs instead of this machine: V100, 'Tesla T4', MI300X, or a compute capability as in 8.9",
    )
    parser.add_argument(
        "--list-gpus", action="store_true", help="list the GPUs and TPUs that are known by name"
    )
    parser.add_argument(
        "--framework-check",
        action="store_true",
        help="also load each installed framework, in a process of its own, and ask which devices it sees",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (described in docs/commands/doctor.md)")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found, or what is known about the named GPUs."""
    chosen = [
        option
        for option, given in (
            ("--gpu", arguments.gpu is not None),
            ("--list-gpus", arguments.list_gpus),
            ("--framework-check", arguments.framework_check),
        )
        if given
    ]
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)} do not go together; give one of them")
    if arguments.gpu is not None:
        _report_named(arguments.gpu, as_json=arguments.json)
    elif arguments.list_gpus:
        _report_known(as_json=arguments.json)
    else:
        _report_machine(check=arguments.framework_check, as_json=arguments.json)
    return 0


def _report_named(names: str, *, as_json: bool) -> None:
    from mixte.devices import devices_document, find_device, recommend_precision

    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise InputError("--gpu needs a name, for example: mixte doctor --gpu V100")
    devices = [find_device(name) for name in wanted]
    if as_json:
        _print_json(devices_document(devices))
        return
    lines: list[str] = []
    for name, device in zip(wanted, devices, strict=True):
        lines += [*_named_device(name, device), *_recommendation(recommend_precision([device])), ""]
    if len(devices) > 1:
        lines += ["For one training on all of them", *_recommendation(recommend_precision(devices)), ""]
    _print(lines[:-1])


def _report_known(*, as_json: bool) -> None:
    from mixte.devices import devices_document, known_devices

    if as_json:
        _print_json(devices_document(known_devices()))
        return
    rows = [_row_of_known(device) for device in known_devices()]
    heading = ("name", "cc", "memory", "float32", "16 bits")
    widths = [max(len(row[column]) for row in (heading, *rows)) for column in range(len(heading))]
    lines = [
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{w}}" for cell, w in zip(row[1:], widths[1:], strict=True))
        for row in (heading, *rows)
    ]
    legend = (
        "cc: compute capability. Rates in TFLOP/s on paper: float32 on vector units; 16 bits on matrix units with "
        "float32 accumulation, on vector units where there are none. ~: not checked against a vendor's document."
    )
    _print([*lines, "", *_wrap(legend, indent="")])


def _report_machine(*, check: bool, as_json: bool) -> None:
    from mixte.devices import (
        check_frameworks,
        find_check_problems,
        find_problems,
        inspect_machine,
        machine_document,
        recommend_precision,
    )

    machine = inspect_machine()
    checks = check_frameworks(machine.frameworks) if check else None
    if as_json:
        _print_json(machine_document(machine, checks))
        return
    problems = [*find_problems(machine), *find_check_problems(machine, checks or ())]
    _print(
        [
            *_machine_lines(machine),
            *_check_lines(checks),
            *_judged_devices(machine),
            *_problem_lines(problems),
            *_recommendation(recommend_precision(machine.devices)),
        ]
    )


def _machine_lines(machine: Machine) -> Iterator[str]:
    from mixte.devices import build_text

    yield "This machine"
    yield from _entry("System", f"{machine.system}, Python {machine.python_version}")
    yield from _entry("CPU", _cpu_text(machine.cpu))
    yield from _gpu_lines(machine)
    if machine.keras is None:
        yield from _entry("Keras", "not installed")
    else:
        keras = machine.keras
        yield from _entry("Keras", f"{keras.version}, backend {keras.backend} (from {keras.backend_from})")
    for framework in machine.frameworks:
        yield from _entry(_NAMES[framework.name], f"{framework.version}, {build_text(framework.build)}")
    for name in sorted(_NAMES.keys() - {framework.name for framework in machine.frameworks}):
        yield from _entry(_NAMES[name], "not installed")
    yield ""


def _cpu_text(cpu: Cpu) -> str:
    parts = [cpu.name or cpu.machine or "unknown"]
    if cpu.usable_cores is not None:
        parts.append(f"{cpu.usable_cores} core{'s' * (cpu.usable_cores != 1)} usable")
    if cpu.memory_bytes is not None:
        parts.append(_gib(cpu.memory_bytes))
    narrow = (*cpu.float16_flags(), *cpu.bfloat16_flags())
    if narrow:
        parts.append(f"16-bit instructions: {' '.join(narrow)}")
    return ", ".join(parts)


def _gpu_lines(machine: Machine) -> Iterator[str]:
    from mixte.devices import DriverAbsent, DriverAnswered, DriverSilent

    match machine.driver:
        case DriverAnswered(driver_version=version, gpus=gpus):
            for gpu in gpus:
                yield from _entry(f"GPU {gpu.index}", _gpu_text(gpu))
            if not gpus:
                yield from _entry("GPU", "none")
            yield from _entry("Driver", f"NVIDIA {version or 'of unknown version'}")
        case DriverSilent(reason=reason) | DriverAbsent(reason=reason):
            yield from _entry("GPU", f"none found: {reason}")


def _gpu_text(gpu: LocalGpu) -> str:
    parts = [gpu.device.name]
    if gpu.memory_bytes is not None:
        parts.append(_gib(gpu.memory_bytes))
    parts.append(_generation(gpu.device))
    if gpu.mig_enabled:
        parts.append("split into instances (MIG)")
    return ", ".join(parts)


def _generation(device: Device) -> str:
    if device.compute_capability is None:
        return device.architecture or "unknown generation"
    return f"{device.architecture or 'unknown generation'}, compute capability {device.compute_capability}"


def _check_lines(checks: Sequence[FrameworkCheck] | None) -> Iterator[str]:
    from mixte.devices import FrameworkFails, FrameworkSees

    if not checks:
        return
    yield "What the frameworks see"
    for check in checks:
        match check:
            case FrameworkSees(framework=name, devices=devices):
                yield from _entry(
                    _NAMES[name], ", ".join(f"{one.kind} ({one.name})" for one in devices) or "nothing"
                )
            case FrameworkFails(framework=name, reason=reason):
                yield from _entry(_NAMES[name], f"failed: {reason}")
    yield ""


def _judged_devices(machine: Machine) -> Iterator[str]:
    """One table for each kind of GPU; for the CPU only where there is no GPU."""
    from mixte.devices import judge

    kinds = list(dict.fromkeys(gpu.device for gpu in machine.visible_gpus))
    for device in kinds:
        yield f"On {device.name}"
        yield from _capability_lines(judge(device))
        yield ""
    if not kinds:
        yield "On the CPU"
        yield from _capability_lines(judge(machine.cpu))
        yield ""


def _named_device(asked: str, device: Device) -> Iterator[str]:
    from mixte.devices import judge, siblings

    yield device.name
    others = siblings(device)
    if others and asked.lower() != device.name.lower():
        names = ", ".join(other.name for other in others)
        yield from _entry("Taken for", f"{asked}; other boards of the family: {names}")
    yield from _entry("Generation", _generation(device))
    if device.memory_size_bytes is not None and device.memory_bandwidth_bytes_per_s is not None:
        bandwidth = f"{device.memory_bandwidth_bytes_per_s.value / 1e9:.4g} GB/s"
        yield from _entry(
            "Memory",
            f"{_gib(device.memory_size_bytes.value)} {device.memory_kind}, "
            f"{bandwidth}{_unchecked(device.memory_size_bytes, device.memory_bandwidth_bytes_per_s)}",
        )
    if device.note is not None:
        yield from _entry("Note", device.note)
    yield from _capability_lines(judge(device))


def _unchecked(*figures: Figure) -> str:
    return "" if all(figure.verified for figure in figures) else " (not checked against a vendor's document)"


def _capability_lines(capabilities: Iterable[Capability]) -> Iterator[str]:
    for one in capabilities:
        label = f"  {one.subject:<14}  {one.verdict.value:<10}  "
        yield from _wrap(one.reason, indent=" " * len(label), first=label)
        if one.advice is not None:
            yield from _wrap(one.advice, indent=f"{' ' * len(label)}   ", first=f"{' ' * len(label)}-> ")


def _problem_lines(problems: Sequence[Problem]) -> Iterator[str]:
    if not problems:
        return
    yield "To put right"
    for number, problem in enumerate(problems, start=1):
        yield from _wrap(f"{_capital(problem.what)}.", indent="     ", first=f"  {number:>2} ")
        yield from _wrap(problem.advice, indent="        ", first="     -> ")
    yield ""


def _recommendation(recommendation: tuple[str, str]) -> Iterator[str]:
    policy_name, reason = recommendation
    yield f"Recommended policy: {policy_name}"
    yield from _wrap(f"{reason}.", indent="  ", first="  ")


def _row_of_known(device: Device) -> tuple[str, str, str, str, str]:
    from mixte.devices import ComputeUnit

    sixteen = (
        device.peak("float16", unit=ComputeUnit.MATRIX, accumulate="float32", allow_unverified=True)
        or device.peak("bfloat16", unit=ComputeUnit.MATRIX, accumulate="float32", allow_unverified=True)
        or device.peak("float16", allow_unverified=True)
    )
    float32 = device.peak("float32", unit=ComputeUnit.VECTOR, allow_unverified=True)
    rates = [
        "-" if peak is None else f"{'' if peak.verified else '~'}{peak.ops_per_s / 1e12:.4g}"
        for peak in (float32, sixteen)
    ]
    memory = "-" if device.memory_size_bytes is None else _gib(device.memory_size_bytes.value)
    capability = "-" if device.compute_capability is None else str(device.compute_capability)
    return device.name, capability, memory, rates[0], rates[1]


def _entry(label: str, text: str) -> list[str]:
    return _wrap(text, indent=" " * 14, first=f"  {label:<10}  ")


def _wrap(text: str, *, indent: str, first: str | None = None) -> list[str]:
    # Lines longer than 100 columns are hard to read, however wide the terminal is.
    width = min(max(shutil.get_terminal_size().columns, 40), 100)
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 2**30:.4g} GiB"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _print(lines: Iterable[str]) -> None:
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        # A processor's or a GPU's name may hold characters that an ASCII terminal cannot show.
        print(line.encode(encoding, "backslashreplace").decode(encoding))


def _print_json(document: dict[str, object]) -> None:
    import json

    print(json.dumps(document, indent=2))

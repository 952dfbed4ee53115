"""What ``mixte doctor --json`` writes: a documented, versioned contract (docs/commands/doctor.md).

A reader may rely on every key that is described there. Keys may be added within a version; a key that changes its
meaning or goes raises ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mixte._version import __version__
from mixte.devices._build import Build, CpuBuild, CudaBuild, RocmBuild, TpuBuild, UnknownBuild
from mixte.devices._capability import judge
from mixte.devices._cpu import Cpu
from mixte.devices._framework_check import FrameworkCheck, FrameworkFails, FrameworkSees
from mixte.devices._local_gpu import DriverAbsent, DriverAnswer, DriverAnswered, DriverSilent
from mixte.devices._problems import find_check_problems, find_problems
from mixte.devices._recommendation import recommend_precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.devices._device import Device, MixedTraining, Peak
    from mixte.devices._figure import Figure
    from mixte.devices._frameworks import Framework
    from mixte.devices._local_gpu import LocalGpu
    from mixte.devices._machine import Machine
    from mixte.devices._problems import Problem

SCHEMA_VERSION: Final = 1

Json = dict[str, object]


def machine_document(machine: Machine, checks: Sequence[FrameworkCheck] | None = None) -> Json:
    """Build the document about this machine.

    Args:
        machine: What was found.
        checks: What the frameworks answered; None if they were not asked.
    """
    problems = [*find_problems(machine), *find_check_problems(machine, checks or ())]
    return {
        **_head("machine"),
        "machine": _machine(machine),
        "devices": [_judged(device) for device in machine.devices],
        "recommendation": recommend_precision(machine.devices)._asdict(),
        "problems": [_problem(problem) for problem in problems],
        "framework_check": None if checks is None else [_check(check) for check in checks],
    }


def devices_document(devices: Sequence[Device]) -> Json:
    """Build the document about named devices, which need not be here.

    Args:
        devices: At least one.
    """
    return {
        **_head("named"),
        "machine": None,
        "devices": [_judged(device) for device in devices],
        "recommendation": recommend_precision(devices)._asdict(),
        "problems": [],
        "framework_check": None,
    }


def _head(about: str) -> Json:
    return {
        "schema": "mixte.doctor",
        "version": SCHEMA_VERSION,
        "mixte_version": __version__,
        "about": about,
    }


def _machine(machine: Machine) -> Json:
    keras = machine.keras
    return {
        "system": machine.system,
        "python_version": machine.python_version,
        "cpu": _cpu(machine.cpu),
        "driver": _driver(machine.driver),
        "gpus": [_local_gpu(gpu) for gpu in machine.gpus],
        "cuda_visible_devices": machine.cuda_visible_devices,
        "keras": None
        if keras is None
        else {"version": keras.version, "backend": keras.backend, "backend_from": keras.backend_from},
        "frameworks": [_framework(framework) for framework in machine.frameworks],
    }


def _cpu(cpu: Cpu) -> Json:
    return {
        "name": cpu.name,
        "machine": cpu.machine,
        "usable_cores": cpu.usable_cores,
        "memory_bytes": cpu.memory_bytes,
        "float16_instructions": None if cpu.flags is None else list(cpu.float16_flags()),
        "bfloat16_instructions": None if cpu.flags is None else list(cpu.bfloat16_flags()),
    }


def _driver(driver: DriverAnswer) -> Json:
    match driver:
        case DriverAnswered(driver_version=version, via=via):
            return {"state": "answered", "version": version, "via": via, "reason": None}
        case DriverSilent(reason=reason):
            return {"state": "silent", "version": None, "via": None, "reason": reason}
        case DriverAbsent(reason=reason):
            return {"state": "absent", "version": None, "via": None, "reason": reason}


def _local_gpu(gpu: LocalGpu) -> Json:
    return {
        "index": gpu.index,
        "name": gpu.device.name,
        "memory_bytes": gpu.memory_bytes,
        "mig_enabled": gpu.mig_enabled,
    }


def _framework(framework: Framework) -> Json:
    return {
        "name": framework.name,
        "distribution": framework.distribution,
        "version": framework.version,
        "build": _build(framework.build),
        "also_installed": list(framework.also_installed),
    }


def _build(build: Build) -> Json:
    match build:
        case CpuBuild(because=because):
            return {"for": "cpu", "because": because}
        case CudaBuild(cuda_version=version, libraries_installed=libraries, targets=targets):
            return {
                "for": "cuda",
                "cuda_version": version,
                "libraries_installed": libraries,
                "targets": None if targets is None else list(targets),
            }
        case RocmBuild(version=version):
            return {"for": "rocm", "rocm_version": version}
        case TpuBuild():
            return {"for": "tpu"}
        case UnknownBuild(reason=reason):
            return {"for": None, "because": reason}


def _judged(device: Device | Cpu) -> Json:
    described: Json = _described_cpu(device) if isinstance(device, Cpu) else _described(device)
    described["recommendation"] = recommend_precision([device])._asdict()
    described["capabilities"] = [
        {
            "subject": one.subject,
            "verdict": one.verdict.value,
            "reason": one.reason,
            "advice": one.advice,
        }
        for one in judge(device)
    ]
    return described


def _described_cpu(cpu: Cpu) -> Json:
    return {"kind": "cpu", "name": cpu.name or "CPU"}


def _described(device: Device) -> Json:
    return {
        "kind": "tpu" if device.vendor == "Google" else "gpu",
        "name": device.name,
        "vendor": device.vendor,
        "architecture": device.architecture,
        "compute_capability": None if device.compute_capability is None else str(device.compute_capability),
        "memory_size_bytes": _figure(device.memory_size_bytes),
        "memory_bandwidth_bytes_per_s": _figure(device.memory_bandwidth_bytes_per_s),
        "peaks": [_peak(peak) for peak in device.peaks],
        "mixed_training": None if device.mixed_training is None else _mixed_training(device.mixed_training),
        "note": device.note,
    }


def _figure(figure: Figure | None) -> Json | None:
    if figure is None:
        return None
    return {"value": figure.value, "verified": figure.verified, "source": figure.source.document}


def _peak(peak: Peak) -> Json:
    return {
        "ops_per_s": peak.ops_per_s,
        "unit": peak.unit.value,
        "input": peak.input,
        "accumulate": peak.accumulate,
        "verified": peak.verified,
        "source": peak.source.document,
        "note": peak.note,
    }


def _mixed_training(training: MixedTraining) -> Json:
    return {
        "median": training.median,
        "pairs": training.pairs,
        "baseline": training.baseline,
        "quartiles": None if training.quartiles is None else list(training.quartiles),
        "range": None if training.range is None else list(training.range),
        "note": training.note,
    }


def _problem(problem: Problem) -> Json:
    return {"code": problem.code, "what": problem.what, "advice": problem.advice}


def _check(check: FrameworkCheck) -> Json:
    match check:
        case FrameworkSees(framework=name, devices=devices):
            seen = [{"kind": device.kind, "name": device.name} for device in devices]
            return {"framework": name, "devices": seen, "failure": None}
        case FrameworkFails(framework=name, reason=reason):
            return {"framework": name, "devices": None, "failure": reason}

"""What stands between the hardware and its use, with the remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mixte.devices._build import CpuBuild, CudaBuild
from mixte.devices._device import ComputeCapability
from mixte.devices._framework_check import FrameworkFails, FrameworkSees
from mixte.devices._local_gpu import DriverAnswered, DriverSilent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mixte.devices._framework_check import FrameworkCheck
    from mixte.devices._frameworks import Framework
    from mixte.devices._local_gpu import LocalGpu
    from mixte.devices._machine import Machine

# First driver series for programs built with a CUDA major version: NVIDIA, "CUDA Compatibility", table 1.
_DRIVER_SERIES_FOR_CUDA: Final = {11: 450, 12: 525, 13: 580}

# CUDA 13 compiles for compute capability 7.5 and later only (CUDA 13.0 release notes, deprecated architectures).
_FIRST_CAPABILITY_OF_CUDA: Final = {13: ComputeCapability(7, 5)}

_EXTRAS: Final = {"tensorflow": "tensorflow", "jax": "jax", "torch": "torch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something to put right, or to know.

    Attributes:
        code: A stable name for programs, for example ``"cpu-only-build"``.
        what: What was found, in one sentence without a full stop.
        advice: What to do, in full sentences.
    """

    code: str
    what: str
    advice: str


def find_problems(machine: Machine) -> tuple[Problem, ...]:
    """List what keeps this machine's programs from using its hardware, the hardware first."""
    return (
        *_driver_problems(machine),
        *_visibility_problems(machine),
        *(problem for framework in machine.frameworks for problem in _framework_problems(framework, machine)),
        *_keras_problems(machine),
    )


def find_check_problems(machine: Machine, checks: Iterable[FrameworkCheck]) -> tuple[Problem, ...]:
    """List what the frameworks' own answers add to ``find_problems``.

    Args:
        machine: The machine.
        checks: What ``check_frameworks`` returned there.
    """
    return tuple(problem for check in checks for problem in _check_problems(machine, check))


def _check_problems(machine: Machine, check: FrameworkCheck) -> Iterator[Problem]:
    match check:
        case FrameworkFails(framework=name, reason=reason):
            yield Problem(
                code="framework-fails",
                what=f"{name} does not answer: {reason.rstrip('.')}",
                advice=f'Run python -c "import {name}" to see the whole message, and reinstall it if need be.',
            )
        case FrameworkSees(framework=name, devices=devices):
            if machine.visible_gpus and all(device.kind == "cpu" for device in devices):
                yield Problem(
                    code="framework-sees-no-gpu",
                    what=f"the driver lists {machine.visible_gpus[0].device.name}, but {name} sees only the CPU",
                    advice=f"Check that {name} is built for CUDA, that its libraries are installed, and that the "
                    "driver is new enough for them.",
                )


def _driver_problems(machine: Machine) -> Iterator[Problem]:
    driver = machine.driver
    if isinstance(driver, DriverSilent):
        yield Problem(code="driver-silent", what=driver.reason, advice=driver.advice)
    elif not isinstance(driver, DriverAnswered) and "NVIDIA" in machine.card_vendors:
        yield Problem(
            code="no-driver",
            what=f"an NVIDIA card is on the PCI bus, but {driver.reason}",
            advice="Install the NVIDIA driver; in a container, start it with access to the GPUs "
            "(docker run --gpus all).",
        )
    if "AMD" in machine.card_vendors and not machine.gpus:
        yield Problem(
            code="amd-card",
            what="an AMD graphics device is on the PCI bus; mixte does not ask AMD's driver about it",
            advice="Judge it by name, for example: mixte doctor --gpu MI300X; see what the framework finds: "
            "mixte doctor --framework-check.",
        )


def _visibility_problems(machine: Machine) -> Iterator[Problem]:
    if machine.gpus and not machine.visible_gpus:
        yield Problem(
            code="gpus-hidden",
            what=f"CUDA_VISIBLE_DEVICES={machine.cuda_visible_devices!r} hides every GPU from programs",
            advice="Unset it, or name the GPUs by number: CUDA_VISIBLE_DEVICES=0.",
        )
    split = [gpu for gpu in machine.gpus if gpu.mig_enabled]
    if split:
        numbers = ", ".join(str(gpu.index) for gpu in split)
        yield Problem(
            code="mig",
            what=f"GPU {numbers} is split into instances (MIG): a program gets one of them, not the whole GPU",
            advice="Expect a part of the memory and of the rates that are given for the whole GPU.",
        )


def _framework_problems(framework: Framework, machine: Machine) -> Iterator[Problem]:
    if framework.also_installed:
        names = ", ".join((framework.distribution, *framework.also_installed))
        yield Problem(
            code="overlapping-distributions",
            what=f"{names} install the same files, the last one installed wins",
            advice=f"Uninstall all of them, then install one: pip uninstall {names.replace(',', '')}.",
        )
    if not machine.gpus:
        return
    match framework.build:
        case CpuBuild(because=because):
            yield Problem(
                code="cpu-only-build",
                what=f"{machine.gpus[0].device.name} is here, but the installed {framework.name} "
                f"{framework.version} is built for the CPU only ({because})",
                advice=_cuda_install(framework, machine),
            )
        case CudaBuild() as build:
            yield from _cuda_problems(framework, build, machine)
        case _:
            pass


def _cuda_problems(framework: Framework, build: CudaBuild, machine: Machine) -> Iterator[Problem]:
    if build.libraries_installed is False:
        yield Problem(
            code="cuda-libraries-missing",
            what=f"{framework.name} {framework.version} can use CUDA, but NVIDIA's libraries (cuDNN and others) are "
            "not installed as Python packages",
            advice="Unless they are installed for the whole system: pip install 'tensorflow[and-cuda]'.",
        )
    yield from _driver_too_old(framework, build, machine)
    for gpu in machine.gpus:
        if not _supports(build, gpu):
            yield Problem(
                code="gpu-not-supported",
                what=f"{framework.name} {framework.version} is not compiled for {gpu.device.name} (compute "
                f"capability {gpu.device.compute_capability})",
                advice=_older_build(framework),
            )


def _driver_too_old(framework: Framework, build: CudaBuild, machine: Machine) -> Iterator[Problem]:
    version = machine.driver.driver_version if isinstance(machine.driver, DriverAnswered) else None
    series = _leading_number(version)
    cuda = _leading_number(build.cuda_version)
    needed = None if cuda is None else _DRIVER_SERIES_FOR_CUDA.get(cuda)
    if series is not None and needed is not None and series < needed:
        yield Problem(
            code="driver-too-old",
            what=f"{framework.name} {framework.version} is built for CUDA {build.cuda_version}, which needs an NVIDIA "
            f"driver of the series {needed} or later; this is {version}",
            advice=f"Update the driver, or install a {framework.name} built for an older CUDA.",
        )


def _supports(build: CudaBuild, gpu: LocalGpu) -> bool:
    """Whether a build holds code for a GPU, as far as it is known; True where it is not."""
    capability = gpu.device.compute_capability
    if capability is None:
        return True
    cuda = _leading_number(build.cuda_version)
    if cuda in _FIRST_CAPABILITY_OF_CUDA and capability < _FIRST_CAPABILITY_OF_CUDA[cuda]:
        return False
    if build.targets is None:
        return True
    return any(_runs_on(target, capability) for target in build.targets)


def _runs_on(target: str, capability: ComputeCapability) -> bool:
    """Whether code for a target runs on a GPU (CUDA C++ Programming Guide, application compatibility).

    Binary code (sm_86) runs on the same major and the same or a later minor; intermediate code (compute_86) on
    everything from there on. Targets that end in a letter run on that very capability only.
    """
    parsed = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", target)
    if parsed is None:
        return True
    kind, major, minor, suffix = parsed.groups()
    compiled = ComputeCapability(int(major), int(minor))
    if suffix:
        return capability == compiled
    if kind == "compute":
        return capability >= compiled
    return capability.major == compiled.major and capability >= compiled


def _cuda_install(framework: Framework, machine: Machine) -> str:
    match framework.name:
        case "tensorflow":
            return f"pip uninstall {framework.distribution}, then pip install 'tensorflow[and-cuda]'."
        case "jax":
            return f"pip install 'jax[cuda{_cuda_major_for(machine)}]'."
        case _:
            return (
                "pip uninstall torch, then install the build for CUDA: pytorch.org/get-started gives the command for "
                f"CUDA {_cuda_major_for(machine)}."
            )


def _cuda_major_for(machine: Machine) -> int:
    """The newest CUDA that the driver and every GPU can use."""
    version = machine.driver.driver_version if isinstance(machine.driver, DriverAnswered) else None
    series = _leading_number(version)
    old = any(
        gpu.device.compute_capability is not None
        and gpu.device.compute_capability < _FIRST_CAPABILITY_OF_CUDA[13]
        for gpu in machine.gpus
    )
    return 13 if series is not None and series >= _DRIVER_SERIES_FOR_CUDA[13] and not old else 12


def _older_build(framework: Framework) -> str:
    if framework.name == "jax":
        return "pip uninstall jax-cuda13-plugin, then pip install 'jax[cuda12]'."
    return (
        f"Install a {framework.name} that still supports this GPU: one built for CUDA 12, or an older version."
    )


def _keras_problems(machine: Machine) -> Iterator[Problem]:
    names = {framework.name for framework in machine.frameworks}
    if not names:
        yield Problem(
            code="no-framework",
            what="none of TensorFlow, JAX and PyTorch is installed",
            advice="Install one, for example: pip install 'mixte[tensorflow]'.",
        )
        return
    keras = machine.keras
    if keras is None:
        yield Problem(code="no-keras", what="Keras is not installed", advice="pip install keras.")
    elif keras.backend in _EXTRAS and keras.backend not in names:
        yield Problem(
            code="backend-missing",
            what=f"Keras will use the backend {keras.backend} ({keras.backend_from}), which is not installed",
            advice=f"pip install 'mixte[{_EXTRAS[keras.backend]}]', or set KERAS_BACKEND to one of: "
            f"{', '.join(sorted(names))}.",
        )


def _leading_number(version: str | None) -> int | None:
    found = re.match(r"\d+", version or "")
    return None if found is None else int(found[0])

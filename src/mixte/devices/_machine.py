"""This machine, looked at without loading any framework."""

from __future__ import annotations

import importlib
import os
import platform
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from mixte.devices._command import run_command
from mixte.devices._cpu import Cpu, local_cpu
from mixte.devices._frameworks import Framework, installed_frameworks
from mixte.devices._installed import find_distribution
from mixte.devices._keras import Keras, installed_keras
from mixte.devices._local_gpu import DriverAbsent, DriverAnswer, DriverAnswered, LocalGpu
from mixte.devices._nvidia_smi import query_nvidia_smi
from mixte.devices._nvml import query_nvml
from mixte.devices._pci import card_vendors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixte.devices._command import RunCommand
    from mixte.devices._device import Device
    from mixte.devices._nvml import Nvml


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What was found.

    Attributes:
        system: Operating system and its release.
        python_version: Of the interpreter that looked.
        cpu: The CPU.
        driver: What NVIDIA's driver says.
        card_vendors: Whose cards are on the PCI bus, with or without a driver.
        keras: The installed Keras; None if there is none.
        frameworks: The installed backends.
        cuda_visible_devices: The environment variable CUDA_VISIBLE_DEVICES; None if it is not set.
    """

    system: str
    python_version: str
    cpu: Cpu
    driver: DriverAnswer
    card_vendors: frozenset[str]
    keras: Keras | None
    frameworks: tuple[Framework, ...]
    cuda_visible_devices: str | None

    @property
    def gpus(self) -> tuple[LocalGpu, ...]:
        """Every GPU that the driver reports."""
        return tuple(self.driver.gpus) if isinstance(self.driver, DriverAnswered) else ()

    @property
    def visible_gpus(self) -> tuple[LocalGpu, ...]:
        """The GPUs that CUDA_VISIBLE_DEVICES leaves to programs started from here.

        Its numbers are taken in the driver's order (CUDA_DEVICE_ORDER=PCI_BUS_ID).
        """
        named = self.cuda_visible_devices
        if named is None:
            return self.gpus
        by_index = {str(gpu.index): gpu for gpu in self.gpus}
        visible: list[LocalGpu] = []
        for name in named.split(","):
            word = name.strip()
            if word.startswith(("GPU-", "MIG-")):  # unique identifiers: which GPU they mean is not asked for
                return self.gpus
            if word not in by_index:  # as CUDA does: the first invalid entry ends the list
                break
            visible.append(by_index[word])
        return tuple(visible)

    @property
    def devices(self) -> tuple[Device | Cpu, ...]:
        """What programs can compute on: the visible GPUs, and the CPU."""
        return (*(gpu.device for gpu in self.visible_gpus), self.cpu)


def inspect_machine(*, run: RunCommand = run_command, environment: Mapping[str, str] | None = None) -> Machine:
    """Look at this machine: processor, GPUs, driver, installed frameworks. Imports no framework.

    Args:
        run: What runs ``nvidia-smi``.
        environment: The environment variables; those of this process if None.
    """
    variables = os.environ if environment is None else environment
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        python_version=platform.python_version(),
        cpu=local_cpu(),
        driver=_driver(run),
        card_vendors=card_vendors(),
        keras=installed_keras(find_distribution, variables),
        frameworks=installed_frameworks(find_distribution),
        cuda_visible_devices=variables.get("CUDA_VISIBLE_DEVICES"),
    )


def _driver(run: RunCommand) -> DriverAnswer:
    answer = query_nvidia_smi(run)
    if not isinstance(answer, DriverAbsent):
        return answer
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return answer
    return query_nvml(cast("Nvml", nvml))

"""Stand-ins for a machine: recorded outputs of nvidia-smi, installed distributions, whole machines."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mixte.devices import Cpu, CudaBuild, DriverAbsent, Framework, Keras, Machine
from mixte.devices._command import CommandResult, Finished

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RECORDED = Path(__file__).parent / "nvidia_smi"


class RecordedCommand:
    """Answers every command with the next of the given results, and keeps what it was asked."""

    def __init__(self, *results: CommandResult) -> None:
        self.results = list(results)
        self.commands: list[list[str]] = []
        self.environments: list[Mapping[str, str] | None] = []

    def __call__(
        self, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        self.commands.append(list(command))
        self.environments.append(environment)
        return self.results.pop(0)


@dataclass
class Installed:
    """An installed distribution with some of its files."""

    version: str
    files: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str | None:
        return self.files.get(path)


@pytest.fixture
def command() -> type[RecordedCommand]:
    return RecordedCommand


@pytest.fixture
def smi() -> Callable[..., RecordedCommand]:
    """Make a command that prints recorded outputs of nvidia-smi, one after the other."""

    def make(*outputs: str | tuple[str, int]) -> RecordedCommand:
        pairs = [output if isinstance(output, tuple) else (output, 0) for output in outputs]
        return RecordedCommand(
            *(Finished(exit_code=code, stdout=(RECORDED / f"{name}.txt").read_text()) for name, code in pairs)
        )

    return make


@pytest.fixture
def installed() -> Callable[..., Callable[[str], Installed | None]]:
    """Make a finder of distributions: name -> version, or (version, files)."""

    def make(
        distributions: Mapping[str, str | tuple[str, dict[str, str]]],
    ) -> Callable[[str], Installed | None]:
        entries = {
            name: Installed(value) if isinstance(value, str) else Installed(*value)
            for name, value in distributions.items()
        }
        return lambda name, /: entries.get(name)

    return make


@pytest.fixture
def framework() -> Callable[..., Framework]:
    """Make a framework; the fields given replace those of a PyTorch for CUDA 12."""

    def make(**fields: Any) -> Framework:
        name = fields.get("name", "torch")
        standard = {
            "name": name,
            "distribution": name,
            "version": "1.0",
            "build": CudaBuild(cuda_version="12.8"),
        }
        return Framework(**(standard | fields))

    return make


@pytest.fixture
def machine(framework: Callable[..., Framework]) -> Callable[..., Machine]:
    """Make a machine; the fields given replace those of one without GPU, with Keras and PyTorch."""

    def make(**fields: Any) -> Machine:
        standard = {
            "system": "Linux 6.1",
            "python_version": "3.11.2",
            "cpu": Cpu(name="a CPU", machine="x86_64", flags=frozenset({"avx2"}), usable_cores=2),
            "driver": DriverAbsent(reason="nvidia-smi is not installed"),
            "card_vendors": frozenset(),
            "keras": Keras(version="3.15.1", backend="torch", backend_from="KERAS_BACKEND"),
            "frameworks": (framework(),),
            "cuda_visible_devices": None,
        }
        return Machine(**(standard | fields))

    return make

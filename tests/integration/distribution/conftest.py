"""Training scripts, run as a user runs them: in one process, or in several that find each other on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HERE = Path(__file__).parent
LIMIT_S = 150  # what hangs is ended and fails; none needs a tenth of it on a free machine
LAW = "dynamic:initial=32768,growth_interval=2"
POLICIES = ("float32", "mixed_float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process that has ended."""

    returncode: int
    output: str


def free_ports(count: int) -> list[int]:
    """Return ports of loopback that nothing listens on."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def workers(count: int) -> list[dict[str, str]]:
    """Return the variables that tell each of several processes of the others, for TensorFlow and for PyTorch."""
    ports = free_ports(count + 1)
    addresses = [f"127.0.0.1:{port}" for port in ports[:count]]
    return [
        {
            "TF_CONFIG": json.dumps(
                {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            ),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(ports[count]),
            "RANK": str(index),
        }
        for index in range(count)
    ]


def execute(folder: Path, commands: Sequence[tuple[Sequence[str], Mapping[str, str]]]) -> list[Ended]:
    """Run scripts of this folder, all at once, each with variables of its own; return when all have ended."""
    common = {
        key: value for key, value in os.environ.items() if key not in {"KERAS_BACKEND", "TF_CONFIG", "RANK"}
    }
    common |= {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "MASTER_PORT": str(free_ports(1)[0]),
    }
    with ExitStack() as stack:
        running: list[subprocess.Popen[str]] = []
        for arguments, variables in commands:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-X", "faulthandler", *arguments],
                    cwd=folder,
                    env=common | dict(variables),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
            running.append(process)
        return [finish(process) for process in running]


def finish(process: subprocess.Popen[str]) -> Ended:
    try:
        output, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # so that it tells where it hangs
        output, _ = process.communicate()
        pytest.fail(f"{process.args} has hung. Its output:\n{output}")
    return Ended(returncode=process.returncode, output=output)


def by_mixte_run(script: str) -> list[str]:
    options = ["--policy", "mixed_float16", "--loss-scale", LAW]
    return ["-m", "mixte", "run", *options, str(HERE / script)]


class Trainings:
    """The trainings of this folder's scripts, each made once, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: set[str] = set()
        self._library = {"LIBRARY": ",".join(POLICIES), "LAW": LAW}

    def alone(self, backend: str, policy: str) -> dict[str, Any]:
        """Return what training in one process on one device gave."""
        suffix = ".0" if backend == "torch" else ""
        return self._read(self._both(backend) / f"alone{suffix}.{policy}")

    def by_library(self, way: str, policy: str) -> list[dict[str, Any]]:
        """Return what each process of a training on two replicas gave, under a policy by the library."""
        backend, count = WAYS[way]
        folder = self._both(backend)
        if way == "workers" and way not in self._made:
            self._made.add(way)
            script = str(HERE / SCRIPTS[way])
            commands = [
                ([script, str(folder / f"{way}.{rank}")], self._library | variables)
                for rank, variables in enumerate(workers(count))
            ]
            must_succeed(execute(folder, commands))
        return [self._read(folder / f"{name}.{policy}") for name in names(way, count)]

    def by_run(self, way: str) -> list[dict[str, Any]]:
        """Return what each process of a training on two replicas gave, by ``mixte run`` in mixed_float16."""
        _, count = WAYS[way]
        folder = self._folder / f"run-{way}"
        if not folder.exists():
            folder.mkdir()
            script = by_mixte_run(SCRIPTS[way])
            last = [] if way == "workers" else ["2"]
            several = workers(count) if count > 1 else [{}]
            commands = [
                ([*script, *last, str(folder / (f"{way}.{rank}" if way == "workers" else way))], variables)
                for rank, variables in enumerate(several)
            ]
            must_succeed(execute(folder, commands))
        return [self._read(folder / name) for name in names(way, count)]

    def _both(self, backend: str) -> Path:
        """Train with a backend on one device, and on two: beside each other, for the machine has two processors."""
        folder = self._folder / backend
        if not folder.exists():
            folder.mkdir()
            way = {"tensorflow": "mirrored", "jax": "jax", "torch": "ddp"}[backend]
            script = str(HERE / SCRIPTS[way])
            commands = [
                ([script, "1", str(folder / "alone")], self._library),
                ([script, "2", str(folder / way)], self._library),
            ]
            must_succeed(execute(folder, commands))
        return folder

    @staticmethod
    def _read(path: Path) -> dict[str, Any]:
        return json.loads(path.read_text())


SCRIPTS = {
    "mirrored": "tensorflow_fit.py",
    "workers": "tensorflow_workers.py",
    "jax": "jax_fit.py",
    "ddp": "torch_ddp.py",
}
WAYS = {"mirrored": ("tensorflow", 1), "workers": ("tensorflow", 2), "jax": ("jax", 1), "ddp": ("torch", 2)}
"""For each way to train on two replicas: the backend, and the number of processes."""


def names(way: str, count: int) -> list[str]:
    return [way] if count == 1 else [f"{way}.{rank}" for rank in range(count)]


def must_succeed(ended: Sequence[Ended]) -> None:
    for each in ended:
        assert each.returncode == 0, each.output


@pytest.fixture(scope="session")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(tmp_path_factory.mktemp("trainings"))

"""Training scripts, run as a user runs them: in one process, or in several that find each other on loopback."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .problem import DIED, STEPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Command = tuple[Sequence[str], Mapping[str, str]]

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


def execute(folder: Path, commands: Sequence[Command]) -> list[Ended]:
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
    """The trainings of this folder's scripts, each made once, when it is first asked for.

    Args:
        folder: Where the results go; pytest's processes may share it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = {"LIBRARY": ",".join(POLICIES), "LAW": LAW}

    def alone(self, backend: str, policy: str) -> dict[str, Any]:
        """Return what training in one process on one device gave."""
        suffix = ".0" if backend == "torch" else ""
        return read(self._alone(backend) / f"result{suffix}.{policy}")

    def by_library(self, way: str, policy: str) -> list[dict[str, Any]]:
        """Return what each process of a training on two replicas gave, under a policy by the library."""
        folder = self._workers() if way == "workers" else self._on_two(way)
        return [read(folder / f"{name}.{policy}") for name in names(way)]

    def by_run(self, way: str) -> list[dict[str, Any]]:
        """Return what each process of a training on two replicas gave, by ``mixte run`` in mixed_float16."""
        script = by_mixte_run(SCRIPTS[way])

        def commands(folder: Path) -> list[Command]:
            if way == "workers":
                return [
                    ([*script, str(folder / name)], each)
                    for name, each in zip(names(way), workers(2), strict=True)
                ]
            several = workers(2) if way == "ddp" else [{}]
            return [([*script, "2", str(folder / "result")], each) for each in several]

        folder = self._once(f"run-{way}", commands)
        return [read(folder / name) for name in names(way)]

    def worker_died(self) -> list[Ended]:
        """Return how two workers ended, of which the second died after the training and the first went on."""
        return [Ended(**each) for each in read(self._workers() / "ended")]

    def _alone(self, backend: str) -> Path:
        script = {"tensorflow": "tensorflow_fit.py", "jax": "jax_fit.py", "torch": "torch_ddp.py"}[backend]
        return self._once(
            f"alone-{backend}",
            lambda folder: [([str(HERE / script), "1", str(folder / "result")], self._library)],
        )

    def _on_two(self, way: str) -> Path:
        script = str(HERE / SCRIPTS[way])
        return self._once(way, lambda folder: [([script, "2", str(folder / "result")], self._library)])

    def _workers(self) -> Path:
        script = str(HERE / SCRIPTS["workers"])
        variables = self._library | {"DIE": f"1:{STEPS}"}
        return self._once(
            "workers",
            lambda folder: [
                ([script, str(folder / name)], variables | each)
                for name, each in zip(names("workers"), workers(2), strict=True)
            ],
            codes=(1, DIED),
        )

    def _once(
        self, name: str, commands: Callable[[Path], Sequence[Command]], codes: Sequence[int] = (0, 0)
    ) -> Path:
        """Run commands, unless any of pytest's processes has done so; return the folder of their results."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "ended").exists():
                ended = execute(folder, commands(folder))
                (folder / "ended").write_text(json.dumps([asdict(each) for each in ended]))
        for each, code in zip(read(folder / "ended"), codes, strict=False):
            assert each["returncode"] == code, each["output"]
        return folder


def read(path: Path) -> Any:
    return json.loads(path.read_text())


SCRIPTS = {
    "mirrored": "tensorflow_fit.py",
    "workers": "tensorflow_workers.py",
    "jax": "jax_fit.py",
    "ddp": "torch_ddp.py",
}
BACKENDS = {"mirrored": "tensorflow", "workers": "tensorflow", "jax": "jax", "ddp": "torch"}
"""The ways to train on two replicas, and their backends."""


def names(way: str) -> list[str]:
    """Return the names of what the processes of a training on two replicas write."""
    return ["result.0", "result.1"] if way in {"workers", "ddp"} else ["result"]


def must_succeed(ended: Sequence[Ended]) -> None:
    for each in ended:
        assert each.returncode == 0, each.output


@pytest.fixture(scope="session")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    base = tmp_path_factory.getbasetemp()
    # pytest-xdist gives each of its processes a folder in a common one.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trainings"
    folder.mkdir(exist_ok=True)
    return Trainings(folder)

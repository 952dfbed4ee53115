"""``mixte doctor`` as a user runs it: in a process, on a terminal of 80 columns, with nvidia-smi as it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RECORDED = Path(__file__).parents[1] / "unit/devices/nvidia_smi"
FRAMEWORKS = ("keras", "tensorflow", "jax", "torch")


def doctor(*options: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a directory of programs (and no others) on PATH."""
    variables = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    variables |= {"COLUMNS": "80", "PATH": str(path or "/nonexistent"), **environment}
    return subprocess.run(
        [sys.executable, "-m", "mixte", "doctor", *options],
        capture_output=True,
        text=True,
        check=False,
        env=variables,
    )


@pytest.fixture
def nvidia_smi(tmp_path: Path):
    """Make a program nvidia-smi that prints a recorded output and ends with an exit code."""

    def make(name: str, exit_code: int = 0) -> Path:
        program = tmp_path / "nvidia-smi"
        program.write_text(
            f"#!{sys.executable}\nprint(open({str(RECORDED / f'{name}.txt')!r}).read(), end='')\n"
            f"raise SystemExit({exit_code})\n"
        )
        program.chmod(0o755)
        return tmp_path

    return make


def assert_fits_80_columns(text: str) -> None:
    assert text
    assert max(map(len, text.splitlines())) <= 80
    assert text.isascii()


def test_a_machine_without_gpu_is_described_on_80_columns() -> None:
    done = doctor()
    assert (done.returncode, done.stderr) == (0, "")
    assert_fits_80_columns(done.stdout)
    assert "On the CPU" in done.stdout
    assert "Recommended policy: float32" in done.stdout


def test_a_gpu_is_described_on_80_columns(nvidia_smi) -> None:
    done = doctor(path=nvidia_smi("t4"))
    assert (done.returncode, done.stderr) == (0, "")
    assert_fits_80_columns(done.stdout)
    assert "GPU 0       Tesla T4, 15 GiB, Turing, compute capability 7.5" in done.stdout
    assert "Driver      NVIDIA 535.183.01" in done.stdout
    assert "On Tesla T4" in done.stdout
    assert "On the CPU" not in done.stdout
    assert "Recommended policy: mixed_float16" in done.stdout


def test_two_equal_gpus_are_judged_once(nvidia_smi) -> None:
    done = doctor(path=nvidia_smi("two_a100_one_with_mig"))
    assert done.stdout.count("On NVIDIA A100-SXM4-80GB\n") == 1
    assert "GPU 0 is split into instances (MIG)" in done.stdout


def test_hidden_gpus_leave_the_cpu(nvidia_smi) -> None:
    done = doctor(path=nvidia_smi("t4"), CUDA_VISIBLE_DEVICES="")
    assert "On the CPU" in done.stdout
    assert "hides every GPU" in " ".join(done.stdout.split())


def test_a_driver_that_cannot_be_reached_is_explained(nvidia_smi) -> None:
    done = doctor(path=nvidia_smi("no_communication", 9))
    assert (done.returncode, done.stderr) == (0, "")
    assert_fits_80_columns(done.stdout)
    told = " ".join(done.stdout.split())
    assert "the NVIDIA driver does not answer" in told
    assert "modprobe nvidia" in told
    document = json.loads(doctor("--json", path=nvidia_smi("no_communication", 9)).stdout)
    assert document["machine"]["driver"]["state"] == "silent"
    assert document["problems"][0]["code"] == "driver-silent"


def test_cpu_only_frameworks_beside_a_gpu_are_named(nvidia_smi) -> None:
    document = json.loads(doctor("--json", path=nvidia_smi("t4")).stdout)
    cpu_only = {entry["name"] for entry in document["machine"]["frameworks"] if entry["build"]["for"] == "cpu"}
    if not cpu_only:
        pytest.skip("every installed framework is built for a GPU")
    named = [problem["what"] for problem in document["problems"] if problem["code"] == "cpu-only-build"]
    assert len(named) == len(cpu_only)
    for name, what in zip(sorted(cpu_only, key=("tensorflow", "jax", "torch").index), named, strict=True):
        assert f"Tesla T4 is here, but the installed {name} " in what


def test_the_json_and_the_text_recommend_the_same(nvidia_smi) -> None:
    programs = nvidia_smi("rtx_4090_laptop")
    document = json.loads(doctor("--json", path=programs).stdout)
    assert document["recommendation"]["policy_name"] == "mixed_bfloat16"
    assert f"Recommended policy: {document['recommendation']['policy_name']}" in doctor(path=programs).stdout


def test_a_gpu_that_is_not_here_is_judged_by_name() -> None:
    done = doctor("--gpu", "V100,P100,gtx 1660 ti")
    assert (done.returncode, done.stderr) == (0, "")
    assert_fits_80_columns(done.stdout)
    for name in ("Tesla V100-SXM2-16GB", "Tesla P100-PCIE-16GB", "NVIDIA GeForce GTX 1660 Ti"):
        assert f"{name}\n" in done.stdout
    assert "This machine" not in done.stdout
    document = json.loads(doctor("--gpu", "V100", "--json").stdout)
    assert document["about"] == "named"
    assert document["devices"][0]["name"] == "Tesla V100-SXM2-16GB"


def test_the_known_gpus_are_listed_on_80_columns() -> None:
    done = doctor("--list-gpus")
    assert (done.returncode, done.stderr) == (0, "")
    assert_fits_80_columns(done.stdout)
    assert len(done.stdout.splitlines()) > 60
    assert len(json.loads(doctor("--list-gpus", "--json").stdout)["devices"]) == 63


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpu", "V1000"], ["'V1000'", "Tesla V100-SXM2-16GB", "--list-gpus"]),
        (["--gpu", ""], ["--gpu needs a name"]),
        (["--gpu", " , "], ["--gpu needs a name"]),
        (["--gpu", "RTX 6000"], ["Quadro RTX 6000 or NVIDIA RTX 6000 Ada Generation"]),
        (["--gpu", "T4", "--framework-check"], ["--gpu and --framework-check do not go together"]),
        (["--gpu", "T4", "--list-gpus"], ["--gpu and --list-gpus do not go together"]),
        (["--gpus", "T4"], ["--gpus"]),
        (["T4"], ["T4"]),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(options: list[str], words: list[str]) -> None:
    done = doctor(*options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("columns", ["20", "60", "300"])
def test_any_terminal_width_is_served(columns: str) -> None:
    done = doctor("--gpu", "V100", COLUMNS=columns)
    assert (done.returncode, done.stderr) == (0, "")
    # Below 40 columns nothing readable can be laid out; above 100 lines are hard to read.
    assert max(map(len, done.stdout.splitlines())) <= max(40, min(int(columns), 100))


def loaded_frameworks(preamble: str, tmp_path: Path) -> set[str]:
    """Run the command in a process that then names the frameworks it has loaded."""
    program = (
        f"{preamble}\nimport contextlib, io, sys\nfrom mixte.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    codes = [main(['doctor']), main(['doctor', '--json']), main(['doctor', '--gpu', 'V100'])]\n"
        f"print(codes, *[name for name in {FRAMEWORKS} if name in sys.modules])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    codes, _, names = done.stdout.strip().partition("] ")
    assert codes.removesuffix("]") == "[0, 0, 0"
    return set(names.split())


def test_no_framework_is_loaded(tmp_path: Path) -> None:
    assert loaded_frameworks("", tmp_path) == set()


def test_the_test_that_no_framework_is_loaded_can_fail(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("")  # an empty module stands in for the framework
    assert loaded_frameworks("import torch", tmp_path) == {"torch"}


@pytest.mark.slow
def test_the_framework_check_asks_every_installed_framework() -> None:
    document = json.loads(doctor("--framework-check", "--json").stdout)
    installed = [entry["name"] for entry in document["machine"]["frameworks"]]
    assert [answer["framework"] for answer in document["framework_check"]] == installed
    for answer in document["framework_check"]:
        assert answer["failure"] is None
        assert "cpu" in {device["kind"] for device in answer["devices"]} or "gpu" in {
            device["kind"] for device in answer["devices"]
        }


def test_a_framework_that_fails_to_load_is_reported_and_the_rest_goes_on(tmp_path: Path) -> None:
    for name in FRAMEWORKS[1:]:
        (tmp_path / f"{name}.py").write_text(
            "raise ImportError('libcudart.so.12: cannot open shared object file')\n"
        )
    done = doctor("--framework-check", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert_fits_80_columns(done.stdout)
    document = json.loads(doctor("--framework-check", "--json", PYTHONPATH=str(tmp_path)).stdout)
    failures = [answer["failure"] for answer in document["framework_check"]]
    assert failures == ["ImportError: libcudart.so.12: cannot open shared object file"] * len(failures)
    codes = [problem["code"] for problem in document["problems"]]
    assert codes.count("framework-fails") == len(failures) == len(document["machine"]["frameworks"])

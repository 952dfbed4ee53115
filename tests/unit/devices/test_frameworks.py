"""Frameworks are recognised, with the devices that they were built for, from files alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mixte.devices import CpuBuild, CudaBuild, RocmBuild, TpuBuild, UnknownBuild, build_text
from mixte.devices._frameworks import installed_frameworks
from mixte.devices._installed import find_distribution

# In the form in which TensorFlow's build writes it (tensorflow/tools/build_info/gen_build_info.py).
TF_CUDA = """import collections
build_info = collections.OrderedDict([('cpu_compiler', '/usr/lib/llvm-18/bin/clang'),
    ('cuda_compute_capabilities', ['sm_60', 'sm_70', 'sm_80', 'sm_89', 'compute_90']), ('cuda_version', '12.5.1'),
    ('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False), ('is_tensorrt_build', False)])
"""
TF_CPU = (
    "import collections\n"
    "build_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False)])\n"
)
TF_ROCM = "import collections\nbuild_info = collections.OrderedDict([('is_rocm_build', True), ('rocm_version', '6')])\n"
TF_FILE = "tensorflow/python/platform/build_info.py"

# In the form in which PyTorch's build writes it (torch/version.py); older versions leave the annotation out.
TORCH = """from typing import Optional
__version__ = '{v}'
cuda: Optional[str] = {cuda!r}
hip: Optional[str] = {hip!r}
"""


def torch_with(version: str, *, cuda: str | None = None, hip: str | None = None) -> tuple[str, dict[str, str]]:
    return version, {"torch/version.py": TORCH.format(v=version, cuda=cuda, hip=hip)}


def builds(find) -> dict[str, object]:
    return {framework.name: framework.build for framework in installed_frameworks(find)}


@pytest.mark.parametrize(
    ("distributions", "name", "build"),
    [
        (
            {"tensorflow": ("2.19.0", {TF_FILE: TF_CUDA}), "nvidia-cudnn-cu12": "9.3.0"},
            "tensorflow",
            CudaBuild(
                cuda_version="12.5.1",
                libraries_installed=True,
                targets=("sm_60", "sm_70", "sm_80", "sm_89", "compute_90"),
            ),
        ),
        (
            {"tensorflow-cpu": ("2.19.0", {TF_FILE: TF_CPU})},
            "tensorflow",
            CpuBuild(because="distribution tensorflow-cpu"),
        ),
        ({"tensorflow-cpu": "2.19.0"}, "tensorflow", CpuBuild(because="distribution tensorflow-cpu")),
        (
            {"tensorflow": ("2.19.0", {TF_FILE: TF_CPU})},
            "tensorflow",
            CpuBuild(because="distribution tensorflow"),
        ),
        ({"tensorflow-rocm": ("2.16.1", {TF_FILE: TF_ROCM})}, "tensorflow", RocmBuild(version="6")),
        (
            {"tensorflow": ("2.19.0", {TF_FILE: "build_info = 3"})},
            "tensorflow",
            UnknownBuild(reason="tensorflow/python/platform/build_info.py cannot be read"),
        ),
        (
            {"tensorflow": ("2.19.0", {TF_FILE: "this is not Python ("})},
            "tensorflow",
            UnknownBuild(reason="tensorflow/python/platform/build_info.py cannot be read"),
        ),
        ({"torch": torch_with("2.7.0", cuda="12.6")}, "torch", CudaBuild(cuda_version="12.6")),
        ({"torch": torch_with("2.7.0+rocm6.3", hip="6.3.4")}, "torch", RocmBuild(version="6.3.4")),
        ({"torch": torch_with("2.7.0+cpu")}, "torch", CpuBuild(because="version 2.7.0+cpu")),
        (
            {"torch": ("1.13.1", {"torch/version.py": "cuda = '11.7'\n"})},
            "torch",
            CudaBuild(cuda_version="11.7"),
        ),
        ({"torch": "2.7.0"}, "torch", UnknownBuild(reason="torch/version.py cannot be read")),
        (
            {"jax": "0.6.0", "jaxlib": "0.6.0", "jax-cuda12-plugin": "0.6.0"},
            "jax",
            CudaBuild(cuda_version="12"),
        ),
        (
            {"jax": "0.8.0", "jaxlib": "0.8.0", "jax-cuda13-plugin": "0.8.0"},
            "jax",
            CudaBuild(cuda_version="13"),
        ),
        ({"jax": "0.4.14", "jaxlib": "0.4.14+cuda11.cudnn86"}, "jax", CudaBuild(cuda_version="11")),
        ({"jax": "0.6.0", "jaxlib": "0.6.0", "jax-rocm60-plugin": "0.6.0"}, "jax", RocmBuild()),
        ({"jax": "0.6.0", "jaxlib": "0.6.0", "libtpu": "0.0.15"}, "jax", TpuBuild()),
        ({"jax": "0.6.0", "jaxlib": "0.6.0"}, "jax", CpuBuild(because="no device plugin installed")),
        ({"jax": "0.6.0"}, "jax", UnknownBuild(reason="jaxlib is not installed")),
    ],
)
def test_a_build_is_read_from_its_files(installed, distributions, name: str, build: object) -> None:
    assert builds(installed(distributions)) == {name: build}


def test_a_cuda_tensorflow_without_nvidias_libraries_is_told_from_one_with(installed) -> None:
    build = builds(installed({"tensorflow": ("2.19.0", {TF_FILE: TF_CUDA})}))["tensorflow"]
    assert isinstance(build, CudaBuild)
    assert build.libraries_installed is False


def test_two_tensorflows_that_overwrite_each_other_are_noticed(installed) -> None:
    both = {"tensorflow": ("2.19.0", {TF_FILE: TF_CPU}), "tensorflow-cpu": ("2.18.0", {TF_FILE: TF_CPU})}
    (framework,) = installed_frameworks(installed(both))
    assert framework.also_installed == ("tensorflow-cpu",)
    # On Windows "tensorflow" brings "tensorflow-intel" along: that is no conflict.
    (framework,) = installed_frameworks(installed({"tensorflow": "2.18.0", "tensorflow-intel": "2.18.0"}))
    assert framework.also_installed == ()


def test_nothing_installed_is_no_framework(installed) -> None:
    assert installed_frameworks(installed({})) == ()


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (CpuBuild(because="no device plugin installed"), "CPU only (no device plugin installed)"),
        (CudaBuild(cuda_version="12.8"), "for CUDA 12.8"),
        (CudaBuild(), "for CUDA"),
        (RocmBuild(version="6.3"), "for ROCm 6.3"),
        (RocmBuild(), "for ROCm"),
        (TpuBuild(), "for TPU"),
        (UnknownBuild(reason="x cannot be read"), "unknown build (x cannot be read)"),
    ],
)
def test_a_build_is_described_in_words(build, text: str) -> None:
    assert build_text(build) == text


def test_the_installed_pytorch_agrees_with_what_it_says_of_itself() -> None:
    found = {framework.name: framework for framework in installed_frameworks(find_distribution)}
    if "torch" not in found:
        pytest.skip("PyTorch is not installed")
    asked = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda, torch.version.hip)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    build = found["torch"].build
    seen = [found["torch"].version, "None", "None"]
    if isinstance(build, CudaBuild):
        seen[1] = str(build.cuda_version)
    if isinstance(build, RocmBuild):
        seen[2] = str(build.version)
    assert seen == asked

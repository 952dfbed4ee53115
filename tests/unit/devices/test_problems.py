"""What stands between the hardware and its use is found, with the remedy."""

from __future__ import annotations

import pytest

from mixte.devices import (
    CpuBuild,
    CudaBuild,
    DriverAnswered,
    DriverSilent,
    FrameworkFails,
    FrameworkSees,
    Keras,
    LocalGpu,
    SeenDevice,
    find_check_problems,
    find_device,
    find_problems,
)


def answered(*names: str, driver: str | None = "550.54.15", mig: bool | None = None) -> DriverAnswered:
    gpus = tuple(LocalGpu(index=i, device=find_device(name), mig_enabled=mig) for i, name in enumerate(names))
    return DriverAnswered(driver_version=driver, gpus=gpus, via="nvidia-smi")


def codes(machine) -> list[str]:
    return [problem.code for problem in find_problems(machine)]


def test_a_healthy_machine_has_no_problem(machine) -> None:
    assert codes(machine()) == []
    assert codes(machine(driver=answered("T4"))) == []


@pytest.mark.parametrize(
    ("name", "distribution", "remedy"),
    [
        (
            "tensorflow",
            "tensorflow-cpu",
            "pip uninstall tensorflow-cpu, then pip install 'tensorflow[and-cuda]'.",
        ),
        ("jax", "jax", "pip install 'jax[cuda12]'."),
        ("torch", "torch", "pip uninstall torch, then install the build for CUDA"),
    ],
)
def test_a_cpu_only_framework_beside_a_gpu(
    machine, framework, name: str, distribution: str, remedy: str
) -> None:
    build = CpuBuild(because=f"distribution {distribution}")
    installed = (framework(name=name, distribution=distribution, version="2.0", build=build),)
    keras = Keras(version="3.15.1", backend=name, backend_from="default")
    (problem,) = find_problems(machine(driver=answered("T4"), frameworks=installed, keras=keras))
    assert problem.code == "cpu-only-build"
    assert f"Tesla T4 is here, but the installed {name} 2.0 is built for the CPU only" in problem.what
    assert remedy in problem.advice
    assert codes(machine(frameworks=installed, keras=keras)) == []  # without a GPU it is as it should be


@pytest.mark.parametrize(
    ("gpu", "driver", "extra"),
    [
        ("T4", "580.65.06", "jax[cuda13]"),
        ("T4", "550.54.15", "jax[cuda12]"),
        ("V100", "580.65.06", "jax[cuda12]"),  # CUDA 13 begins at compute capability 7.5
        ("T4", None, "jax[cuda12]"),
    ],
)
def test_the_build_to_install_suits_driver_and_gpu(machine, framework, gpu, driver, extra: str) -> None:
    jax = framework(name="jax", build=CpuBuild(because="no device plugin installed"))
    keras = Keras(version="3.15.1", backend="jax", backend_from="default")
    (problem,) = find_problems(machine(driver=answered(gpu, driver=driver), frameworks=(jax,), keras=keras))
    assert extra in problem.advice


# NVIDIA, "CUDA Compatibility", table 1: 11.x needs driver 450, 12.x 525, 13.x 580.
@pytest.mark.parametrize(
    ("cuda", "driver", "too_old"),
    [
        ("11.8", "449.10", True),
        ("11.8", "450.80.02", False),
        ("12.8", "470.82.01", True),
        ("12.8", "525.60.13", False),
        ("13.0", "575.57.08", True),
        ("13.0", "580.65.06", False),
        ("13.0", None, False),
        (None, "470.82.01", False),
        ("14.0", "580.65.06", False),
    ],
)
def test_a_driver_older_than_the_framework_needs(machine, framework, cuda, driver, too_old: bool) -> None:
    found = find_problems(
        machine(
            driver=answered("T4", driver=driver), frameworks=(framework(build=CudaBuild(cuda_version=cuda)),)
        )
    )
    assert [problem.code for problem in found] == ["driver-too-old"] * too_old
    if too_old:
        assert str(driver) in found[0].what


# CUDA C++ Programming Guide, application compatibility: binary code runs within its major version from its minor
# version on, intermediate code (compute_) on everything from its version on; "a" and "f" code nowhere else.
@pytest.mark.parametrize(
    ("targets", "gpu", "supported"),
    [
        (("sm_60", "sm_70", "sm_80", "compute_90"), "P100", True),
        (("sm_70", "sm_80"), "P100", False),
        (("sm_70", "sm_80"), "T4", True),
        (("sm_75", "sm_80"), "V100", False),
        (("sm_80",), "L4", True),
        (("sm_89",), "A100", False),
        (("sm_80", "compute_90"), "B200", True),
        (("sm_80", "sm_90"), "B200", False),
        (("sm_90a",), "H100", True),
        (("sm_90a",), "B200", False),
        (("something new",), "T4", True),
        (None, "P100", True),
    ],
)
def test_a_framework_that_is_not_compiled_for_the_gpu(
    machine, framework, targets, gpu, supported: bool
) -> None:
    build = CudaBuild(cuda_version="12.5", targets=targets)
    assert codes(machine(driver=answered(gpu), frameworks=(framework(build=build),))) == (
        [] if supported else ["gpu-not-supported"]
    )


def test_cuda_13_supports_no_volta(machine, framework) -> None:
    torch = framework(build=CudaBuild(cuda_version="13.0"))
    (problem,) = find_problems(machine(driver=answered("V100", driver="580.65.06"), frameworks=(torch,)))
    assert problem.code == "gpu-not-supported"
    assert "7.0" in problem.what
    assert codes(machine(driver=answered("T4", driver="580.65.06"), frameworks=(torch,))) == []


def test_a_tensorflow_without_nvidias_libraries(machine, framework) -> None:
    build = CudaBuild(cuda_version="12.5.1", libraries_installed=False)
    tensorflow = framework(name="tensorflow", build=build)
    keras = Keras(version="3.15.1", backend="tensorflow", backend_from="default")
    (problem,) = find_problems(machine(driver=answered("T4"), frameworks=(tensorflow,), keras=keras))
    assert problem.code == "cuda-libraries-missing"
    assert "tensorflow[and-cuda]" in problem.advice


def test_a_card_without_a_driver(machine) -> None:
    (problem,) = find_problems(machine(card_vendors=frozenset({"NVIDIA"})))
    assert problem.code == "no-driver"
    assert "Install the NVIDIA driver" in problem.advice


def test_a_driver_that_does_not_answer_is_passed_on(machine) -> None:
    silent = DriverSilent(reason="the driver does not answer", advice="Reboot.")
    (problem,) = find_problems(machine(driver=silent, card_vendors=frozenset({"NVIDIA"})))
    assert (problem.code, problem.what, problem.advice) == ("driver-silent", silent.reason, silent.advice)


def test_an_amd_card_is_mentioned_and_not_guessed_at(machine) -> None:
    (problem,) = find_problems(machine(card_vendors=frozenset({"AMD"})))
    assert problem.code == "amd-card"
    assert "--gpu MI300X" in problem.advice


def test_gpus_hidden_by_the_environment(machine) -> None:
    (problem,) = find_problems(machine(driver=answered("T4"), cuda_visible_devices=""))
    assert problem.code == "gpus-hidden"
    assert "CUDA_VISIBLE_DEVICES=''" in problem.what


def test_a_gpu_that_is_split_into_instances(machine) -> None:
    (problem,) = find_problems(machine(driver=answered("A100", "A100", mig=True)))
    assert problem.code == "mig"
    assert problem.what.startswith("GPU 0, 1 ")


def test_two_distributions_of_one_package(machine, framework) -> None:
    torch = framework(name="tensorflow", also_installed=("tensorflow-cpu",))
    keras = Keras(version="3.15.1", backend="tensorflow", backend_from="default")
    (problem,) = find_problems(machine(frameworks=(torch,), keras=keras))
    assert problem.code == "overlapping-distributions"
    assert "pip uninstall tensorflow tensorflow-cpu" in problem.advice


def test_no_framework_no_keras_and_a_backend_that_is_missing(machine) -> None:
    assert codes(machine(frameworks=(), keras=None)) == ["no-framework"]
    assert codes(machine(keras=None)) == ["no-keras"]
    missing = Keras(version="3.15.1", backend="jax", backend_from="KERAS_BACKEND")
    (problem,) = find_problems(machine(keras=missing))
    assert problem.code == "backend-missing"
    assert "KERAS_BACKEND" in problem.what
    assert "mixte[jax]" in problem.advice


def test_a_framework_that_sees_only_the_cpu_beside_a_gpu(machine) -> None:
    cpu_only = FrameworkSees(framework="torch", devices=(SeenDevice(kind="cpu", name="cpu"),))
    (problem,) = find_check_problems(machine(driver=answered("T4")), [cpu_only])
    assert problem.code == "framework-sees-no-gpu"
    assert find_check_problems(machine(), [cpu_only]) == ()
    assert find_check_problems(machine(driver=answered("T4"), cuda_visible_devices="-1"), [cpu_only]) == ()
    both = FrameworkSees(
        framework="torch", devices=(SeenDevice(kind="gpu", name="Tesla T4"), *cpu_only.devices)
    )
    assert find_check_problems(machine(driver=answered("T4")), [both]) == ()


def test_a_framework_that_fails_is_quoted(machine) -> None:
    failed = FrameworkFails(framework="torch", reason="OSError: libcudart.so.12 not found.")
    (problem,) = find_check_problems(machine(), [failed])
    assert problem.code == "framework-fails"
    assert "libcudart.so.12 not found" in problem.what

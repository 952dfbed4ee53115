"""The JSON contract of ``mixte doctor``: its keys are those that the documentation lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mixte.devices import (
    CpuBuild,
    CudaBuild,
    DriverAnswered,
    DriverSilent,
    FrameworkFails,
    FrameworkSees,
    LocalGpu,
    RocmBuild,
    SeenDevice,
    TpuBuild,
    UnknownBuild,
    devices_document,
    find_device,
    find_problems,
    judge,
    known_devices,
    machine_document,
)

DOCUMENTATION = Path(__file__).parents[3] / "docs/commands/doctor.md"


def keys_of(value: object, prefix: str = "") -> set[str]:
    """Every key of a document, as a path: ``machine.cpu.name``, ``devices[].peaks[].unit``."""
    match value:
        case dict():
            inner = {f"{prefix}{key}": content for key, content in value.items()}
            return set(inner).union(*(keys_of(content, f"{path}.") for path, content in inner.items()))
        case list():
            return set().union(*(keys_of(content, f"{prefix.removesuffix('.')}[].") for content in value))
        case _:
            return set()


def documented_keys() -> set[str]:
    text = DOCUMENTATION.read_text(encoding="utf-8")
    return set(re.findall(r"^\| `([^`]+)` \|", text.partition("## JSON")[2], re.MULTILINE))


@pytest.fixture
def documents(machine, framework) -> list[dict[str, object]]:
    driver = DriverAnswered(
        driver_version="550.54.15", gpus=(LocalGpu(index=0, device=find_device("T4")),), via="nvidia-smi"
    )
    builds = (
        CpuBuild(because="x"),
        CudaBuild(targets=("sm_80",)),
        RocmBuild(),
        TpuBuild(),
        UnknownBuild(reason="x"),
    )
    checks = (
        FrameworkSees(framework="torch", devices=(SeenDevice(kind="cpu", name="cpu"),)),
        FrameworkFails(framework="jax", reason="x"),
    )
    full = machine(driver=driver, frameworks=tuple(framework(build=build) for build in builds))
    silent = machine(driver=DriverSilent(reason="x", advice="y"))
    return [machine_document(full, checks), machine_document(silent), devices_document(known_devices())]


def test_exactly_the_documented_keys_are_written(documents) -> None:
    assert set().union(*(keys_of(document) for document in documents)) == documented_keys()


def test_every_document_is_json_and_says_its_version(documents) -> None:
    for document in documents:
        assert json.loads(json.dumps(document)) == document
        assert (document["schema"], document["version"]) == ("mixte.doctor", 1)


def test_named_devices_are_judged_as_they_are_in_the_library() -> None:
    (device,) = devices_document([find_device("V100")])["devices"]
    assert [(one["subject"], one["verdict"], one["reason"]) for one in device["capabilities"]] == [
        (one.subject, one.verdict.value, one.reason) for one in judge(find_device("V100"))
    ]
    assert device["compute_capability"] == "7.0"
    assert device["recommendation"]["policy_name"] == "mixed_float16"


def test_every_figure_says_whether_it_was_checked() -> None:
    (device,) = devices_document([find_device("RTX 3090")])["devices"]
    assert {peak["verified"] for peak in device["peaks"]} == {True, False}
    assert device["memory_bandwidth_bytes_per_s"]["verified"] is False


def test_the_problems_are_those_of_the_library(machine) -> None:
    seen = machine(card_vendors=frozenset({"NVIDIA"}))
    problems = machine_document(seen)["problems"]
    assert [problem["code"] for problem in problems] == [problem.code for problem in find_problems(seen)]
    assert machine_document(seen)["framework_check"] is None


def test_exactly_the_documented_problem_codes_exist() -> None:
    source = (Path(__file__).parents[3] / "src/mixte/devices/_problems.py").read_text(encoding="utf-8")
    row = re.search(
        r"^\| `problems\[\]\.code` \| (.*) \|$", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert row is not None
    assert set(re.findall(r"`([a-z-]+)`", row[1])) == set(re.findall(r'code="([a-z-]+)"', source))

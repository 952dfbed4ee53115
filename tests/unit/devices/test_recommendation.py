"""What policy ``auto`` chooses."""

from __future__ import annotations

import pytest

from mixte import InputError
from mixte.devices import Cpu, Device, Recommendation, find_device, recommend_precision
from mixte.policy import Policy

CPU = Cpu(name="a CPU", machine="x86_64", flags=frozenset({"avx2"}))


@pytest.mark.parametrize(
    ("names", "policy_name"),
    [
        (["P100"], "float32"),
        (["GTX 1080 Ti"], "float32"),
        (["GTX 1660 Ti"], "float32"),
        (["V100"], "mixed_float16"),
        (["T4"], "mixed_float16"),
        (["A100"], "mixed_bfloat16"),
        (["RTX 3090"], "mixed_bfloat16"),
        (["L4"], "mixed_bfloat16"),
        (["H100"], "mixed_bfloat16"),
        (["B200"], "mixed_bfloat16"),
        (["RTX 5090"], "mixed_bfloat16"),
        (["MI100"], "mixed_float16"),
        (["MI250X"], "mixed_bfloat16"),
        (["TPU v4"], "mixed_bfloat16"),
        (["13.0"], "float32"),
        (["A100", "T4"], "mixed_float16"),
        (["A100", "T4", "P100"], "float32"),
        (["T4", "TPU v4"], "float32"),
    ],
)
def test_a_policy_is_chosen_if_training_gains_on_every_device(names: list[str], policy_name: str) -> None:
    assert recommend_precision([find_device(name) for name in names]).policy_name == policy_name


def test_a_cpu_beside_a_gpu_does_not_decide() -> None:
    assert recommend_precision([CPU, find_device("A100")]) == recommend_precision([find_device("A100")])


def test_a_cpu_alone_trains_in_float32() -> None:
    policy_name, reason = recommend_precision([CPU])
    assert policy_name == "float32"
    assert "no float16 arithmetic" in reason


def test_the_reason_names_the_device_that_keeps_the_fleet_back() -> None:
    assert "P100" in recommend_precision([find_device(name) for name in ("A100", "T4", "P100")]).reason
    mixed = recommend_precision([find_device(name) for name in ("A100", "T4")]).reason
    assert "Tesla T4, mixed_bfloat16 does not pay" in mixed


def test_the_reason_names_both_obstacles_where_they_lie_on_different_devices() -> None:
    reason = recommend_precision([find_device(name) for name in ("T4", "TPU v4")]).reason
    assert "On Google TPU v4, mixed_float16 is not known to gain" in reason
    assert "On Tesla T4, mixed_bfloat16 does not pay" in reason


def test_what_is_unknown_is_not_recommended() -> None:
    unknown = Device(name="a GPU of the future", vendor="NVIDIA")
    policy_name, reason = recommend_precision([unknown])
    assert policy_name == "float32"
    assert "is not known to gain" in reason


def test_no_device_is_an_error() -> None:
    with pytest.raises(InputError, match="at least one"):
        recommend_precision([])


def test_the_recommendation_serves_policy_auto() -> None:
    recommended = recommend_precision([find_device("T4")])
    assert isinstance(recommended, Recommendation)
    policy = Policy.named("auto", recommendation=recommended)
    assert policy.default.value == "mixed_float16"
    assert recommended.reason in policy.reason


def test_without_arguments_this_machine_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        devices = (find_device("T4"), CPU)

    monkeypatch.setattr("mixte.devices._machine.inspect_machine", Here)
    assert recommend_precision() == recommend_precision([find_device("T4")])

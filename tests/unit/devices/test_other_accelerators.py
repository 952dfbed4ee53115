"""AMD accelerators and TPUs: what the table knows with a source is judged, the rest is unknown."""

from __future__ import annotations

import pytest

from mixte.devices import Capability, Device, Verdict, find_device, judge

FAST, IMPOSSIBLE, UNKNOWN = Verdict.FAST, Verdict.IMPOSSIBLE, Verdict.UNKNOWN


def of(device: Device, subject: str) -> Capability:
    return next(one for one in judge(device) if one.subject == subject)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("MI100", (FAST, UNKNOWN, FAST, UNKNOWN, UNKNOWN, FAST, UNKNOWN)),
        ("MI210", (FAST, UNKNOWN, FAST, FAST, UNKNOWN, FAST, FAST)),
        ("MI250X", (FAST, UNKNOWN, FAST, FAST, UNKNOWN, FAST, FAST)),
        ("MI300X", (FAST, FAST, FAST, FAST, FAST, FAST, FAST)),
        ("TPU v3", (FAST, IMPOSSIBLE, UNKNOWN, FAST, UNKNOWN, UNKNOWN, FAST)),
        ("TPU v7x", (FAST, IMPOSSIBLE, UNKNOWN, FAST, FAST, UNKNOWN, FAST)),
    ],
)
def test_only_what_a_checked_source_says_is_judged(name: str, expected: tuple[Verdict, ...]) -> None:
    assert tuple(one.verdict for one in judge(find_device(name))) == expected


def test_a_board_that_nothing_is_known_of_is_unknown_in_everything_but_float32() -> None:
    device = Device(name="AMD Radeon something", vendor="AMD")
    assert {one.subject: one.verdict for one in judge(device)} == {
        "float32": FAST,
        "tf32": UNKNOWN,
        "float16": UNKNOWN,
        "bfloat16": UNKNOWN,
        "float8": UNKNOWN,
        "mixed_float16": UNKNOWN,
        "mixed_bfloat16": UNKNOWN,
    }


def test_the_flushing_of_subnormals_on_mi200_is_told() -> None:
    for name in ("MI210", "MI250X"):
        advice = of(find_device(name), "mixed_float16").advice
        assert advice is not None
        assert "flush" in advice
        assert "mixed_bfloat16" in advice
    assert "flush" not in (of(find_device("MI300X"), "mixed_float16").advice or "")


def test_a_tpu_says_that_its_float32_products_are_rounded() -> None:
    assert "bfloat16" in of(find_device("TPU v4"), "float32").reason


def test_the_ratio_to_float32_is_given_where_both_rates_are_checked() -> None:
    # AMD's data sheet: 1307.4 against 163.4 TFLOPS.
    assert "8 times the float32 rate" in of(find_device("MI300X"), "mixed_bfloat16").reason
    assert "times" not in of(find_device("MI100"), "mixed_float16").reason

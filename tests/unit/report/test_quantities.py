"""Quantities as a person reads them."""

from __future__ import annotations

import pytest

from mixte.report import _quantities as quantities


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (None, "unknown"),
        (0, "0.00 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 us"),
        (9_994, "9.99 us"),
        (9_996, "10.0 us"),
        (8_123_456, "8.12 ms"),
        (99.96e6, "100 ms"),
        (12.34e9, "12.3 s"),
        (119e9, "119 s"),
        (125e9, "2 min 05 s"),
        (3_599.6e9, "1 h 00 min"),
        (36 * 3600e9, "36 h 00 min"),
    ],
)
def test_durations(duration_ns: float | None, text: str) -> None:
    assert quantities.duration(duration_ns) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (None, "unknown"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (812 * 2**20, "812 MiB"),
        (2**30 - 1, "1.00 GiB"),
        (80 * 10**9, "74.5 GiB"),
        (2**52, "4096 TiB"),
    ],
)
def test_sizes(size_bytes: int | None, text: str) -> None:
    assert quantities.size(size_bytes) == text


@pytest.mark.parametrize(
    ("scale", "text"),
    [(32768.0, "32768"), (2.0**32, "4294967296"), (2.0**-11, "0.000488281"), (2.0**100, "1.26765e+30")],
)
def test_loss_scales_are_written_out_while_they_are_short(scale: float, text: str) -> None:
    assert quantities.scale(scale) == text


@pytest.mark.parametrize(
    ("value", "text"), [(float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf")]
)
def test_numbers_that_are_not_finite_have_a_text(value: float, text: str) -> None:
    assert quantities.number(value) == text
    assert quantities.scale(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.971, "0.9710"), (1.0, "1.000"), (1000.0, "1000"), (1.2341e-7, "1.234e-07"), (0.0, "0.000")],
)
def test_losses_and_metrics_keep_four_digits(value: float, text: str) -> None:
    assert quantities.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (-0.0, "0"), (0.00125, "+0.00125"), (-0.5, "-0.5"), (float("nan"), "nan")]
)
def test_differences_carry_their_sign(value: float, text: str) -> None:
    assert quantities.signed(value) == text

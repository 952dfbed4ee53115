"""Peak rates in words, for reasons: only figures that were checked are quoted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.devices._device import ComputeUnit

if TYPE_CHECKING:
    from mixte.devices._device import Device, NumberFormat


def on_paper(device: Device, number_format: NumberFormat, unit: ComputeUnit) -> str:
    """Return ``", 125 TFLOP/s on paper"``, or nothing if no checked figure is known.

    With float32 accumulation, as training uses it.
    """
    accumulate = "float32" if unit is ComputeUnit.MATRIX else None
    peak = device.peak(number_format, unit=unit, accumulate=accumulate)
    return "" if peak is None else f", {peak.ops_per_s / 1e12:.4g} TFLOP/s on paper"


def times_float32(device: Device, number_format: NumberFormat) -> str | None:
    """Return ``"8.0 times the float32 rate on paper"`` for the matrix units, or None if a figure was not checked."""
    matrix = device.peak(number_format, unit=ComputeUnit.MATRIX, accumulate="float32")
    float32 = device.peak("float32")
    if matrix is None or float32 is None:
        return None
    return f"{matrix.ops_per_s / float32.ops_per_s:.2g} times the float32 rate on paper"

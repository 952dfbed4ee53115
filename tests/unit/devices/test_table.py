"""The table of known accelerators: complete, sourced, and in agreement with figures collected by others."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest

from mixte import InputError
from mixte.devices import ComputeUnit, Device, find_device, known_devices
from mixte.devices._table import parse_devices

if TYPE_CHECKING:
    from pathlib import Path

VECTOR, MATRIX = ComputeUnit.VECTOR, ComputeUnit.MATRIX

# Column of hardware.csv -> (operands, unit, accumulator).
PEAK_COLUMNS = {
    "fp32_tflops": ("float32", VECTOR, "float32"),
    "fp16_vector_tflops": ("float16", VECTOR, "float16"),
    "tf32_tc_tflops": ("tf32", MATRIX, "float32"),
    "fp16_tc_fp32acc_tflops": ("float16", MATRIX, "float32"),
    "fp16_tc_fp16acc_tflops": ("float16", MATRIX, "float16"),
    "bf16_tc_tflops": ("bfloat16", MATRIX, "float32"),
    "fp8_tc_tflops": ("float8", MATRIX, "float32"),
    "fp4_tc_tflops": ("float4", MATRIX, "float32"),
}
FIGURE_COLUMNS = {
    "mem_gb": ("memory_size_bytes", 2**30),
    "bw_gbs": ("memory_bandwidth_bytes_per_s", 1e9),
    "l2_mb": ("l2_cache_bytes", 2**20),
    "sm_or_cu": ("multiprocessors", 1),
    "cuda_cores": ("vector_lanes", 1),
    "tensor_cores": ("tensor_cores", 1),
    "boost_mhz": ("boost_clock_hz", 1e6),
    "tdp_w": ("board_power_w", 1),
}
# Both tables round to three or four digits, some vendors to two and a half (67 for 66.9): half a unit of the
# third digit is at most 0.5 %.
ROUNDING = 0.005

# Where this table differs on purpose: (name, column) -> why.
CORRECTED = {
    (
        "MI210",
        "tf32_tc_tflops",
    ): "float32 on matrix cores: the source says 'not specified, fall back to float32'",
    ("P100-PCIe-16GB", "boost_mhz"): "1303 MHz follow from the vendor's 9.3 TFLOPS; 1329 is another database's",
    ("P100-PCIe-12GB", "boost_mhz"): "as above",
}


def rows(shared: Path) -> list[dict[str, str]]:
    with (shared / "data/speed/hardware.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_device_of_the_collected_figures_is_known_under_its_name(shared: Path) -> None:
    for row in rows(shared):
        device = find_device(row["name"])
        assert device.vendor == row["vendor"], row["name"]
        capability = None if device.compute_capability is None else str(device.compute_capability)
        assert capability == (row["compute_capability"] or None), row["name"]


def test_verified_peaks_agree_with_the_collected_figures(shared: Path) -> None:
    compared = 0
    for row in rows(shared):
        device = find_device(row["name"])
        for column, (number_format, unit, accumulate) in PEAK_COLUMNS.items():
            if (row["name"], column) in CORRECTED:
                continue
            found = [
                peak
                for peak in device.peaks
                if (peak.input, peak.unit, peak.accumulate) == (number_format, unit, accumulate)
            ]
            for peak in found:
                if peak.verified:
                    assert peak.ops_per_s == pytest.approx(float(row[column]) * 1e12, rel=ROUNDING), (
                        row,
                        column,
                    )
                    compared += 1
    assert compared >= 140


def test_verified_figures_agree_with_the_collected_figures(shared: Path) -> None:
    compared = 0
    for row in rows(shared):
        device = find_device(row["name"])
        for column, (field, scale) in FIGURE_COLUMNS.items():
            figure = getattr(device, field)
            if figure is not None and figure.verified and row[column]:
                assert figure.value == pytest.approx(float(row[column]) * scale, rel=ROUNDING), (
                    row["name"],
                    column,
                )
                compared += 1
    assert compared >= 95


def test_unverified_figures_are_present_where_figures_were_collected(shared: Path) -> None:
    # They differ by clocks and rounding between databases, so only their presence and magnitude is compared.
    for row in rows(shared):
        device = find_device(row["name"])
        for column, (field, scale) in FIGURE_COLUMNS.items():
            if not row[column] or (row["name"], column) in CORRECTED:
                continue
            figure = getattr(device, field)
            assert figure is not None, (row["name"], column)
            assert figure.value == pytest.approx(float(row[column]) * scale, rel=0.03), (row["name"], column)


def test_what_the_collection_calls_unverified_is_not_called_verified_here(shared: Path) -> None:
    for row in rows(shared):
        if row["tensor_peak_source"].startswith("unverified"):
            device = find_device(row["name"])
            assert not [peak for peak in device.peaks if peak.verified], row["name"]


@pytest.mark.parametrize("device", known_devices(), ids=lambda device: device.name)
def test_every_figure_names_a_source_and_a_computed_one_is_not_verified(device: Device) -> None:
    fields = [field for field, _ in FIGURE_COLUMNS.values()]
    figures = [figure for field in fields if (figure := getattr(device, field)) is not None]
    assert device.peaks
    for stated in (*figures, *device.peaks):
        assert stated.source.document
        if stated.source.key in {"computed", "general_knowledge"}:
            assert not stated.verified
        else:
            assert stated.source.url is not None
            assert stated.source.url.startswith(("https://", "http://"))


# Multiply-adds of one multiprocessor and clock on Tensor Cores, float16 operands: NVIDIA's white papers of each
# generation (Volta 8 x 64, Turing 8 x 64, GA100 4 x 256, GA10x 4 x 128, Ada 4 x 128, Hopper 4 x 512).
FUSED_PER_TENSOR_CORE = {"7.0": 64, "7.5": 64, "8.0": 256, "8.6": 128, "8.9": 128, "9.0": 512}


def test_tensor_core_peaks_are_the_dense_ones() -> None:
    # The sparse figures that vendors print are exactly twice as high. Boost clocks of Tensor Core work differ
    # from the listed ones by up to 8 % (Hopper), so 15 % tells the two apart without doubt.
    compared = 0
    for device in known_devices():
        width = FUSED_PER_TENSOR_CORE.get(str(device.compute_capability))
        peak = device.peak("float16", accumulate="float16", unit=MATRIX, allow_unverified=True)
        if width and peak and device.tensor_cores and device.boost_clock_hz:
            clock_hz = peak.clock_hz or device.boost_clock_hz.value
            ceiling = device.tensor_cores.value * width * 2 * clock_hz
            assert 0.85 < peak.ops_per_s / ceiling < 1.15, device.name
            compared += 1
    assert compared >= 40


def test_float32_peaks_follow_from_lanes_and_clock() -> None:
    # Two operations a lane and clock. The vendor rounds, and the P4 runs below its boost clock: within 10 %.
    compared = 0
    for device in known_devices():
        peak = device.peak("float32", unit=VECTOR, allow_unverified=True)
        if device.vendor == "NVIDIA" and peak and device.vector_lanes and device.boost_clock_hz:
            ceiling = device.vector_lanes.value * 2 * device.boost_clock_hz.value
            assert peak.ops_per_s == pytest.approx(ceiling, rel=0.1), device.name
            compared += 1
    assert compared >= 50


def test_the_three_gpus_of_the_article_have_their_published_rates() -> None:
    # Data sheets as cited in the table: P100 PCIe 9.3, V100 SXM2 15.7 and 125, T4 8.1 and 65 TFLOPS.
    rates = {}
    for name in ("P100", "V100", "T4"):
        device = find_device(name)
        matrix = device.peak("float16", unit=MATRIX, accumulate="float32")
        float32 = device.peak("float32")
        rates[name] = (float32 and float32.ops_per_s / 1e12, matrix and matrix.ops_per_s / 1e12)
    assert rates == {"P100": (9.3, None), "V100": (15.7, 125.0), "T4": (8.1, 65.0)}


def test_an_unverified_peak_is_given_only_on_request() -> None:
    device = find_device("RTX 3090")
    assert device.peak("float16", unit=MATRIX) is None
    asked = device.peak("float16", unit=MATRIX, accumulate="float32", allow_unverified=True)
    assert asked is not None
    assert not asked.verified


def test_names_and_aliases_are_unambiguous() -> None:
    spelled = [name.lower() for device in known_devices() for name in {device.name, *device.aliases}]
    assert len(spelled) == len(set(spelled))


def test_measured_gains_match_the_published_medians() -> None:
    # Medians and pair counts of the collection of published training pairs.
    expected = {"T4": (2.06, 722, "float32"), "V100": (2.61, 412, "float32"), "A100": (1.57, 252, "tf32")}
    for name, values in expected.items():
        training = find_device(name).mixed_training
        assert training is not None
        assert (training.median, training.pairs, training.baseline) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema_version = 2", "schema_version 2"),
        ("schema_version = ", "not valid TOML"),
        ("schema_version = 1", "'sources'"),
        ("schema_version = 1\n[sources]\n[[gpu]]\nname = 'X'", "'aliases'|'vendor'"),
    ],
)
def test_a_damaged_table_is_refused_with_the_cause(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_devices(text)


def test_a_figure_whose_source_is_not_listed_is_refused() -> None:
    text = """
    schema_version = 1
    [sources.sheet]
    document = "a sheet"
    [[gpu]]
    name = "X"
    aliases = []
    vendor = "NVIDIA"
    architecture = "Volta"
    compute_capability = "7.0"
    released = 2017
    memory_kind = "HBM2"
    memory_size = { gib = 16, source = "shet", verified = true }
    peaks = []
    """
    with pytest.raises(InputError, match="'shet'"):
        parse_devices(text)
    (device,) = parse_devices(text.replace("shet", "sheet"))
    assert device.memory_size_bytes is not None
    assert device.memory_size_bytes.value == 16 * 2**30

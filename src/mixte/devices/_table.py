"""The table of known accelerators: ``gpus.toml``, read and checked."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any, Final, cast

from mixte._errors import InputError
from mixte.devices._device import ComputeCapability, ComputeUnit, Device, MixedTraining, Peak
from mixte.devices._figure import Figure, Source

SCHEMA_VERSION: Final = 1

# Field of Device -> key in the file, unit key in the file, and what one of that unit is in the field's unit.
_FIGURES: Final = {
    "memory_size_bytes": ("memory_size", "gib", 2**30),
    "memory_bandwidth_bytes_per_s": ("memory_bandwidth", "gb_per_s", 10**9),
    "l2_cache_bytes": ("l2_cache", "mib", 2**20),
    "multiprocessors": ("multiprocessors", "count", 1),
    "vector_lanes": ("vector_lanes", "count", 1),
    "tensor_cores": ("tensor_cores", "count", 1),
    "boost_clock_hz": ("boost_clock", "mhz", 10**6),
    "board_power_w": ("board_power", "w", 1),
}

Table = dict[str, Any]


@cache
def known_devices() -> tuple[Device, ...]:
    """Return every accelerator of the table that comes with mixte, in its order."""
    text = resources.files("mixte.devices").joinpath("gpus.toml").read_text(encoding="utf-8")
    return parse_devices(text)


def parse_devices(text: str) -> tuple[Device, ...]:
    """Read a table in the form of ``gpus.toml``.

    Raises:
        InputError: The text is not TOML, of another schema version, or lacks a field; a source that is named
            is not listed.
    """
    try:
        table = tomllib.loads(text)
        if table["schema_version"] != SCHEMA_VERSION:
            raise InputError(
                f"the device table has schema_version {table['schema_version']}; this mixte reads {SCHEMA_VERSION}"
            )
        sources = {key: Source(key=key, **entry) for key, entry in table["sources"].items()}
        return tuple(_device(entry, sources) for entry in table["gpu"])
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the device table is not valid TOML: {error}") from error
    except KeyError as error:
        raise InputError(
            f"the device table lacks {error}, or names it as a source and does not list it"
        ) from error


def _device(entry: Table, sources: dict[str, Source]) -> Device:
    capability = entry.get("compute_capability")
    figures = {
        field: _figure(entry[key], unit, scale, sources)
        for field, (key, unit, scale) in _FIGURES.items()
        if key in entry
    }
    training = cast("Table | None", entry.get("mixed_training"))
    return Device(
        name=entry["name"],
        vendor=entry["vendor"],
        architecture=entry["architecture"],
        compute_capability=None if capability is None else ComputeCapability.parse(capability),
        aliases=tuple(entry["aliases"]),
        released=entry["released"],
        memory_kind=entry["memory_kind"],
        peaks=tuple(_peak(peak, sources) for peak in entry["peaks"]),
        mixed_training=None if training is None else _mixed_training(training, sources),
        note=entry.get("note"),
        **figures,
    )


def _figure(entry: Table, unit: str, scale: int, sources: dict[str, Source]) -> Figure:
    return Figure(value=entry[unit] * scale, source=sources[entry["source"]], verified=entry["verified"])


def _peak(entry: Table, sources: dict[str, Source]) -> Peak:
    clock_mhz = entry.get("clock_mhz")
    return Peak(
        ops_per_s=entry["tera_ops_per_s"] * 1e12,
        unit=ComputeUnit(entry["unit"]),
        input=entry["input"],
        accumulate=entry["accumulate"],
        source=sources[entry["source"]],
        verified=entry["verified"],
        clock_hz=None if clock_mhz is None else clock_mhz * 1e6,
        note=entry.get("note"),
    )


def _mixed_training(entry: Table, sources: dict[str, Source]) -> MixedTraining:
    return MixedTraining(
        median=entry["median"],
        pairs=entry["pairs"],
        baseline=entry["baseline"],
        quartiles=_pair(entry.get("quartiles")),
        range=_pair(entry.get("range")),
        note=entry.get("note"),
        source=sources[entry["source"]],
    )


def _pair(values: list[float] | None) -> tuple[float, float] | None:
    if values is None:
        return None
    low, high = values
    return low, high

"""Set up a run under ``mixte run``: what is done to Keras the moment that the script has imported it."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mixte._errors import MixteWarning
from mixte.keras._framework import BACKEND, keras
from mixte.keras._governor import GOVERNOR, Regime
from mixte.keras._hooks import install
from mixte.keras._recorder import Recorder
from mixte.keras._recording import install_recording
from mixte.records import Device

if TYPE_CHECKING:
    from mixte.policy import Policy
    from mixte.records import RecordWriter
    from mixte.scaling import LossScaleLaw

_PACKAGES = ("keras", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "torch", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line asks of a run.

    Attributes:
        policy: The policy, or None to leave every precision to the script.
        law: The loss-scaling law, or None for the policy's, or the default.
        seed: Seed for Python, numpy and the backend, or None.
    """

    policy: Policy | None
    law: LossScaleLaw | None
    seed: int | None


def begin(settings: Settings, writer: RecordWriter) -> Recorder:
    """Put the policy in force for the rest of the process, and record every training in it."""
    recorder = Recorder(writer)
    install()
    install_recording(recorder)
    GOVERNOR.enter(Regime(policy=settings.policy, law=settings.law, observer=recorder))
    writer.update(backend=BACKEND, versions=_versions(), devices=_devices())
    if settings.seed is not None:
        _take_over_seed(settings.seed)
    if settings.policy is not None:
        keras.config.set_dtype_policy(str(settings.policy.default))
        _take_over_policy(settings.policy.name)
    return recorder


def _take_over_seed(seed: int) -> None:
    """Set the seed, and keep it when the script sets one itself: it was asked for on the command line."""
    original = keras.utils.set_random_seed

    @functools.wraps(original)
    def set_random_seed(value: int) -> None:
        if value != seed:
            warnings.warn(
                f"the script sets the seed {value}; the command line's, {seed}, is used instead.",
                category=MixteWarning,
                stacklevel=2,
            )
        original(seed)

    original(seed)
    keras.utils.set_random_seed = set_random_seed


def _take_over_policy(name: str) -> None:
    """Keep the policy in force when the script sets a global one itself."""

    def set_dtype_policy(policy: Any) -> None:
        asked = policy if isinstance(policy, str) else policy.name
        warnings.warn(
            f"the script sets the global dtype policy {asked!r}; the command line's policy, {name!r}, is used "
            "instead. Leave --policy out to run the script in its own precision.",
            category=MixteWarning,
            stacklevel=2,
        )

    for module, attribute in (
        (keras.config, "set_dtype_policy"),
        (keras.mixed_precision, "set_dtype_policy"),
        (keras.mixed_precision, "set_global_policy"),
    ):
        if hasattr(module, attribute):
            setattr(module, attribute, set_dtype_policy)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _devices() -> tuple[Device, ...]:
    names = {"tensorflow": _devices_tensorflow, "jax": _devices_jax, "torch": _devices_torch}[BACKEND]()
    return names or (Device(name=platform.processor() or platform.machine(), kind="cpu"),)


def _devices_tensorflow() -> tuple[Device, ...]:
    import tensorflow as tf

    found: list[Device] = []
    for device in tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(device)
        capability = details.get("compute_capability")
        found.append(
            Device(
                name=details.get("device_name", device.name),
                kind="gpu",
                compute_capability=None if capability is None else ".".join(str(part) for part in capability),
            )
        )
    return tuple(found)


def _devices_jax() -> tuple[Device, ...]:
    import jax

    return tuple(
        Device(name=device.device_kind, kind=device.platform)
        for device in jax.local_devices()
        if device.platform != "cpu"
    )


def _devices_torch() -> tuple[Device, ...]:
    import torch

    found: list[Device] = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            Device(
                name=properties.name,
                kind="gpu",
                memory_bytes=properties.total_memory,
                compute_capability=f"{properties.major}.{properties.minor}",
            )
        )
    return tuple(found)

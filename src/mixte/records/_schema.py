"""What ``run.json`` holds: one run of one script under one policy.

The record's structures are msgspec Structs, not dataclasses: msgspec then reads lines of several kinds by their
tag and ignores fields that a newer version of mixte has added. It evaluates the annotations, so they are no
strings here.
"""

import datetime as dt
from typing import Literal

import msgspec

from mixte._version import __version__
from mixte.records._profile import CapturedProfile
from mixte.records._stopped import Stopped
from mixte.records._summary import RunSummary

SCHEMA_VERSION = 1
"""Raised when a reader of the previous version would misread a record; new optional fields do not raise it."""

RunStatus = Literal["running", "finished", "failed", "interrupted"]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The precision policy of a run.

    Attributes:
        name: As the user named it: a preset, or the path of a policy file.
        reason: Why this policy, where mixte chose it (``auto``).
        text: The policy spelled out (the content of a policy.toml), so that the run can be repeated.
    """

    name: str
    reason: str | None = None
    text: str | None = None


class LayerPrecision(msgspec.Struct, frozen=True, kw_only=True):
    """In which precision one layer ran, and why.

    Attributes:
        path: The layer's path in its model, for example ``"encoder/dense_3"``.
        layer_class: The class, for example ``"Dense"``.
        variable_dtype: Storage dtype of the layer's variables, for example ``"float32"``.
        compute_dtype: Dtype of its arithmetic, for example ``"float16"``.
        rule: The policy's rule that decided, as written in the policy.
        reason: The rule's reason, or the default's.
        parameters: Number of values in the layer's own variables.
    """

    path: str
    layer_class: str | None = None
    variable_dtype: str | None = None
    compute_dtype: str | None = None
    rule: str | None = None
    reason: str | None = None
    parameters: int | None = None


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model that the script trained; a generative adversarial network has several.

    Attributes:
        name: The model's name.
        parameters: Number of values in all variables of the model, trainable or not; without the optimizer's.
        trainable_parameters: Number of values in the trainable variables.
        layers: The precision of every layer, in the model's order.
    """

    name: str
    parameters: int | None = None
    trainable_parameters: int | None = None
    layers: tuple[LayerPrecision, ...] = ()


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """One optimizer that updated weights.

    Attributes:
        name: The name under which lines of ``steps.jsonl`` speak of it.
        optimizer_class: The class, for example ``"Adam"``; without the loss scaling around it.
        loss_scale: The loss-scaling law with its parameters as text; ``"none"`` if its loss is not scaled.
    """

    name: str
    optimizer_class: str | None = None
    loss_scale: str | None = None


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A device that the framework could use in this run.

    Attributes:
        name: The product's name, for example ``"Tesla T4"``.
        kind: ``"cpu"``, ``"gpu"`` or ``"tpu"``.
        memory_bytes: Size of its memory.
        compute_capability: NVIDIA's compute capability, for example ``"7.5"``.
        driver: Version of the driver.
    """

    name: str
    kind: str | None = None
    memory_bytes: int | None = None
    compute_capability: str | None = None
    driver: str | None = None


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """Which process wrote the record, so that a reader can tell whether it still lives.

    Attributes:
        host: Name of the machine.
        process_id: Number of the process there.
        start_mark: What tells this process from a later one of the same number; None where the system does
            not say.
    """

    host: str
    process_id: int
    start_mark: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``run.json``. None means unknown.

    Attributes:
        schema_version: Version of this layout.
        mixte_version: Version of mixte that wrote it.
        command: The command line as typed.
        script: Path of the script as typed.
        arguments: The script's own arguments.
        policy: The precision policy.
        backend: ``"tensorflow"``, ``"jax"`` or ``"torch"``.
        loss_scale: The loss-scaling law that the user asked for, with its parameters as text; None for the
            default. ``optimizers`` says what was used.
        seed: The seed that the run was given.
        versions: Version of Python and of each framework, by name.
        devices: The devices that the framework could use.
        models: The models trained, with every layer's precision. Known once they are built.
        optimizers: The optimizers, each with its loss-scaling law. Known once they are used.
        warnings: What the user should know about this run, in the order in which it came up.
        process: The process that wrote the record; set by the writer.
        started_at: UTC; set by the writer.
        finished_at: UTC; None while running, and for a process that was killed.
        status: ``"running"`` until the run ends.
        exit_code: Exit code of the script.
        exception: The exception that ended the script, as ``Type: message``.
        stopped: Why mixte stopped the run; None if it did not.
        profile: The profile that was asked for, with its verdict; set at the end of the run.
        summary: The summary, computed from the record at the end of the run.
    """

    schema_version: int = SCHEMA_VERSION
    mixte_version: str = __version__
    command: tuple[str, ...]
    script: str
    arguments: tuple[str, ...] = ()
    policy: Policy
    backend: str | None = None
    loss_scale: str | None = None
    seed: int | None = None
    versions: dict[str, str] = {}
    devices: tuple[Device, ...] = ()
    models: tuple[Model, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    warnings: tuple[str, ...] = ()
    process: Process | None = None
    started_at: dt.datetime | None = None
    finished_at: dt.datetime | None = None
    status: RunStatus = "running"
    exit_code: int | None = None
    exception: str | None = None
    stopped: Stopped | None = None
    profile: CapturedProfile | None = None
    summary: RunSummary | None = None

"""What a summary of a run holds. See ``summarise`` for how each value is computed."""

from __future__ import annotations

from typing import Literal

import msgspec

from mixte.records._profile import CapturedProfile  # noqa: TC001 - msgspec evaluates annotations


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A value at the beginning and at the end of a run.

    Attributes:
        first: The first logged value.
        last: The last logged value.
    """

    first: float
    last: float


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """Loss and metrics on one set of data.

    Attributes:
        loss: The loss; None where none was logged.
        metrics: The metrics by name, in the order in which they first appeared.
    """

    loss: Change | None = None
    metrics: dict[str, Change] = {}


class OptimizerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Loss scale and skipped steps of one optimizer. None is unknown.

    Attributes:
        law: The loss-scaling law as text; ``"none"`` if the loss is not scaled.
        loss_scale: First and last loss scale.
        loss_scale_min: Smallest logged loss scale.
        loss_scale_max: Largest logged loss scale.
        applied: Updates applied.
        skipped_in_calibration: Updates skipped before the first applied one: normal, the law finds its scale.
        skipped_later: Updates skipped afterwards.
        skipped_by_cause: All skipped updates by cause.
        skip_rate_since_calibration: ``skipped_later`` as a share, in [0, 1], of the updates tried since the
            first applied one, that one included; None before it.
    """

    law: str | None = None
    loss_scale: Change | None = None
    loss_scale_min: float | None = None
    loss_scale_max: float | None = None
    applied: int | None = None
    skipped_in_calibration: int | None = None
    skipped_later: int | None = None
    skipped_by_cause: dict[str, int] = {}
    skip_rate_since_calibration: float | None = None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a few values. None is unknown.

    Attributes:
        status: How the run ended, or ``"running"``. ``"killed"``: it never said that it ended, and is gone.
        script: Path of the script as typed.
        policy: Name of the policy.
        backend: The backend.
        devices: Names of the devices.
        seed: The seed that the run was given.
        loss_scale_law: The loss-scaling law that the user asked for, as text; None for the default.
        layers_by_compute_dtype: Number of layers by the dtype of their arithmetic.
        parameters: Number of values in all variables of all models.
        parameters_by_variable_dtype: The same by storage dtype.
        steps: Number of training steps.
        duration_s: Seconds from the start to the end, or to the last line of a run that never ended.
        first_step_ns: Duration of the first timed step, with tracing and compilation.
        steady_steps: Number of steady steps: timed ones that are not the first of a training, and not profiled.
        step_time_median_ns: Median duration of the steady steps.
        step_time_p95_ns: 95th percentile of the duration of the steady steps.
        scores: Loss and metrics by set of data: ``"train"``, ``"validation"``, ``"test"``.
        optimizers: Loss scale and skips by optimizer.
        host_memory_peak_bytes: Largest resident size of the process.
        device_memory_peak_bytes: Largest use of device memory.
        profile: The profile of some steps, with its verdict; None if none was asked for.
        exit_code: Exit code of the script.
        exception: The exception that ended the script.
        warnings: What the user should know.
    """

    status: Literal["running", "finished", "failed", "interrupted", "killed"]
    script: str
    policy: str
    backend: str | None = None
    devices: tuple[str, ...] = ()
    seed: int | None = None
    loss_scale_law: str | None = None
    layers_by_compute_dtype: dict[str, int] = {}
    parameters: int | None = None
    parameters_by_variable_dtype: dict[str, int] = {}
    steps: int | None = None
    duration_s: float | None = None
    first_step_ns: int | None = None
    steady_steps: int = 0
    step_time_median_ns: float | None = None
    step_time_p95_ns: float | None = None
    scores: dict[str, Scores] = {}
    optimizers: dict[str, OptimizerSummary] = {}
    host_memory_peak_bytes: int | None = None
    device_memory_peak_bytes: int | None = None
    profile: CapturedProfile | None = None
    exit_code: int | None = None
    exception: str | None = None
    warnings: tuple[str, ...] = ()

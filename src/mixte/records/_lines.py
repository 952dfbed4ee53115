"""What a line of ``steps.jsonl`` holds: a training step, an evaluation, or a sample of the process's state.

Every line is an object with a ``kind``. Absent fields are unknown. Times count from the start of the run.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class OptimizerStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one optimizer did in one step.

    Attributes:
        loss_scale: The factor that multiplied the loss of this step; of the first, where a line is several steps.
        skipped: True if the update was not applied; None if this is not known step by step.
        cause: Why it was skipped: ``"nan"`` (a gradient is NaN), ``"inf"`` (a gradient is infinite, none is
            NaN), ``"loss"`` (the loss itself is not finite), or another word.
    """

    loss_scale: float | None = None
    skipped: bool | None = None
    cause: str | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="step"):
    """One training step.

    Attributes:
        step: Number of the step since the start of the run, from 1. A step whose update was skipped counts.
        time_s: Seconds since the start of the run at the end of the step.
        epoch: Number of the epoch, from 0 as in Keras.
        step_time_ns: Duration of the step in nanoseconds, the wait for its data included. Where several steps
            are logged as one line, because the framework runs them as one, their mean.
        first: Whether it is the first step of a training (a ``fit``, say): it includes tracing and compilation.
        profiled: Whether a profiler ran meanwhile, which takes time.
        loss: The loss as the script's framework reported it at this step, without the loss scale. In Keras's
            ``fit`` that is the mean since the start of the epoch.
        metrics: Every other reported value, by name; the same remark applies.
        optimizers: What each optimizer did, by name.
    """

    step: int
    time_s: float
    epoch: int | None = None
    step_time_ns: int | None = None
    first: bool = False
    profiled: bool = False
    loss: float | None = None
    metrics: dict[str, float] = {}
    optimizers: dict[str, OptimizerStep] = {}


class Evaluation(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="evaluation"
):
    """Loss and metrics over a whole set of data.

    Attributes:
        split: ``"train"`` (over the epoch that ends here, as reported), ``"validation"`` (at the end of an
            epoch), ``"test"`` (an evaluation outside training).
        time_s: Seconds since the start of the run.
        step: Number of training steps done so far.
        epoch: Number of the epoch, from 0.
        loss: The loss.
        metrics: Every other value, by name, without a prefix such as ``val_``.
    """

    split: str
    time_s: float
    step: int | None = None
    epoch: int | None = None
    loss: float | None = None
    metrics: dict[str, float] = {}


class OptimizerState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counters of one optimizer since the start of the run.

    Attributes:
        loss_scale: The loss scale for the next step.
        steps: Steps tried, applied or not.
        applied: Updates applied.
        skipped: Updates not applied.
        skipped_in_calibration: Those of ``skipped`` that came before the first applied update.
        skipped_by_cause: ``skipped`` by cause; for the words see ``OptimizerStep.cause``.
    """

    loss_scale: float | None = None
    steps: int | None = None
    applied: int | None = None
    skipped: int | None = None
    skipped_in_calibration: int | None = None
    skipped_by_cause: dict[str, int] = {}


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="state"):
    """A sample of what the process holds, taken now and then.

    Attributes:
        time_s: Seconds since the start of the run.
        step: Number of training steps done so far.
        host_memory_peak_bytes: Largest resident size of the process so far.
        device_memory_peak_bytes: Largest use of device memory so far, summed over the devices.
        optimizers: The counters of each optimizer, by name. They include every step up to ``step``.
    """

    time_s: float
    step: int
    host_memory_peak_bytes: int | None = None
    device_memory_peak_bytes: int | None = None
    optimizers: dict[str, OptimizerState] = {}


Line: TypeAlias = Step | Evaluation | State

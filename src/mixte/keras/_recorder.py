"""Record a training while it runs: steps, losses, scales, skips. Adds no wait for the device to a step."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from mixte.keras._describe import describe_layers
from mixte.keras._framework import keras, to_host
from mixte.keras._governor import GOVERNOR
from mixte.keras._sampling import (
    Sample,
    decode,
    device_memory_peak_bytes,
    host_memory_peak_bytes,
    initial_state,
    is_loss_scaling,
    runs_ahead_of_device,
    sample,
    totals,
    what_happened,
)
from mixte.keras._timing import StepClock
from mixte.records import Evaluation, LayerPrecision, Model, OptimizerStep, RecordWriter, State, Step

if TYPE_CHECKING:
    from mixte.keras._apply import AppliedPolicy
    from mixte.keras._optimizer import LossScaleOptimizer
    from mixte.keras._scaler import ScalerState

_DRAIN_STEPS = 50
_DRAIN_SECONDS = 0.5


@dataclass(slots=True, kw_only=True)
class _Pending:
    """A step that has been started and is not written yet."""

    epoch: int | None = None
    end_s: float | None = None  # since the start of the run; None until it has ended
    loss: Any = None
    metrics: dict[str, Any] = field(default_factory=dict[str, Any])
    samples: dict[str, tuple[LossScaleOptimizer, Sample]] = field(default_factory=dict[str, Any])


class Recorder:
    """Turns what happens in Keras into lines of a run's record.

    What a step leaves on the device stays there, as copies, until some fifty steps or half a second have come
    together. Steps may end in another thread: Keras calls back there while the next step runs.

    Args:
        writer: The record, started.
        clock: Seconds from any origin; what a test replaces.
    """

    def __init__(self, writer: RecordWriter, *, clock: Any = time.perf_counter) -> None:
        self._writer = writer
        self._clock = clock
        self._start = clock()
        self._lock = threading.RLock()
        self._pending: dict[int, _Pending] = {}
        self._steps = 0
        self._step_clock = StepClock(runs_ahead=runs_ahead_of_device())
        self._drained_at = self._start
        self._states: dict[str, ScalerState] = {}
        self._optimizers: WeakSet[Any] = WeakSet()
        self._models: dict[int, Model] = {}
        self._batch_trained: WeakSet[Any] = WeakSet()
        self.epoch: int | None = None

    @property
    def steps(self) -> int:
        """Number of the last step that was started, from 1."""
        return self._steps

    def policy_applied(self, model: Any, applied: AppliedPolicy) -> None:
        """Write in which precision every layer of a model runs, and why."""
        layers = tuple(
            LayerPrecision(
                path=decision.path,
                layer_class=decision.class_name,
                variable_dtype=decision.variable_dtype or decision.layer.layer.variable_dtype,  # type: ignore[union-attr]
                compute_dtype=decision.compute_dtype or decision.layer.layer.compute_dtype,  # type: ignore[union-attr]
                rule=decision.source,
                reason=decision.reason,
                parameters=_own_parameters(decision.layer.layer),
            )
            for decision in applied.decisions
            if decision.path
        )
        self._write_model(model, layers)

    def optimizer_wrapped(self, model: Any, optimizer: Any) -> None:  # noqa: ARG002 - as the observer's contract
        """Remember an optimizer whose scale and skips are to be recorded."""
        if is_loss_scaling(optimizer):
            self._optimizers.add(optimizer)

    def training_begins(self, model: Any) -> None:
        """Note the model and optimizer of a training that begins, and the time from which its steps count."""
        GOVERNOR.govern(model)
        self.optimizer_wrapped(model, getattr(model, "optimizer", None))
        applied = GOVERNOR.applied_to(model)
        if applied is None and id(model) not in self._models:
            self._write_model(model, _as_the_script_made_them(model))
        with self._lock:
            self._drain()
            self._sample_before(model)
            self._step_clock.start(self._now(), first=True)

    def step_begins(self, model: Any, *, step: int) -> None:
        """Note that a step of a model is started; all steps before it have been started."""
        with self._lock:
            self._sample_after(self._steps, model)
            self._pending.setdefault(step, _Pending()).epoch = self.epoch
            self._steps = max(self._steps, step)
            self._drain_if_due()

    def step_ends(self, *, step: int, logs: dict[str, Any]) -> None:
        """Note that a step has ended, with the values that Keras reports for it."""
        with self._lock:
            entry = self._pending.setdefault(step, _Pending(epoch=self.epoch))
            entry.end_s = self._now()
            values = dict(logs)
            entry.loss = values.pop("loss", None)
            entry.metrics = values

    def batch_begins(self, model: Any) -> int:
        """Note a step that a script's own loop takes by ``train_on_batch``; return its number."""
        if model not in self._batch_trained:
            self._batch_trained.add(model)
            self.training_begins(model)
        step = self._steps + 1
        with self._lock:
            self.step_begins(model, step=step)
            self._drain()
            self._step_clock.start(self._now())
        return step

    def batch_ends(self, model: Any, *, step: int, logs: dict[str, Any]) -> None:
        """Note the end of such a step."""
        self.step_ends(step=step, logs=logs)
        with self._lock:
            self._sample_after(step, model)

    def loop_step(self, optimizer: Any, loss: Any) -> None:
        """Note an update made outside ``fit``, by a loop of the script's own, that was executed just now."""
        with self._lock:
            self._steps += 1
            entry = self._pending.setdefault(self._steps, _Pending())
            self.step_ends(step=self._steps, logs={} if loss is None else {"loss": loss})
            if is_loss_scaling(optimizer):
                self._optimizers.add(optimizer)
                entry.samples[optimizer.name] = (optimizer, sample(optimizer))
            self._drain_if_due()

    def evaluated(self, split: str, logs: dict[str, Any], *, epoch: int | None = None) -> None:
        """Write loss and metrics over a set of data."""
        values = {name: _number(value) for name, value in logs.items()}
        numbers = {name: value for name, value in values.items() if value is not None}
        with self._lock:
            self._writer.log(
                [
                    Evaluation(
                        split=split,
                        time_s=self._now(),
                        step=self._steps,
                        epoch=epoch,
                        loss=numbers.pop("loss", None),
                        metrics=numbers,
                    )
                ]
            )

    def epoch_ends(self, model: Any, *, epoch: int, logs: dict[str, Any]) -> None:
        """Write all steps of the epoch, its results, and the counters."""
        with self._lock:
            self._sample_after(self._steps, model)
            self._drain()
            train = {name: value for name, value in logs.items() if not name.startswith("val_")}
            validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
            self.evaluated("train", train, epoch=epoch)
            if validation:
                self.evaluated("validation", validation, epoch=epoch)
            self._write_state(model)
            self._last_end = (
                self._clock()
            )  # what comes before the next step, an evaluation say, is not part of it

    def close(self) -> None:
        """Write what is left."""
        with self._lock:
            self._drain()
            self._write_state(None)

    def _write_model(self, model: Any, layers: tuple[LayerPrecision, ...]) -> None:
        entry = Model(
            name=model.name,
            parameters=_count(model.variables),
            trainable_parameters=_count(model.trainable_variables),
            layers=layers,
        )
        if self._models.get(id(model)) != entry:
            self._models[id(model)] = entry
            self._writer.update(models=tuple(self._models.values()))

    def _sample_before(self, model: Any) -> None:
        optimizer = getattr(model, "optimizer", None)
        if is_loss_scaling(optimizer):
            self._states[optimizer.name] = decode(optimizer, sample(optimizer, model))  # type: ignore[arg-type, union-attr]

    def _sample_after(self, step: int, model: Any) -> None:
        """Copy the scaler's state after a step, before the next one is started."""
        optimizer = getattr(model, "optimizer", None)
        entry = self._pending.get(step)
        if entry is not None and is_loss_scaling(optimizer) and optimizer.name not in entry.samples:  # type: ignore[union-attr]
            entry.samples[optimizer.name] = (optimizer, sample(optimizer, model))  # type: ignore[arg-type, union-attr]

    def _drain_if_due(self) -> None:
        if len(self._pending) > _DRAIN_STEPS or self._clock() - self._drained_at > _DRAIN_SECONDS:
            self._drain(complete=False)

    def _drain(self, *, complete: bool = True) -> None:
        """Write the steps that have ended, in order, up to the first that has not.

        Args:
            complete: Whether the last step is over, with its sample taken and the time to be counted.
        """
        self._drained_at = self._clock()
        ended: list[int] = []
        for step in sorted(self._pending):
            if self._pending[step].end_s is None or (not complete and step == self._steps):
                break
            ended.append(step)
        ends_s = [self._pending[step].end_s or 0.0 for step in ended]
        durations_s = self._step_clock.durations_s(ends_s, complete=complete)
        self._writer.log(
            [
                self._line(step, self._pending.pop(step), duration_s)
                for step, duration_s in zip(ended, durations_s, strict=False)
            ]
        )

    def _line(self, step: int, entry: _Pending, duration_s: float) -> Step:
        values = {name: _number(value) for name, value in entry.metrics.items()}
        return Step(
            step=step,
            time_s=entry.end_s or 0.0,
            epoch=entry.epoch,
            step_time_ns=round(duration_s * 1e9),
            loss=_number(entry.loss),
            metrics={name: value for name, value in values.items() if value is not None},
            optimizers={name: self._optimizer_step(name, *copies) for name, copies in entry.samples.items()},
        )

    def _now(self) -> float:
        return self._clock() - self._start

    def _optimizer_step(self, name: str, optimizer: LossScaleOptimizer, copies: Sample) -> OptimizerStep:
        after = decode(optimizer, copies)
        before = self._states.get(name)
        self._states[name] = after
        if before is None:  # the first step of a loop: its state before was the initial one
            before = initial_state(optimizer)
        return what_happened(before, after)

    def _write_state(self, model: Any) -> None:
        optimizers = {
            optimizer.name: totals(decode(optimizer, sample(optimizer, model)))
            for optimizer in self._optimizers
        }
        self._writer.log(
            [
                State(
                    time_s=self._now(),
                    step=self._steps,
                    host_memory_peak_bytes=host_memory_peak_bytes(),
                    device_memory_peak_bytes=device_memory_peak_bytes(),
                    optimizers=optimizers,
                )
            ]
        )
        self._writer.flush()


def _as_the_script_made_them(model: Any) -> tuple[LayerPrecision, ...]:
    return tuple(
        LayerPrecision(
            path=description.path,
            layer_class=description.class_name,
            variable_dtype=description.layer.variable_dtype,  # type: ignore[union-attr] - describe_layers sets it
            compute_dtype=description.layer.compute_dtype,  # type: ignore[union-attr]
            rule="script",
            reason="as the script made it",
            parameters=_own_parameters(description.layer),
        )
        for description in describe_layers(model)
        if description.path
    )


def _own_parameters(layer: Any) -> int:
    own = [*layer._trainable_variables, *layer._non_trainable_variables]  # noqa: SLF001 - without sublayers'
    return _count(own)


def _count(variables: Any) -> int:
    total = 0
    for variable in variables:
        size = 1
        for length in variable.shape:
            size *= length
        total += size
    return total


def _number(value: Any) -> float | None:
    """Return a scalar as a float; None for what is none."""
    if value is None:
        return None
    try:
        return float(to_host(value)) if keras.ops.is_tensor(value) else float(value)
    except (TypeError, ValueError):
        return None

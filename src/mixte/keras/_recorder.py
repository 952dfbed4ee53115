"""Record a training while it runs: steps, losses, scales, skips. Adds no wait for the device to a step."""

from __future__ import annotations

import functools
import math
import os
import threading
import time
import traceback
import warnings
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakSet

from mixte._errors import MixteWarning
from mixte.keras._capture import Capture, NoCapture
from mixte.keras._environment import (
    device_memory_peak_bytes,
    devices,
    host_memory_peak_bytes,
    overlooked_gpus,
    runs_ahead_of_device,
)
from mixte.keras._framework import BACKEND, keras, to_host
from mixte.keras._guard import Guard
from mixte.keras._model_entry import decided_layers, model_entry, scripted_layers
from mixte.keras._optimizer_book import OptimizerBook, scales
from mixte.keras._pending_steps import PendingStep, PendingSteps
from mixte.keras._sampling import sample
from mixte.keras._scaler import LossScaler
from mixte.records import Evaluation, Model, OptimizerState, OptimizerStep, RecordWriter, State, Step, StepClock
from mixte.scaling import StopRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.keras._apply import AppliedPolicy
    from mixte.records import CapturedProfile

P = ParamSpec("P")
R = TypeVar("R")

_DRAIN_STEPS: Final = 50
_DRAIN_SECONDS: Final = 0.5
_STATE_SECONDS: Final = 10.0
_MANY: Final = 2  # steps, of which it is not known how many they are


def _apart(method: Callable[Concatenate[Recorder, P], R]) -> Callable[Concatenate[Recorder, P], R | None]:
    """Keep a failure to record apart from the training, and out of the processes that the script forks."""

    @functools.wraps(method)
    def kept_apart(self: Recorder, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if self.stopped or os.getpid() != self.owner:
            return None
        try:
            return method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 - whatever it is, the training goes on
            self.stopped = True
            where = traceback.format_exc(limit=-3).strip()
            warnings.warn(
                f"recording has stopped, the training goes on. Please report this: {where}",
                category=MixteWarning,
                stacklevel=2,
            )
            return None

    return kept_apart


class Recorder:
    """Turns what happens in Keras into lines of a run's record.

    What a step leaves on the device stays there, as copies, until some fifty steps or half a second have come
    together. In ``fit`` they are read where Keras hands over a batch's results: on JAX and PyTorch in a thread
    beside the training's; on TensorFlow in the training's own, where Keras has waited for the step just now.

    Args:
        writer: The record, started.
        started_s: When the run started, by the clock.
        clock: Seconds from any origin; what a test replaces.
        capture: What profiles some of the steps.
        guard: Whoever wants to know what became of each step, to stop a training that gets nowhere.
    """

    def __init__(
        self,
        writer: RecordWriter,
        *,
        started_s: float,
        clock: Callable[[], float] = time.perf_counter,
        capture: Capture | NoCapture | None = None,
        guard: Guard | None = None,
    ) -> None:
        self.stopped = False
        self.owner = os.getpid()
        self._writer = writer
        self._clock = clock
        self._start = started_s
        self._capture = capture or NoCapture()
        self._guard = guard or Guard(StopRule(after=0))
        # Two locks, so that the training never waits for what is being read from the device. They are taken in
        # this order: `_writing` for what goes to the record, then that of the steps that wait to be written.
        self._writing = threading.RLock()
        self._pending = PendingSteps()
        self._epoch: int | None = None
        self._step_clock: StepClock | None = None
        self._drained_at = self._state_at = clock()
        self._state_of: tuple[int, dict[str, OptimizerState]] | None = None  # what the last state told
        self._book = OptimizerBook(lambda entries: writer.update(optimizers=entries))
        self._training: list[Any] = []  # what scales the losses of the present `fit`
        self._models: dict[int, Model] = {}
        self._looping = False  # whether the last step was one of a loop of the script's own
        self._seen: WeakSet[Any] = WeakSet()  # sources whose steps are seen one by one
        self._traced: list[Any] = []  # sources whose updates were compiled by the script
        self._unseen = 0  # steps of those, as last counted
        self._watch: threading.Event | None = None

    # What the policy did -------------------------------------------------------------------------------------

    @_apart
    def policy_applied(self, model: Any, applied: AppliedPolicy) -> None:
        """Write in which precision every layer of a model runs, and why."""
        self._write_model(model, model_entry(model, decided_layers(applied)))

    @_apart
    def optimizer_made(self, optimizer: Any) -> None:
        """Note that an optimizer was wrapped, by mixte or by the script."""
        self._book.made(optimizer)

    # Training by `fit` ---------------------------------------------------------------------------------------

    @_apart
    def training_begins(self, model: Any, *, policy_known: bool) -> None:
        """Note a training that begins, and in which state.

        Args:
            model: The model, built.
            policy_known: Whether ``policy_applied`` has told of its layers.
        """
        self._training_starts()
        optimizer = getattr(model, "optimizer", None)
        if not policy_known and id(model) not in self._models:
            self._write_model(model, model_entry(model, scripted_layers(model)))
        self._pending.give_up_unended()
        self._drain()
        self._training = []
        if optimizer is not None:
            source = self._book.source_of(optimizer)
            if scales(source):
                self.scaler_used(source)
                self._book.read(source, model)
        self._pending.training_begins(self._now())
        self._looping = False

    @_apart
    def scaler_used(self, scaler: Any) -> None:
        """Note that the present training scales a loss by this scaler."""
        if not any(scaler is known for known in self._training):
            self._training.append(scaler)
            self._seen.add(scaler)
            self._book.name_of(scaler)

    @_apart
    def epoch_begins(self, epoch: int) -> int:
        """Note an epoch that begins; return how many steps were started before it."""
        self._epoch = epoch
        self._pending.resumes(self._now())
        return self._pending.started

    @_apart
    def steps_begin(self, model: Any, *, last: int, steps: int = 1) -> None:
        """Note that steps are started, all before them having been started.

        Args:
            model: The model that is trained.
            last: Number of the last of them.
            steps: How many they are.
        """
        if self._capture.steps_begin(first=last - steps + 1, last=last):
            self._pending.resumes(self._now())
        profiled = self._capture.is_running()
        self._pending.begin(last, self._training, model, steps=steps, epoch=self._epoch, profiled=profiled)

    @_apart
    def steps_end(self, *, last: int, logs: dict[str, Any]) -> None:
        """Note that these steps have ended, with the values that Keras reports for them."""
        if self._pending.end(last, end_s=self._now(), logs=logs):
            self._drain_if_due()

    @_apart
    def steps_pause(self) -> None:
        """Note that something else than a step comes now, in the thread that trains: a validation, say."""
        self._capture.pause()

    @_apart
    def training_broke(self, error: BaseException) -> None:
        """Note an exception that leaves a training."""
        self._capture.training_broke(error)

    @_apart
    def epoch_ends(self, model: Any, *, epoch: int, logs: dict[str, Any]) -> None:
        """Write all steps of the epoch, its results, and the counters."""
        self._capture.pause()
        self._pending.sample_after(self._pending.ended, self._training, model)
        self._pending.give_up_unended()
        self._drain()
        train = {name: value for name, value in logs.items() if not name.startswith("val_")}
        validation = {name[4:]: value for name, value in logs.items() if name.startswith("val_")}
        self._write_evaluation("train", train, epoch)
        if validation:
            self._write_evaluation("validation", validation, epoch)
        with self._writing:
            self._write_state()

    # Training in other ways ----------------------------------------------------------------------------------

    @_apart
    def batch_begins(self, model: Any, *, policy_known: bool, new: bool) -> int:
        """Note a step that a script's own loop takes by ``train_on_batch``; return its number.

        Args:
            model: The model.
            policy_known: As for ``training_begins``.
            new: Whether it is the first of this model, or the first after another training.
        """
        self._pending.give_up_unended()
        if new:
            self.training_begins(model, policy_known=policy_known)
        self._epoch = None
        self._pending.resumes(self._now())
        self.steps_begin(model, last=self._pending.started + 1)
        return self._pending.started

    @_apart
    def batch_ends(self, model: Any, *, step: int, logs: dict[str, Any]) -> None:
        """Note the end of such a step."""
        self._capture.pause()
        self.steps_end(last=step, logs=logs)
        self._pending.sample_after(step, self._training, model)

    @_apart
    def loop_step(self, source: Any, losses: list[Any]) -> None:
        """Note an update made outside ``fit``, by a loop of the script's own, that was executed just now.

        Args:
            source: What scales the loss, or the optimizer; see ``OptimizerBook``.
            losses: The losses scaled for it, on the device.
        """
        self._training_starts()
        self._book.name_of(source)
        self._seen.add(source)
        if not self._looping:
            self._pending.give_up_unended()
            self._pending.training_begins(math.nan)
            self._looping = True
        ended = PendingStep(
            profiled=self._capture.is_running(),
            end_s=self._now(),
            losses=[loss for loss in losses if getattr(loss, "ndim", None) == 0],
            samples=[(source, sample(source))] if scales(source) else [],
        )
        following = self._pending.add_ended(ended) + 1
        if self._capture.steps_begin(first=following, last=following):
            self._pending.resumes(self._now())
        self._drain_if_due()

    @_apart
    def loop_traced(self, source: Any) -> None:
        """Note an update outside ``fit`` that the script compiles: nothing is called when it is executed."""
        self._training_starts()
        self._book.name_of(source)
        if not any(source is known for known in self._traced):
            self._traced.append(source)
        if self._watch is None and BACKEND == "tensorflow":
            self._watch = threading.Event()
            threading.Thread(target=self._watch_totals, args=(self._watch,), daemon=True).start()

    @_apart
    def evaluated(self, split: str, logs: dict[str, Any]) -> None:
        """Write loss and metrics over a set of data, evaluated outside ``fit``."""
        self._write_evaluation(split, logs, None)
        self._pending.resumes(self._now())  # it was no part of the next step

    @_apart
    def close(self) -> None:
        """Write what is left."""
        self._capture.close()
        if self._watch is not None:
            self._watch.set()
        self._pending.give_up_unended()
        self._drain()
        with self._writing:
            self._read_totals(of_all=True)
            self._write_state()
        self._tell_of_compiled_loops()

    @property
    def guard(self) -> Guard:
        """Whoever watches over the training."""
        return self._guard

    def captured(self, *, finished: bool) -> CapturedProfile | None:
        """Say what was profiled; None if that was not asked for.

        Args:
            finished: Whether the script came to its end.
        """
        if os.getpid() != self.owner:
            return None
        self._capture.close()  # once more: recording may have stopped before
        return self._capture.result(ended=self._pending.ended, finished=finished)

    # -----------------------------------------------------------------------------------------------------------

    def _training_starts(self) -> None:
        """Look at the devices, now that the script has set them up as it wants; once."""
        if self._step_clock is not None:
            return
        self._step_clock = StepClock(runs_ahead=runs_ahead_of_device())
        found = devices()
        self._writer.update(devices=found)
        if all(device.kind == "cpu" for device in found) and (overlooked := overlooked_gpus()):
            warnings.warn(overlooked, category=MixteWarning, stacklevel=2)

    def _write_model(self, model: Any, entry: Model) -> None:
        if self._models.get(id(model)) != entry:
            self._models[id(model)] = entry
            self._writer.update(models=tuple(self._models.values()))

    def _drain_if_due(self) -> None:
        """Write the steps before the last one, if there are enough and nobody is writing at this moment."""
        due = len(self._pending) > _DRAIN_STEPS or self._clock() - self._drained_at > _DRAIN_SECONDS
        if due and self._writing.acquire(blocking=False):
            try:
                self._drain(complete=False)
                if self._clock() - self._state_at > _STATE_SECONDS:
                    self._write_state()
            finally:
                self._writing.release()

    def _drain(self, *, complete: bool = True) -> None:
        """Write the steps that have ended, in order, up to the first that has not.

        Args:
            complete: Whether the last step is over, with its samples taken and its time to be counted.
        """
        with self._writing:
            self._drained_at = self._clock()
            ready = self._pending.take(self._step_clock, complete=complete)
            self._writer.log([self._line(step, entry, duration_s) for step, entry, duration_s in ready])

    def _line(self, step: int, entry: PendingStep, duration_s: float | None) -> Step:
        loss, optimizers = _sum(entry.losses), dict[str, OptimizerStep]()
        for source, copies in entry.samples:
            before, name = self._book.last_reading(source), self._book.name_of(source)
            optimizers[name] = self._book.step(source, copies, steps=entry.steps)
            after = self._book.last_reading(source)
            self._guard.saw_step(source, before, after, name=name, step=step, steps=entry.steps)
        if not optimizers:
            self._guard.saw_loss(loss, step=step, steps=entry.steps)
        return Step(
            step=step,
            time_s=entry.end_s or 0.0,
            epoch=entry.epoch,
            step_time_ns=None if duration_s is None else round(duration_s * 1e9),
            first=entry.first,
            profiled=entry.profiled,
            loss=loss,
            metrics=_numbers(entry.metrics),
            optimizers=optimizers,
        )

    def _now(self) -> float:
        return self._clock() - self._start

    def _write_evaluation(self, split: str, logs: dict[str, Any], epoch: int | None) -> None:
        numbers = _numbers(logs)
        evaluation = Evaluation(
            split=split,
            time_s=self._now(),
            step=self._pending.started,
            epoch=epoch,
            loss=numbers.pop("loss", None),
            metrics=numbers,
        )
        with self._writing:
            self._writer.log([evaluation])

    def _read_totals(self, *, of_all: bool) -> None:
        """Read the counters of what is not seen step by step; at the end, of all: a last step may have been lost."""
        unseen = 0
        for scaler in self._book.scalers():
            if of_all or scaler not in self._seen:
                before = self._book.last_reading(scaler)
                counted = self._book.steps_counted(scaler)
                if counted and scaler not in self._seen:
                    name, after = self._book.name_of(scaler), self._book.last_reading(scaler)
                    unseen += counted
                    self._guard.saw_step(scaler, before, after, name=name, step=counted, steps=_MANY)
        for source in self._traced:
            if source not in self._seen and not isinstance(source, LossScaler):
                unseen += self._book.steps_counted(source)
        self._unseen = unseen

    def _write_state(self) -> None:
        """Write the counters as they were last read."""
        self._state_at = self._clock()
        step = self._pending.last_taken() + self._unseen
        totals = self._book.last_totals()
        if not step or (step, totals) == self._state_of:
            return
        self._state_of = step, totals
        self._writer.log(
            [
                State(
                    time_s=self._now(),
                    step=step,
                    host_memory_peak_bytes=host_memory_peak_bytes(),
                    device_memory_peak_bytes=device_memory_peak_bytes(),
                    optimizers=totals,
                )
            ]
        )
        self._writer.flush()

    def _watch_totals(self, stop: threading.Event) -> None:
        """Read the counters now and then, while a compiled loop runs in which nothing else is called."""
        while not stop.wait(_STATE_SECONDS):
            self._write_totals()

    @_apart
    def _write_totals(self) -> None:
        with self._writing:
            self._read_totals(of_all=False)
            self._write_state()
        self._guard.interrupt()

    def _tell_of_compiled_loops(self) -> None:
        compiled = [source for source in self._traced if source not in self._seen]
        if not compiled:
            return
        names = ", ".join(self._book.name_of(source) for source in compiled)
        text = (
            f"the script compiles its own training loop ({names}): nothing sees its single steps, so there are no "
            "step times and no losses of it"
        )
        if BACKEND == "jax" and not any(self._book.steps_counted(source) for source in compiled):
            text += (
                ", and its optimizer's state stays in its own hands. To have loss scale and skips here, write it back "
                "at the end: for variable, value in zip(optimizer.variables, optimizer_variables): "
                "variable.assign(value)"
            )
        warnings.warn(f"{text}.", category=MixteWarning, stacklevel=2)


def _sum(losses: list[Any]) -> float | None:
    values = [value for value in map(_number, losses) if value is not None]
    return sum(values) if values else None


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    numbers = {name: _number(value) for name, value in values.items()}
    return {name: number for name, number in numbers.items() if number is not None}


def _number(value: Any) -> float | None:
    """Return a scalar as a float; None for what is none."""
    try:
        return float(to_host(value)) if keras.ops.is_tensor(value) else float(value)
    except (TypeError, ValueError):
        return None

"""Watch a training's counters and losses; stop it, with the cause, where going on would bring nothing."""

from __future__ import annotations

import _thread
import functools
import math
import traceback
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, final
from weakref import WeakKeyDictionary, WeakSet

from mixte._errors import MixteWarning
from mixte.keras._describe import describe_layers
from mixte.keras._framework import keras, to_host
from mixte.keras._governor import GOVERNOR
from mixte.keras._guard_batch import BatchMemory
from mixte.keras._guard_cause import find_cause, first_bad_weight
from mixte.keras._guard_text import scale_text, what_to_do, what_was_found
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._scaler import LossScaler
from mixte.records import Stopped
from mixte.scaling import (
    Descent,
    FixedScale,
    StopReason,
    Streak,
    TrainingStoppedError,
    descent,
    judge,
    lengthened,
    skipped_once_more,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.keras._sampling import Reading
    from mixte.scaling import StopRule

P = ParamSpec("P")
R = TypeVar("R")

_WEIGHTS_CHECKED_EVERY = 50
_REPRODUCED = (
    "batch",
    "weights",
    "input_range",
    "not_precision",
    "range",
    "inside_layer",
    "loss_precision",
    "loss",
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Alarm:
    """What was seen of a training that is to be stopped.

    Attributes:
        reason: Why.
        step: Number of the last step that was seen.
        count: Skipped updates, or losses that were not finite, in a row.
        source: What scales the loss, or the optimizer.
        name: Its name, or None.
        scale: The scale of the last step, or None.
        certain: Whether nothing else can explain what was seen.
    """

    reason: StopReason
    step: int | None
    count: int | None = None
    source: Any = None
    name: str | None = None
    scale: float | None = None
    certain: bool = True


def _apart(method: Callable[Concatenate[Guard, P], R]) -> Callable[Concatenate[Guard, P], R | None]:
    """Keep a failure of the guard apart from the training."""

    @functools.wraps(method)
    def kept_apart(self: Guard, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        if self.failed:
            return None
        try:
            return method(self, *args, **kwargs)
        except TrainingStoppedError:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, the training goes on
            self.failed = True
            where = traceback.format_exc(limit=-3).strip()
            warnings.warn(
                f"the training is no longer guarded, and goes on. Please report this: {where}",
                category=MixteWarning,
                stacklevel=2,
            )
            return None

    return kept_apart


class Guard:
    """Knows when a training is to be stopped, and says why. It reads nothing from the device before that.

    What is seen may be told in any thread; ``check`` raises in the training's.

    Args:
        rule: How long a training may go on.
        tell: Called with the finding, once, before anything is raised.
    """

    def __init__(self, rule: StopRule, tell: Callable[[Stopped], None] | None = None) -> None:
        self.rule = rule
        self.batches = BatchMemory()
        self.finding: Stopped | None = None
        self.interrupted = False
        self.failed = False
        self._tell = tell
        self._alarm: _Alarm | None = None
        self._streaks: WeakKeyDictionary[Any, Streak] = WeakKeyDictionary()
        self._losses_in_a_row = 0
        self._muted = False  # a mean over an epoch stays NaN though the training goes on well
        self._scaling: WeakSet[Any] = WeakSet()
        self._plain: WeakKeyDictionary[Any, Any] = (
            WeakKeyDictionary()
        )  # whether the weights were finite, on the device
        self._updates = 0

    # What is seen -------------------------------------------------------------------------------------------

    def optimizer_made(self, optimizer: Any) -> None:
        """Note an optimizer that scales its loss: it knows whose gradients were not finite."""
        self._scaling.add(optimizer)

    def optimizer_used(self, optimizer: Any) -> None:
        """Note an optimizer that applies whatever gradients it gets."""
        if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
            self._plain.setdefault(optimizer, None)

    @_apart
    def saw_step(
        self,
        source: Any,
        before: Reading | None,
        after: Reading | None,
        *,
        name: str,
        step: int,
        steps: int = 1,
    ) -> None:
        """Note what became of one or more updates.

        Args:
            source: What scales the loss.
            before: Its state before them; None at the beginning.
            after: Its state after them.
            name: Its name.
            step: Number of the last of these steps.
            steps: How many they are.
        """
        if after is None or not self.rule.stops:
            return
        streak, law = self._streaks.get(source, Streak()), Descent(None, 0)
        scale = after.scale if before is None or steps > 1 else before.scale
        if isinstance(source, LossScaler) and after.counters is not None:
            earlier = dict.fromkeys(after.counters, 0) if before is None else before.counters or {}
            streak, law = lengthened(streak, earlier, after.counters), descent(source.law)
        elif before is not None and before.scale > 0:
            halvings = math.log2(before.scale / after.scale) if after.scale > 0 else steps
            for _ in range(steps):  # Keras halves the scale with every skipped step, and with no other
                streak = skipped_once_more(streak, skipped=halvings >= steps)
        self._streaks[source] = streak
        reason = judge(streak, self.rule, law, scale=scale)
        if reason is not None and self._alarm is None:
            self._alarm = _Alarm(
                reason=reason,
                step=step,
                count=streak.loss_skips if reason == "loss" else streak.skips,
                source=source,
                name=name,
                scale=scale,
            )

    def saw_loss(self, loss: float | None, *, step: int, steps: int = 1) -> None:
        """Note the loss of a training in which nothing checks the gradients: a mean over the epoch so far, maybe."""
        if loss is None or not self.rule.stops:
            return
        self._losses_in_a_row = 0 if math.isfinite(loss) else self._losses_in_a_row + steps
        if self._losses_in_a_row == 0:
            self._muted = False
        elif self._losses_in_a_row >= self.rule.after and not self._muted and self._alarm is None:
            self._alarm = _Alarm(reason="loss", step=step, count=self._losses_in_a_row, certain=False)

    @_apart
    def saw_plain_update(self, optimizer: Any) -> None:
        """Note an update in a loop of the script's own, of which neither loss nor gradients are checked.

        Now and then the weights are looked at, on the device; the answer is read the next time, when it is there.
        """
        self.optimizer_used(optimizer)
        self._updates += 1
        if not self.rule.stops or self._updates % _WEIGHTS_CHECKED_EVERY:
            return
        finite = self._plain[optimizer]
        if finite is not None and not bool(to_host(finite)) and self._alarm is None:
            self._alarm = _Alarm(
                reason="weights", step=self._updates, source=optimizer, name=optimizer.name, certain=False
            )
        self._plain[optimizer] = _all_finite(optimizer._trainable_variables)  # noqa: SLF001 - not public

    @_apart
    def note(self, action: Callable[[], None]) -> None:
        """Take note of a batch, by doing something that must not harm the training."""
        action()

    # What is done about it -----------------------------------------------------------------------------------

    @property
    def alarmed(self) -> bool:
        """Whether the training is to be stopped."""
        return self._alarm is not None and self.finding is None

    @_apart
    def check(self, model: Any = None) -> None:
        """Stop the training if it is to be stopped. In the training's own thread.

        Args:
            model: The model that is being trained, where that is known.

        Raises:
            TrainingStoppedError: With the cause.
        """
        if self.alarmed and (finding := self._find(model)) is not None:
            raise TrainingStoppedError(finding.text, finding)

    def interrupt(self) -> None:
        """Interrupt the main thread, as Ctrl-C would, if the training is to be stopped: from another thread.

        For a loop that the script has compiled, in which nothing of ours is called.
        """
        if self.alarmed and not self.failed:
            self.interrupted = True
            _thread.interrupt_main()

    @_apart
    def conclude(self, *, ended: bool = True) -> Stopped | None:
        """Return what ought to have stopped a training that is over.

        Args:
            ended: Whether it came to an end by itself.
        """
        if not self.rule.stops or self.finding is not None:
            return None
        if self._alarm is None:
            for optimizer in list(self._plain):
                if _has_bad_weight(optimizer):
                    self._alarm = _Alarm(reason="weights", step=None, source=optimizer, name=optimizer.name)
        return None if self._alarm is None else self._find(None, ended=ended)

    def _find(self, model: Any, *, ended: bool = False) -> Stopped | None:
        """Find the cause, and tell of it; None for a false alarm."""
        alarm, self._alarm = self._alarm, None
        assert alarm is not None  # noqa: S101 - of this module's own doing
        if hasattr(model, "jax_state_sync"):
            model.jax_state_sync()  # on JAX, fit holds the state
        optimizers = self._optimizers_of(alarm.source, model)
        model = model if model is not None else self._model_of(optimizers)
        batch = None if model is None else self.batches.batch_of(model, may_take=alarm.certain)
        scale = alarm.scale if not isinstance(alarm.source, LossScaler) or alarm.source.scales else None
        cause = find_cause(model, batch, scale=scale)
        reproduced = cause.kind in _REPRODUCED and batch is not None and batch.which == "last batch"
        if not (alarm.certain or reproduced or cause.kind == "weights"):
            self._muted = True
            return None
        gradient = _last_bad_gradient(optimizers)
        gradient_layer = None if gradient is None or model is None else _layer_of(model, gradient)
        law = getattr(alarm.source, "law", None)
        remedy = what_to_do(
            cause,
            gradient_layer=None
            if alarm.reason == "loss"
            else gradient_layer,  # a bad loss makes all gradients bad
            fixed=isinstance(law, FixedScale) and law.scale > 1,
        )
        sentences = [_what_happened(alarm, model, ended=ended)]
        if gradient is not None:
            within = "" if gradient_layer is None else f", of the layer {gradient_layer!r}"
            sentences.append(f"The first gradient that was not finite was that of {gradient}{within}.")
        sentences += [what_was_found(cause, "batch" if batch is None else batch.which), remedy]
        self.finding = Stopped(
            reason=alarm.reason,
            cause=cause.kind,
            text=" ".join(sentences),
            remedy=remedy,
            step=alarm.step,
            optimizer=alarm.name,
            consecutive_skips=alarm.count,
            loss_scale=scale,
            model=None if model is None else model.name,
            gradient=gradient,
            gradient_layer=gradient_layer,
            layer=cause.path,
            layer_class=None if cause.layer is None else type(cause.layer).__name__,
            layer_dtype=cause.dtype,
            largest=cause.largest,
            batch_finite=cause.batch_finite,
            replayed="none" if batch is None or cause.kind in ("batch", "weights", "unknown") else batch.which,
        )
        if self._tell is not None:
            self._tell(self.finding)
        return self.finding

    def _optimizers_of(self, source: Any, model: Any) -> list[Any]:
        if source is None:
            return [] if model is None or model.optimizer is None else [model.optimizer]
        own = [each for each in self._scaling if getattr(each, "scaler", None) is source]
        return own or ([] if isinstance(source, LossScaler) else [source])

    def _model_of(self, optimizers: list[Any]) -> Any:
        """Return the model whose weights these optimizers change; the smallest, if one is within another."""
        models = self.batches.models() or GOVERNOR.models()
        wanted = {id(variable) for each in optimizers for variable in each._trainable_variables}  # noqa: SLF001
        fitting = [
            model for model in models if wanted & {id(variable) for variable in model.trainable_variables}
        ]
        if not fitting and len(models) == 1:
            return models[0]
        return min(fitting, key=lambda model: len(model.trainable_variables), default=None)


def _what_happened(alarm: _Alarm, model: Any, *, ended: bool) -> str:
    of = "" if model is None else f" of the model {model.name!r}"
    begin = f"the training{of} {'ended in vain' if ended else 'was stopped'}:"
    row = f"{alarm.count} in a row" + ("" if alarm.step is None else f" up to step {alarm.step}")
    scale = "" if alarm.scale is None else scale_text(alarm.scale)
    match alarm.reason:
        case "skips":
            last = f"; the last loss scale was {scale}" if scale and alarm.scale != 1 else ""
            return f"{begin} updates were skipped, {row}, because gradients were not finite{last}."
        case "floor":
            return (
                f"{begin} updates were skipped, {row}, because gradients were not finite, and the loss scale is at its "
                f"floor, {scale}: no lower one can help."
            )
        case "loss":
            none_helps = " They are computed before a loss scale multiplies them, so none can help."
            return f"{begin} losses were not finite, {row}.{none_helps if alarm.scale not in (None, 1) else ''}"
        case "weights":
            at = "" if alarm.step is None else f" at step {alarm.step}"
            return f"{begin} its weights are not finite{at}."


def _has_bad_weight(optimizer: Any) -> bool:
    try:
        return first_bad_weight(optimizer._trainable_variables) is not None  # noqa: SLF001 - not public
    except (RuntimeError, ValueError, TypeError):  # on JAX its arrays may have been given away
        return False


def _last_bad_gradient(optimizers: list[Any]) -> str | None:
    for optimizer in optimizers:
        if isinstance(optimizer, LossScaleOptimizer) and optimizer.built:
            try:
                skip = optimizer.read_last_skip()
            except (RuntimeError, ValueError, TypeError):  # on JAX its arrays may have been given away
                continue
            if skip is not None and skip.variable is not None:
                return skip.variable
    return None


def _layer_of(model: Any, variable_path: str) -> str | None:
    for description in describe_layers(model):
        layer: Any = description.layer
        if any(getattr(each, "path", None) == variable_path for each in layer._trainable_variables):  # noqa: SLF001
            return description.path or None
    return None


def _all_finite(variables: Any) -> Any:
    """Return on the device whether variables are finite; it may be False for weights near the end of the range."""
    sums = [keras.ops.sum(keras.ops.cast(variable, "float32")) for variable in variables]
    return keras.ops.all(keras.ops.isfinite(keras.ops.stack(sums))) if sums else None

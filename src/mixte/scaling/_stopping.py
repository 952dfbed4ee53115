"""When a training that skips its updates is beyond what a loss scale can mend. Pure, like the laws."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, final

from mixte._errors import InputError, LossScaleError
from mixte.scaling._bounds import DEFAULT_MIN_SCALE
from mixte.scaling._simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixte.scaling._law import LossScaleLaw

StopReason = Literal["skips", "floor", "loss", "weights"]
"""Why a training is stopped.

- ``"skips"``: as many updates in a row were skipped as are allowed.
- ``"floor"``: the scale is as low as its law takes it, and the updates are still skipped.
- ``"loss"``: the loss itself is not finite, step after step. The scale multiplies it later: none can mend that.
- ``"weights"``: the weights are not finite. Nothing that follows can be.
"""

DEFAULT_STOP_AFTER: Final = 50
"""Skipped updates in a row, or losses that are not finite, that end a training.

From 2**15 a law that halves reaches 2**-14 with 29 skips, so that a scale that finds its place never takes as many.
"""

PATIENCE: Final = 10
"""Skips in a row before a scale at its floor, or a loss that is not finite, ends a training.

A few bad batches in a row are no reason. From 2**16, where torch and flax start, to a floor of 1 it takes 17 skips,
so this patience delays the stop only for a law that starts less than 2**9 above its floor.
"""

_LONGEST_DESCENT: Final = 1000


class TrainingStoppedError(LossScaleError):
    """A training was stopped because its numbers were not finite, and would not become so by going on.

    Its message is one paragraph: what happened, at which step, what was found, and what to do.

    Attributes:
        finding: The same as data: a ``mixte.records.Stopped``.
    """

    def __init__(self, message: str, finding: object = None) -> None:
        super().__init__(message)
        self.finding = finding


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class StopRule:
    """How long a training may go on without making progress.

    Attributes:
        after: Skipped updates in a row, or steps in a row whose loss is not finite. 0 for no limit: nothing is
            stopped then, whatever happens.

    Raises:
        InputError: On construction, if it is negative or no whole number.
    """

    after: int = DEFAULT_STOP_AFTER

    def __post_init__(self) -> None:
        if not isinstance(self.after, int) or isinstance(self.after, bool) or self.after < 0:  # pyright: ignore[reportUnnecessaryIsInstance] - input
            raise InputError(
                f"the number of skipped steps to stop after is {self.after!r}. Give a whole number: "
                f"{DEFAULT_STOP_AFTER} by default, 0 to stop never."
            )

    @property
    def stops(self) -> bool:
        """Whether anything is ever stopped."""
        return self.after > 0

    @property
    def patience(self) -> int:
        """Skips in a row before what is known to be beyond mending ends the training."""
        return min(self.after, PATIENCE)


@final
@dataclass(frozen=True, slots=True)
class Descent:
    """What a law makes of steps that are all bad.

    Attributes:
        floor: The scale at which it arrives. None if it does not lower the scale: there is no floor to arrive at.
        steps: How many bad steps in a row it takes from the start until no lower scale is worth trying: to the
            floor, or to ``DEFAULT_MIN_SCALE``, if the floor is lower.
    """

    floor: float | None
    steps: int


@lru_cache(maxsize=64)
def descent(law: LossScaleLaw) -> Descent:
    """Return where, and how fast, bad steps take a law from its start.

    Found by letting it take them, so that it holds for any law.

    Example:
        >>> descent(DynamicScale(2.0**16, min_scale=1.0))
        Descent(floor=1.0, steps=16)
        >>> descent(FixedScale(128.0))
        Descent(floor=None, steps=0)
    """
    trace = simulate(law, [True] * _LONGEST_DESCENT)
    scales = [*trace.scales.tolist(), float(trace.final_scale)]
    floor = min(scales)
    if floor == scales[0]:
        return Descent(None, 0)
    worth_trying = max(floor, DEFAULT_MIN_SCALE)
    return Descent(floor, next(step for step, scale in enumerate(scales) if scale <= worth_trying))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """The skipped updates since the last that was applied.

    Attributes:
        skips: How many they are.
        loss_skips: How many of them, up to the last one, were skipped for a loss that was not finite.
        applied: Updates applied so far. None if that is not known.
    """

    skips: int = 0
    loss_skips: int = 0
    applied: int | None = 0


def lengthened(streak: Streak, before: Mapping[str, int], after: Mapping[str, int]) -> Streak:
    """Return the streak after one or more further steps.

    Args:
        streak: The streak so far.
        before: The counters when it was that; see ``initial_counters``.
        after: The counters now. If several steps lie between, and not all had the same fate, the order of those
            is not known; ``loss_skips`` is then counted anew.
    """
    steps = after["steps"] - before["steps"]
    lost = after["skipped_loss"] - before["skipped_loss"]
    carried = streak.loss_skips if after["consecutive_skipped"] > steps else 0
    return Streak(
        skips=after["consecutive_skipped"],
        loss_skips=min(carried + lost, after["consecutive_skipped"]) if lost == steps else 0,
        applied=after["applied"],
    )


def skipped_once_more(streak: Streak, *, skipped: bool) -> Streak:
    """Return the streak after a step of which nothing is known but whether its update was skipped."""
    if not skipped:
        return Streak(applied=None)
    return Streak(skips=streak.skips + 1, applied=streak.applied)


def judge(streak: Streak, rule: StopRule, law: Descent, *, scale: float) -> StopReason | None:
    """Tell whether a training is to be stopped, and why.

    Before the first applied update, while a law looks for a scale that fits, only the law's own end counts: each
    of these skips is normal as long as the next one is tried at a lower scale.

    Args:
        streak: The skipped updates up to now.
        rule: How many of them are allowed.
        law: What the law makes of bad steps.
        scale: The scale of the last of them.

    Example:
        >>> law = descent(DynamicScale(2.0**16, min_scale=1.0))
        >>> judge(Streak(skips=16), StopRule(), law, scale=2.0)
        >>> judge(Streak(skips=17), StopRule(), law, scale=1.0)
        'floor'
    """
    if not rule.stops or not streak.skips:
        return None
    if streak.loss_skips >= rule.patience:
        return "loss"
    if law.floor is not None and scale <= law.floor and streak.skips >= rule.patience:
        return "floor"
    calibrating = law.steps if streak.applied == 0 else 0
    return "skips" if streak.skips >= rule.after + calibrating else None

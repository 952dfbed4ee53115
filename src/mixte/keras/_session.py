"""Set up a run under ``mixte run``: what is done to Keras the moment that the script has imported it."""

from __future__ import annotations

import functools
import sys
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mixte._errors import MixteWarning
from mixte.keras._capture import Capture, NoCapture
from mixte.keras._environment import versions
from mixte.keras._framework import BACKEND, dtype_policy_module, keras, rng_module
from mixte.keras._governor import GOVERNOR, Regime
from mixte.keras._guard import Guard
from mixte.keras._guarding import install_guarding
from mixte.keras._hooks import install
from mixte.keras._recorder import Recorder
from mixte.keras._recording import install_recording
from mixte.records import PROFILE_DIRECTORY
from mixte.scaling import StopRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.keras._emulation import Emulation
    from mixte.policy import Policy
    from mixte.records import RecordWriter, StepRange
    from mixte.scaling import LossScaleLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the command line asks of a run.

    Attributes:
        policy: The policy, or None to leave every precision to the script.
        law: The loss-scaling law, or None for the policy's, or the default.
        seed: The seed that everything was seeded with, or None.
        emulation: Whose arithmetic the models are to have; None for the machine's own.
        profile: The steps to profile; None for none.
        stop_rule: How long a training may go on whose updates are skipped.
    """

    policy: Policy | None
    law: LossScaleLaw | None
    seed: int | None
    emulation: Emulation | None = None
    profile: StepRange | None = None
    stop_rule: StopRule = field(default_factory=StopRule)


def begin(settings: Settings, writer: RecordWriter, *, started_s: float) -> Recorder:
    """Put the policy in force for the rest of the process, and record every training in it.

    Args:
        settings: What the command line asks for.
        writer: The record, started.
        started_s: When the run started, by ``time.perf_counter``.
    """
    capture = NoCapture()
    if settings.profile is not None:
        capture = Capture(settings.profile, writer.directory / PROFILE_DIRECTORY)
    guard = Guard(settings.stop_rule, lambda finding: writer.update(stopped=finding))
    recorder = Recorder(writer, started_s=started_s, capture=capture, guard=guard)
    install()
    install_recording(recorder)
    install_guarding(guard)
    GOVERNOR.enter(
        Regime(policy=settings.policy, law=settings.law, observer=recorder, emulation=settings.emulation)
    )
    writer.update(backend=BACKEND, versions=versions())
    if settings.seed is not None:
        _keep_seed(settings.seed)
    if settings.policy is not None:
        _impose_policy(settings.policy)
    return recorder


def _keep_seed(seed: int) -> None:
    """Keep the seed when the script sets one itself: it was asked for on the command line."""
    original = rng_module.set_random_seed

    @functools.wraps(original)
    def set_random_seed(given: int) -> None:
        if given != seed:
            warnings.warn(
                f"the script sets the seed {given}; the command line's, {seed}, is used instead.",
                category=MixteWarning,
                stacklevel=2,
            )
        original(seed)

    _replace(rng_module, original, set_random_seed)


def _impose_policy(policy: Policy) -> None:
    """Make the policy's default the global one, whatever the script sets.

    Keras keeps its global policy per thread, and forgets it in ``clear_session``: so it is the function that looks
    it up which is replaced.
    """
    default = keras.DTypePolicy(str(policy.default))

    @functools.wraps(dtype_policy_module.dtype_policy)
    def dtype_policy() -> Any:
        return default

    @functools.wraps(dtype_policy_module.set_dtype_policy)
    def set_dtype_policy(policy_: Any) -> None:
        asked = policy_ if isinstance(policy_, str) else getattr(policy_, "name", policy_)
        if asked == default.name:
            return
        warnings.warn(
            f"the script sets the global dtype policy {asked!r}; the command line's policy, {policy.name!r}, is used "
            "instead. Leave --policy out to run the script in its own precision.",
            category=MixteWarning,
            stacklevel=2,
        )

    _replace(dtype_policy_module, dtype_policy_module.dtype_policy, dtype_policy)
    _replace(dtype_policy_module, dtype_policy_module.set_dtype_policy, set_dtype_policy)


def _replace(home: Any, original: Callable[..., Any], substitute: Callable[..., Any]) -> None:
    """Replace a function of Keras where it is defined, and in the modules that offer it to users.

    Those that ``tf.keras`` offers are imported later, and take it from where it is defined.
    """
    offering = [module for name, module in list(sys.modules.items()) if _is_public(name)]
    for module in (home, *offering):
        for name, value in list(vars(module).items()):
            if value is original:
                setattr(module, name, substitute)


def _is_public(module: str) -> bool:
    return module.startswith("keras.") and not module.startswith("keras.src")

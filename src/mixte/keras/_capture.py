"""Profile some steps of a training with the backend's own profiler, into the record of the run.

The profiler is started and stopped between two steps, in the thread that trains, after the device has done what it
was given. Whatever it says is read when the run has ended.
"""

from __future__ import annotations

import shutil
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol, final

from mixte.keras._framework import BACKEND
from mixte.records import CapturedProfile, StepRange

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class BackendProfiler(Protocol):
    """The profiler of a backend."""

    def is_busy(self) -> bool:
        """Tell whether a profiler is running in this process."""
        ...

    def start(self, directory: Path, give_way: Callable[[], None]) -> None:
        """Start.

        Args:
            directory: Where ``stop`` is to write the profile. It does not exist.
            give_way: To be called before the script starts a profiler of its own: there can be only one.
        """
        ...

    def stop(self) -> None:
        """Stop, and write the profile."""
        ...

    def wait(self) -> None:
        """Wait until the devices have done all that they were given."""
        ...

    def mark(self, step: int | None) -> None:
        """Mark in the profile that a step begins, as ``mixte verify --steps`` finds it; None: something else begins."""
        ...


class _State(Enum):
    WAITING = auto()
    RUNNING = auto()
    OVER = auto()


@final
class NoCapture:
    """Profiles nothing."""

    def steps_begin(self, *, first: int, last: int) -> bool:  # noqa: ARG002 - the contract of Capture
        """Go on."""
        return False

    def is_running(self) -> bool:
        """Tell that no profiler runs."""
        return False

    def pause(self) -> None:
        """Go on."""

    def training_broke(self, error: BaseException) -> None:
        """Go on."""

    def close(self) -> None:
        """Go on."""

    def result(self, *, ended: int, finished: bool) -> None:
        """Say that nothing was asked for."""


@final
class Capture:
    """Profiles a window of steps. A failure to profile never reaches the training.

    Args:
        window: The steps to profile.
        directory: Where the profile goes.
        profiler: The backend's profiler; None for that of the backend that Keras runs on.
    """

    def __init__(self, window: StepRange, directory: Path, *, profiler: BackendProfiler | None = None) -> None:
        self._window = window
        self._directory = directory
        self._profiler = profiler
        self._state = _State.WAITING
        self._first: int | None = None  # the first step in the profile
        self._begun = 0  # the last step that was begun, in the profile or before it
        self._problem: str | None = None

    def steps_begin(self, *, first: int, last: int) -> bool:
        """Note steps that begin now, as one, all before them having been started.

        Returns:
            Whether the profiler was started or stopped, which took time that is no step's.
        """
        was = self._state
        if self._state is _State.RUNNING and first >= self._window.end:
            self._stop()
        elif self._state is _State.WAITING and first >= self._window.end:
            self._give_up("none: in a loop of the script's own, the first step is seen only when it ends.")
        elif self._state is _State.WAITING and last >= self._window.first:
            self._start(first)
        if self._state is not _State.OVER:
            self._begun = last
        if self._state is _State.RUNNING:
            self._mark(first)
        return self._state is not was

    def is_running(self) -> bool:
        """Tell whether the present step is profiled."""
        return self._state is _State.RUNNING

    def pause(self) -> None:
        """Note that all steps that were begun have been started, and something else than a step comes now."""
        if self._state is not _State.RUNNING:
            return
        self._wait()
        self._mark(None)
        if self._begun >= self._window.end - 1:
            self._stop()

    def training_broke(self, error: BaseException) -> None:
        """Note an exception that leaves a training. The script may catch it, and train on: that is another training."""
        if self._state is _State.RUNNING:
            self._stop(f"{type(error).__name__} ended the training in step {self._begun}.")

    def close(self) -> None:
        """Stop, if the window lies beyond the end of the run."""
        if self._state is _State.RUNNING:
            self._stop()

    def result(self, *, ended: int, finished: bool) -> CapturedProfile:
        """Say what was captured; a profile without a step is deleted.

        Args:
            ended: The last step that has ended.
            finished: Whether the script came to its end.
        """
        first, end = self._first, min(ended, self._begun) + 1
        if first is not None and not finished:
            end = max(end, first + 1)  # the step that failed
        if first is None or end <= first:
            shutil.rmtree(self._directory, ignore_errors=True)
            problem = self._problem or self._never_came(ended, finished=finished)
            return CapturedProfile(asked=self._window, problem=problem)
        problem = self._problem or self._lacking(first, end, finished=finished)
        return CapturedProfile(asked=self._window, steps=StepRange(first=first, end=end), problem=problem)

    # -----------------------------------------------------------------------------------------------------------

    def _never_came(self, ended: int, *, finished: bool) -> str:
        if not ended:
            why = " Steps that the script compiles itself are not seen one by one." if finished else ""
            return f"none: no step of a training was seen.{why}"
        return f"none: the last step that was seen is {ended}, and the profile was to begin with {self._window.first}."

    def _lacking(self, first: int, end: int, *, finished: bool) -> str | None:
        asked = self._window
        if end < asked.end:
            how = "ended" if finished else "was broken off"
            return f"Not the steps up to {asked.end - 1}: the training {how} after step {end - 1}."
        if first > asked.first:
            return (
                f"Not from step {asked.first} on: in a loop of the script's own, the first step is seen only when it "
                "ends."
            )
        return None

    def _start(self, first: int) -> None:
        try:
            if self._profiler is None:
                self._profiler = backend_profiler()
            if self._profiler.is_busy():
                self._give_up(
                    f"none: at step {first} a profiler of the script's own was running, and there can be only one."
                )
                return
            self._wait()
            self._profiler.start(self._directory, self._give_way)
        except Exception as error:  # noqa: BLE001 - whatever it is, the training goes on
            self._give_up(f"none: the profiler of {BACKEND} does not start: {_one_line(error)}")
            return
        self._state, self._first = _State.RUNNING, first

    def _stop(self, problem: str | None = None) -> None:
        self._state = _State.OVER  # first: stopping may come here again
        self._problem = problem
        try:
            if self._profiler is not None:
                self._wait()
                self._profiler.mark(None)
                self._profiler.stop()
        except Exception as error:  # noqa: BLE001 - as above
            self._give_up(f"none: the profiler of {BACKEND} failed: {_one_line(error)}")

    def _give_way(self) -> None:
        if self._state is _State.RUNNING:
            self._stop(
                f"The script started a profiler of its own in step {self._begun}, and there can be only one."
            )

    def _give_up(self, problem: str) -> None:
        self._state, self._first, self._problem = _State.OVER, None, problem

    def _wait(self) -> None:
        try:
            if self._profiler is not None:
                self._profiler.wait()
        except Exception:  # noqa: BLE001 - an error on the device belongs to the training, which will meet it
            return

    def _mark(self, step: int | None) -> None:
        if self._profiler is not None:
            self._profiler.mark(step)


def backend_profiler() -> BackendProfiler:
    """Return the profiler of the backend that Keras runs on."""
    if BACKEND == "tensorflow":
        from mixte.keras._capture_tensorflow import TensorFlowProfiler

        return TensorFlowProfiler()
    if BACKEND == "jax":
        from mixte.keras._capture_jax import JaxProfiler

        return JaxProfiler()
    from mixte.keras._capture_torch import TorchProfiler

    return TorchProfiler()


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:197]}..."

"""JAX's profiler, as ``mixte run --profile`` drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import jax
from jax._src import profiler as profiler_module  # where jax.profiler.trace looks start_trace up

from mixte.keras._capture_replaced import Interception

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@final
class JaxProfiler:
    """Writes an XPlane file, in the directories that TensorBoard looks for."""

    def __init__(self) -> None:
        self._interception: Interception | None = None
        self._mark: Any = None

    def is_busy(self) -> bool:
        """See ``BackendProfiler``."""
        state = getattr(profiler_module, "_profile_state", None)
        return getattr(state, "profile_session", None) is not None

    def start(self, directory: Path, give_way: Callable[[], None]) -> None:
        """See ``BackendProfiler``."""
        jax.profiler.start_trace(str(directory), **_without_python())
        self._interception = Interception([jax.profiler, profiler_module], "start_trace", give_way)

    def stop(self) -> None:
        """See ``BackendProfiler``."""
        if self._interception is not None:
            self._interception.undo()
        jax.profiler.stop_trace()

    def wait(self) -> None:
        """See ``BackendProfiler``."""
        # JAX runs ahead of its devices, the CPU too: without this, steps begun before would be in the profile, and
        # those begun last would be missing.
        jax.block_until_ready(jax.live_arrays())

    def mark(self, step: int | None) -> None:
        """See ``BackendProfiler``."""
        before, self._mark = self._mark, None
        if step is not None:
            self._mark = jax.profiler.StepTraceAnnotation("train", step_num=step)
            self._mark.__enter__()
        if (
            before is not None
        ):  # only now: what starts between two marks, on a thread or a device, would be in no step
            before.__exit__(None, None, None)


def _without_python() -> dict[str, Any]:
    """Leave every call of a Python function out: nobody asks for it, and it slows the host down several times."""
    if not hasattr(jax.profiler, "ProfileOptions"):  # before JAX 0.7
        return {}
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return {"profiler_options": options}

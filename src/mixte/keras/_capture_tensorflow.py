"""TensorFlow's profiler, as ``mixte run --profile`` drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import tensorflow as tf
from tensorflow.python.profiler import profiler_v2  # what `tf.profiler.experimental` offers

from mixte.keras._capture_replaced import Interception

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@final
class TensorFlowProfiler:
    """Writes an XPlane file, in the directories that TensorBoard looks for."""

    def __init__(self) -> None:
        self._interception: Interception | None = None
        self._mark: Any = None

    def is_busy(self) -> bool:
        """See ``BackendProfiler``."""
        return getattr(profiler_v2, "_profiler", None) is not None

    def start(self, directory: Path, give_way: Callable[[], None]) -> None:
        """See ``BackendProfiler``."""
        tf.profiler.experimental.start(str(directory))
        self._interception = Interception([tf.profiler.experimental, profiler_v2], "start", give_way)

    def stop(self) -> None:
        """See ``BackendProfiler``."""
        if self._interception is not None:
            self._interception.undo()
        tf.profiler.experimental.stop()

    def wait(self) -> None:
        """See ``BackendProfiler``."""
        tf.test.experimental.sync_devices()

    def mark(self, step: int | None) -> None:
        """See ``BackendProfiler``."""
        before, self._mark = self._mark, None
        if step is not None:
            self._mark = tf.profiler.experimental.Trace("train", step_num=step, _r=1)
            self._mark.__enter__()
        if (
            before is not None
        ):  # only now: what starts between two marks, on a thread or a device, would be in no step
            before.__exit__(None, None, None)

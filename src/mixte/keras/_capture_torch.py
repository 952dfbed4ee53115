"""PyTorch's profiler, as ``mixte run --profile`` drives it."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any, final

import torch

from mixte.keras._capture_replaced import Interception
from mixte.keras._framework import keras

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LAYER_PREFIX = "keras.Layer: "
"""What marks the call of a layer; ``mixte.profiles`` knows it."""

_FILE = "trace.pt.trace.json.gz"  # the names that TensorBoard looks for end so


@final
class TorchProfiler:
    """Writes a Kineto trace, with the shapes of operands and the layers of Keras."""

    def __init__(self) -> None:
        self._profile: Any = None
        self._mark: Any = None
        self._file: Path | None = None
        self._undo: list[Callable[[], None]] = []

    def is_busy(self) -> bool:
        """See ``BackendProfiler``."""
        return bool(torch._C._autograd._profiler_enabled())  # noqa: SLF001 - the public ways do not see all of them

    def start(self, directory: Path, give_way: Callable[[], None]) -> None:
        """See ``BackendProfiler``."""
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it writes to the script's standard error
        self._file = directory / _FILE
        directory.mkdir(parents=True, exist_ok=True)
        self._profile = torch.profiler.profile(record_shapes=True)
        self._profile.start()
        base = torch.autograd.profiler.profile  # every profiler of PyTorch ends up there
        self._undo = [Interception([base], "_prepare_trace", give_way).undo]
        if not _has_compiled():  # else it would compile everything anew, now and at the end
            self._undo.append(_mark_layers())

    def stop(self) -> None:
        """See ``BackendProfiler``."""
        for undo in self._undo:
            undo()
        self._profile.stop()
        self._profile.export_chrome_trace(str(self._file))
        self._profile = None  # hundreds of thousands of events

    def wait(self) -> None:
        """See ``BackendProfiler``."""
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()

    def mark(self, step: int | None) -> None:
        """See ``BackendProfiler``."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None
        if step is not None:
            self._mark = torch.profiler.record_function(f"ProfilerStep#{step}")
            self._mark.__enter__()


def _has_compiled() -> bool:
    """Tell whether ``torch.compile`` has compiled something in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters["frames"].get("total"))


def _mark_layers() -> Callable[[], None]:
    """Mark every call of a layer in the profile: PyTorch knows nothing of Keras's layers. Return how to undo it.

    The mark is there only while the profiler runs, so that it costs nothing before and after.
    """
    # Model may have a call of its own, made from Layer's before it was marked: see _guarding.
    homes = [kind for kind in (keras.Layer, keras.Model) if "__call__" in vars(kind)]
    undoings = [_mark_calls_of(home) for home in homes]

    def undo() -> None:
        for undo_one in undoings:
            undo_one()

    return undo


def _mark_calls_of(home: Any) -> Callable[[], None]:
    original = home.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return original(self, *args, **kwargs)
        with torch.profiler.record_function(f"{LAYER_PREFIX}{self.name}"):
            return original(self, *args, **kwargs)

    def undo() -> None:
        if home.__call__ is call:
            home.__call__ = original

    home.__call__ = call
    return undo

"""Every optimizer of a run under a name of its own, with the last known state of its loss scale."""

from __future__ import annotations

from itertools import chain, count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from mixte.keras._framework import keras, to_host
from mixte.keras._sampling import Reading, Sample, decode, law_text, sample, scaler_of, totals, what_happened
from mixte.keras._scaler import LossScaler
from mixte.records import Optimizer, OptimizerState, OptimizerStep

if TYPE_CHECKING:
    from collections.abc import Callable


class OptimizerBook:
    """Keeps the optimizers of a run apart, though Keras gives all wrappers one name.

    Its entries are *sources*: what scales a loss (see ``_sampling``), or an optimizer whose loss is not scaled.

    Args:
        changed: Called with all entries when one has come.
    """

    def __init__(self, changed: Callable[[tuple[Optimizer, ...]], None]) -> None:
        self._changed = changed
        self._entries: list[Optimizer] = []
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._inner: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
        self._readings: WeakKeyDictionary[Any, Reading] = WeakKeyDictionary()

    def made(self, optimizer: Any) -> None:
        """Remember for whom a scaler scales; it is no entry before it is used."""
        self._inner.setdefault(scaler_of(optimizer), []).append(optimizer.inner_optimizer)

    def source_of(self, optimizer: Any) -> Any:
        """Return the source for an optimizer, and enter it."""
        source = scaler_of(optimizer) or optimizer
        self.name_of(source)
        return source

    def name_of(self, source: Any) -> str:
        """Return the name of a source; enters it."""
        known = self._names.get(source)
        if known is not None:
            return known
        optimizers = self._optimizers_of(source)
        wanted = optimizers[0].name if optimizers else source.name
        taken = {entry.name for entry in self._entries}
        numbered = (f"{wanted}_{number}" for number in count(2))
        name = next(name for name in chain((wanted,), numbered) if name not in taken)
        self._names[source] = name
        self._entries.append(
            Optimizer(
                name=name,
                optimizer_class=", ".join(type(optimizer).__name__ for optimizer in optimizers) or None,
                loss_scale=law_text(source) if scales(source) else "none",
            )
        )
        self._changed(tuple(self._entries))
        return name

    def step(self, source: Any, copies: Sample, *, steps: int) -> OptimizerStep:
        """Tell what a step did, from the copies made after it. Waits for it."""
        before, after = self._readings.get(source), decode(source, copies)
        if after is None:
            return OptimizerStep()
        self._readings[source] = after
        return what_happened(source, before, after, steps=steps)

    def last_reading(self, source: Any) -> Reading | None:
        """Return a scaler's state as last read; None before that."""
        return self._readings.get(source)

    def read(self, source: Any, model: Any = None) -> Reading | None:
        """Read a scaler now. Waits for the device. None if its state is not at hand."""
        try:
            reading = decode(source, sample(source, model))
        except (RuntimeError, ValueError, TypeError):  # on JAX its arrays may have been given away
            return None
        if reading is None:
            return None
        known = self._readings.get(source)
        if known is not None and _steps(known) > _steps(reading):
            return known  # stateless code holds the state itself: what the variables show is older
        self._readings[source] = reading
        return reading

    def scalers(self) -> list[Any]:
        """Return all that scale a loss and are still there, used or not."""
        return [source for source in {**self._inner, **self._names} if scales(source)]

    def last_totals(self) -> dict[str, OptimizerState]:
        """Return the counters as last read, by name; of what has counted nothing, nothing is known."""
        return {
            self._names[source]: totals(reading)
            for source, reading in list(self._readings.items())
            if source in self._names and (reading.counters is None or reading.counters["steps"])
        }

    def steps_counted(self, source: Any) -> int:
        """Return how many steps a source has counted itself, as far as it can be read. Waits for the device."""
        if isinstance(source, LossScaler):
            reading = self.read(source)
            return 0 if reading is None else _steps(reading)
        optimizer = source.inner_optimizer if scales(source) else source
        try:
            return int(to_host(optimizer.iterations))
        except (RuntimeError, ValueError, TypeError):
            return 0

    def _optimizers_of(self, source: Any) -> list[Any]:
        if isinstance(source, LossScaler):
            return self._inner.get(source, [])
        return [source.inner_optimizer if scales(source) else source]


def scales(source: Any) -> bool:
    """Tell whether a source scales a loss, and is no bare optimizer."""
    return isinstance(source, (LossScaler, keras.optimizers.LossScaleOptimizer))


def _steps(reading: Reading) -> int:
    return 0 if reading.counters is None else reading.counters["steps"]

"""The operators that ran on the CPU, from a Kineto trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.profiles._cpu_work import CpuOperation, Executions, torch_work
from mixte.profiles.readers._kineto_events import Collection, Event
from mixte.profiles.readers._kineto_links import indices_by_thread, layers_of_operators
from mixte.profiles.readers._nesting import own_durations
from mixte.profiles.readers._steps import Steps
from mixte.profiles.readers._trace_events import open_events

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source

_NS_PER_US = 1000


def read_cpu(source: Source) -> tuple[CpuOperation, ...]:
    """Read the operators; see ``mixte.profiles._cpu_work``."""
    collection = Collection()
    for batch in open_events(source, Event).batches():
        collection.take(batch)
    ranges = collection.operators.ranges
    steps = Steps.of(collection.steps)
    layers = layers_of_operators(collection)
    executions = Executions()
    for indices in indices_by_thread(collection, ranges).values():
        starts = [ranges.start_us[index] for index in indices]
        ends = [ranges.end_us[index] for index in indices]
        for index, own_us in zip(indices, own_durations(starts, ends), strict=True):
            if steps.extents and steps.at(ranges.start_us[index]) is None:
                continue
            name = ranges.names[index]
            executions.add(name, layers.get(index), torch_work(name), own_us * _NS_PER_US)
    return executions.operations()

"""Sorts the events of a Kineto trace into kernels, launches, operators, modules and steps.

Categories and argument names by PyTorch release: pytorch/kineto libkineto/src/output_json.cpp. Until 2021 the
categories were capitalised (``Kernel``, ``Operator``, ``Runtime``), ``external id`` was in lower case and a thread
could be the text ``stream 7``.

A trace holds hundreds of thousands of events, so they are kept as columns, filled a batch at a time.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from itertools import islice
from operator import add
from typing import TYPE_CHECKING, final

import msgspec

from mixte._errors import ProfileError
from mixte.profiles import _limits
from mixte.profiles.readers._kineto_columns import NO_IDENTIFIER, Kernels, Labels, Launches, Operators, Ranges
from mixte.profiles.readers._trace_events import Identifier, Number, microseconds, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MODULE_PREFIX = "nn.Module: "
# `mixte run --profile` marks the calls of Keras's layers so: PyTorch knows nothing of them.
_LAYER_PREFIX = "keras.Layer: "
_STEP = re.compile(r"ProfilerStep\s?#(\d{1,18})")


_NOT_RECORDED = msgspec.Raw(b"")


class Arguments(msgspec.Struct, gc=False):
    """What is wanted of an event's ``args``; every category has its own few."""

    correlation: Identifier = NO_IDENTIFIER
    external: Identifier = msgspec.field(name="External id", default=NO_IDENTIFIER)
    external_2021: Identifier = msgspec.field(name="external id", default=NO_IDENTIFIER)
    device: Identifier = None
    stream: Identifier = None
    sequence: Identifier = msgspec.field(name="Sequence number", default=NO_IDENTIFIER)
    forward_thread: Identifier = msgspec.field(name="Fwd thread id", default=NO_IDENTIFIER)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=_NOT_RECORDED)
    dtypes: msgspec.Raw = msgspec.field(name="Input type", default=_NOT_RECORDED)


class Event(msgspec.Struct, gc=False):
    """One event of the trace."""

    cat: str | None = None
    name: str = ""
    ts: Number = None
    dur: Number = None
    pid: Identifier = None
    tid: Identifier = None
    args: Arguments | None = None


Pair = tuple[Identifier, Identifier]
Extent = tuple[float, float, int]


@final
class Collection:
    """All that a Kineto trace says about its kernels.

    Attributes:
        modules: Extents of ``nn.Module`` calls.
        annotations: Ranges that the user marked.
        steps: ``ProfilerStep#N`` on the CPU: beginning, end and number; `gpu_steps` its copy on the GPU's track.
        threads: Numbers (process, thread) pairs as written.
        places: Numbers (device, stream) pairs as written.
        inputs: Numbers (``Input Dims``, ``Input type``) pairs, undecoded.
        categories: How many events of each category there are.
        unlinked: Count and microseconds of the kernels beyond `_limits.MAX_LINKED_RANGES`, by name and place.
        dropped_ranges: Operators beyond that number.
        dropped_kernels: Kernels of further names than `_limits.MAX_ROWS`.
    """

    def __init__(self) -> None:
        self.kernels = Kernels()
        self.launches = Launches()
        self.operators = Operators()
        self.modules = Ranges()
        self.annotations = Ranges()
        self.steps: list[Extent] = []
        self.gpu_steps: list[Extent] = []
        self.threads: Labels[Pair] = Labels()
        self.places: Labels[Pair] = Labels()
        self.inputs = Labels[tuple[bytes, bytes]]((b"", b""))
        self.categories: Counter[str] = Counter()
        self.unlinked: dict[tuple[str, int], tuple[int, float]] = {}
        self.dropped_ranges = 0
        self.dropped_kernels = 0
        self._texts: dict[str, str] = {}
        self._room_bytes = _limits.MAX_NAME_BYTES
        self._takers: dict[str, Callable[[list[Event]], None]] = {
            "kernel": self._take_kernels,
            "cuda_runtime": self._take_launches,
            "cuda_driver": self._take_launches,
            "runtime": self._take_launches,
            "cpu_op": self._take_operators,
            "operator": self._take_operators_of_2021,
            "user_annotation": self._take_annotations,
            "gpu_user_annotation": self._take_gpu_annotations,
            "python_function": self._take_python_functions,
        }

    def take(self, batch: list[Event]) -> None:
        """Sort a batch of events in."""
        by_category: defaultdict[str | None, list[Event]] = defaultdict(list)
        for event in batch:
            by_category[event.cat].append(event)
        for category, events in by_category.items():
            if category is None:
                continue
            self.categories[category] += len(events)
            taker = self._takers.get(category.lower())
            if taker is not None:
                taker(events)

    def _take_kernels(self, events: list[Event]) -> None:
        room = max(0, _limits.MAX_LINKED_RANGES - len(self.kernels))
        self._take_unlinked(events[room:])
        events, starts, durations = _extents(events[:room])
        kernels = self.kernels
        arguments = [event.args or _NO_ARGUMENTS for event in events]
        places = [
            (
                event.pid if args.device is None else args.device,
                event.tid if args.stream is None else args.stream,
            )
            for event, args in zip(events, arguments, strict=True)
        ]
        kernels.names += self._interned(events)
        kernels.places.extend(self.places.of(places))
        kernels.start_us.extend(starts)
        kernels.duration_us.extend(durations)
        kernels.correlation.extend(identifiers([args.correlation for args in arguments]))
        kernels.external.extend(_external(arguments))

    def _take_unlinked(self, events: list[Event]) -> None:
        """Sum kernels up at once, beyond the number up to which their operators are looked for."""
        events, _, durations = _extents(events)
        places = self.places.of(_places(events))
        for event, place, duration_us in zip(events, places, durations, strict=True):
            key = (event.name, place)
            if key in self.unlinked or len(self.unlinked) < _limits.MAX_ROWS:
                count, total_us = self.unlinked.get(key, (0, 0.0))
                self.unlinked[key] = (count + 1, total_us + duration_us)
            else:
                self.dropped_kernels += 1

    def _take_launches(self, events: list[Event]) -> None:
        launches = self.launches
        events, starts, _ = _extents(events[: max(0, _limits.MAX_LINKED_RANGES - len(launches))])
        arguments = [event.args or _NO_ARGUMENTS for event in events]
        rows = range(len(launches), len(launches) + len(events))
        correlations = identifiers([args.correlation for args in arguments])
        launches.of_correlation.update(zip(correlations, rows, strict=True))
        launches.of_correlation.pop(NO_IDENTIFIER, None)
        launches.names += self._interned(events)
        launches.start_us.extend(starts)
        launches.external.extend(_external(arguments))
        launches.threads.extend(self._thread_numbers(events))

    def _take_operators_of_2021(self, events: list[Event]) -> None:
        steps, operators = _split_steps(events)  # steps have a category of their own only since 2022
        self.steps += steps
        self._take_operators(operators)

    def _take_operators(self, events: list[Event]) -> None:
        operators = self.operators
        kept = self._take_ranges(operators.ranges, events)
        self.dropped_ranges += len(events) - len(kept)
        arguments = [event.args or _NO_ARGUMENTS for event in kept]
        operators.arguments += arguments
        if all(args.shapes is _NOT_RECORDED for args in arguments):
            operators.inputs.extend([0] * len(arguments))
        else:
            inputs = [(bytes(args.shapes), bytes(args.dtypes)) for args in arguments]
            known = len(self.inputs)
            operators.inputs.extend(self.inputs.of(inputs))
            self._take_room(
                len(shapes) + len(dtypes) for shapes, dtypes in self.inputs.last(len(self.inputs) - known)
            )
            for args in arguments:  # undecoded JSON keeps the whole window in memory that it was found in
                args.shapes = args.dtypes = _NOT_RECORDED

    def _take_annotations(self, events: list[Event]) -> None:
        steps, others = _split_steps(events)
        self.steps += steps
        layers = [event for event in others if event.name.startswith(_LAYER_PREFIX)]
        if layers:
            others = [event for event in others if not event.name.startswith(_LAYER_PREFIX)]
        for event in layers:
            event.name = event.name.removeprefix(_LAYER_PREFIX)
        self._take_ranges(self.modules, layers)
        self._take_ranges(self.annotations, others)

    def _take_gpu_annotations(self, events: list[Event]) -> None:
        self.gpu_steps += _split_steps(events)[0]

    def _take_python_functions(self, events: list[Event]) -> None:
        modules = [event for event in events if event.name.startswith(_MODULE_PREFIX)]
        for event in modules:
            event.name = event.name.removeprefix(_MODULE_PREFIX)
        self._take_ranges(self.modules, modules)

    def _take_ranges(self, ranges: Ranges, events: list[Event]) -> list[Event]:
        """Append ranges, as many as the limit leaves room for, and give those."""
        kept, starts, durations = _extents(events[: max(0, _limits.MAX_LINKED_RANGES - len(ranges))])
        ranges.names += self._interned(kept)
        ranges.start_us.extend(starts)
        ranges.end_us.extend(map(add, starts, durations))
        ranges.threads.extend(self._thread_numbers(kept))
        return kept

    def _thread_numbers(self, events: list[Event]) -> list[int]:
        processes = {event.pid for event in events}
        if len(processes) != 1:  # a merged trace
            return self.threads.of([(event.pid, event.tid) for event in events])
        process = processes.pop()
        threads = {event.tid for event in events}
        numbers = dict(zip(threads, self.threads.of([(process, thread) for thread in threads]), strict=True))
        return [numbers[event.tid] for event in events]

    def _interned(self, events: list[Event]) -> list[str]:
        known, intern = len(self._texts), self._texts.setdefault
        interned = [intern(event.name, event.name) for event in events]
        self._take_room(len(name) for name in islice(reversed(self._texts), len(self._texts) - known))
        return interned

    def _take_room(self, sizes: Iterable[int]) -> None:
        """Count what is kept of a file in full; the columns are small beside it.

        Raises:
            ProfileError: The names and shapes of the trace are all different: nobody wrote such a trace.
        """
        self._room_bytes -= sum(sizes)
        if self._room_bytes < 0:
            raise ProfileError(
                f"the trace has more than {_limits.MAX_NAME_BYTES // _limits.MIB} MiB of different names and shapes: "
                "it is damaged, or no trace of a program."
            )


_NO_ARGUMENTS = Arguments()


def _extents(events: list[Event]) -> tuple[list[Event], array[float], array[float]]:
    """Keep the events that have a beginning and a duration; give these as columns, in microseconds."""
    try:
        return events, array("d", [event.ts for event in events]), array("d", [event.dur for event in events])  # type: ignore[list-item]
    except TypeError:  # a time is text, or absent: seen in traces that other programs have rewritten
        times = [(microseconds(event.ts), microseconds(event.dur)) for event in events]
    starts, durations, kept = array("d"), array("d"), list[Event]()
    for event, (start, duration) in zip(events, times, strict=True):
        if start is not None and duration is not None:
            starts.append(start)
            durations.append(duration)
            kept.append(event)
    return kept, starts, durations


def _places(events: list[Event]) -> list[Pair]:
    """Give device and stream of each kernel: arguments, or else process and thread of the track it is on."""
    return [
        (
            event.pid if event.args is None or event.args.device is None else event.args.device,
            event.tid if event.args is None or event.args.stream is None else event.args.stream,
        )
        for event in events
    ]


def _split_steps(events: list[Event]) -> tuple[list[Extent], list[Event]]:
    marked = [event for event in events if event.name.startswith("ProfilerStep")]
    if not marked:
        return [], events
    steps: list[Extent] = []
    for event in marked:
        found = _STEP.fullmatch(event.name)
        start, duration = microseconds(event.ts), microseconds(event.dur)
        if found and start is not None and duration is not None:
            steps.append((start, start + duration, int(found[1])))
    return steps, [event for event in events if not event.name.startswith("ProfilerStep")]


def _external(arguments: list[Arguments]) -> array[int] | list[int]:
    return identifiers(
        [args.external_2021 if args.external == NO_IDENTIFIER else args.external for args in arguments]
    )


def identifiers(values: list[Identifier]) -> array[int] | list[int]:
    """Give identifiers as numbers, `NO_IDENTIFIER` for what is none."""
    try:
        return array("q", values)  # type: ignore[arg-type]
    except (TypeError, OverflowError):  # one is text, absent, or no identifier at all
        return [_identifier(value) for value in values]


def _identifier(value: Identifier) -> int:
    number = whole_number(value)
    return number if number is not None and 0 <= number < 2**63 else NO_IDENTIFIER

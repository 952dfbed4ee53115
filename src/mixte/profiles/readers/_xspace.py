"""The messages of an ``.xplane.pb`` file, found in place.

Schema: openxla/xla, third_party/tsl/tsl/profiler/protobuf/xplane.proto. Field numbers:
XSpace 1 planes, 2 errors, 3 warnings; XPlane 2 name, 3 lines, 4 event_metadata, 5 stat_metadata, 6 stats;
XLine 2 name, 3 timestamp_ns, 4 events, 11 display_name; XEvent 1 metadata_id, 2 offset_ps, 3 duration_ps, 4 stats,
5 num_occurrences; XStat 1 metadata_id, then one of 2 double, 3 uint64, 4 int64, 5 string, 6 bytes, 7 reference to
the name of a stat_metadata; XEventMetadata 2 name, 4 display_name, 5 stats; XStatMetadata 2 name.
Values of 0 are not stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, final

from mixte.profiles import _limits
from mixte.profiles.readers._wire import (
    BYTES,
    VARINT,
    Field,
    WireError,
    double,
    encoded_varint,
    fields,
    signed,
    text,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Value = str | int | float

# Statistics that differ from event to event are not worth keeping.
_MAX_KNOWN = 100_000
_PLANE_KINDS = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: BYTES, 6: BYTES}


def looks_like_xspace(head: bytes) -> bool:
    """Tell from the first bytes of a file whether it is an XSpace: a plane with a readable name comes first."""
    if head[:1] != b"\x0a":
        return False
    named = False
    try:
        size, begin = varint(head, 1, len(head))
        for field in fields(head, begin, min(begin + size, len(head))):
            if _PLANE_KINDS.get(field.number) != field.kind:
                return False
            if field.number == 2:
                named = 0 < field.end - field.begin < 256 and text(head, field).isprintable()
            elif field.number > 2 and not named:
                return False
    except WireError:
        pass  # the head ends inside the plane
    return named


class Event(NamedTuple):
    """One event of a line.

    Attributes:
        metadata: Id of its metadata.
        offset_ps: Beginning, from the line's.
        duration_ps: Duration.
        rest: Its statistics and what follows them, undecoded: see `Plane.rest_of`.
    """

    metadata: int
    offset_ps: int
    duration_ps: int
    rest: bytes


class Line(NamedTuple):
    """A line of a plane: its name, when it begins, and where it is stored with its events."""

    name: str
    timestamp_ns: int
    place: Field


@final
class Plane:
    """A plane, with what its names refer to.

    Attributes:
        name: ``/device:GPU:0``, ``/host:CPU`` and so on.
        lines: Where its lines are stored.
    """

    def __init__(self, data: bytes, place: Field) -> None:
        """Look through the plane.

        Raises:
            WireError: It is damaged.
        """
        self.name = ""
        self.lines: list[Field] = []
        self._data = data
        self._stats: list[Field] = []
        self._event_metadata: dict[int, Field] = {}
        self._stat_names: dict[int, str] = {}
        self._known: dict[bytes, tuple[str, Value | None]] = {}
        for entries, field in enumerate(fields(data, place.begin, place.end)):
            if entries > _limits.MAX_ENTRIES:
                raise WireError(
                    f"the plane describes more than {_limits.MAX_ENTRIES} lines and kinds of events"
                )
            if field.number == 2 and field.kind == BYTES:
                self.name = text(data, field)
            elif field.number == 3 and field.kind == BYTES:
                self.lines.append(field)
            elif field.number == 4 and field.kind == BYTES:
                key, value = _map_entry(data, field)
                if value is not None:
                    self._event_metadata[key] = value
            elif field.number == 5 and field.kind == BYTES:
                key, value = _map_entry(data, field)
                if value is not None:
                    self._stat_names[key] = _name(data, value)
            elif field.number == 6 and field.kind == BYTES:
                self._stats.append(field)

    @property
    def stat_names(self) -> frozenset[str]:
        """The names of all statistics that the plane, its events or their metadata may have."""
        return frozenset(self._stat_names.values())

    def prefix_of(self, stat: str) -> bytes | None:
        """Give the bytes with which every statistic of a name begins; None if the plane has none of it."""
        number = next((number for number, name in self._stat_names.items() if name == stat), None)
        return None if number is None else b"\x08" + encoded_varint(number)

    def stats(self) -> dict[str, Value]:
        """Give the statistics of the plane itself."""
        return self.decode(self._raw(self._stats))

    def decode(self, raws: Iterable[bytes]) -> dict[str, Value]:
        """Give some statistics by name; those that hold bytes are left out.

        Raises:
            WireError: One is damaged.
        """
        known = self._known
        result: dict[str, Value] = {}
        for raw in raws:
            # Most statistics repeat from event to event: names of operators, modules, launch shapes.
            stat = known.get(raw)
            if stat is None:
                stat = self._decode_one(raw)
                if len(known) < _MAX_KNOWN:
                    known[raw] = stat
            if stat[1] is not None:
                result[stat[0]] = stat[1]
        return result

    def _raw(self, places: Iterable[Field]) -> list[bytes]:
        return [self._data[place.begin : place.end] for place in places]

    def _decode_one(self, raw: bytes) -> tuple[str, Value | None]:
        name, value = "", None
        for field in fields(raw, 0, len(raw)):
            match field.number:
                case 1:
                    name = self._stat_names.get(field.begin, "")
                case 2:
                    value = double(field.begin)
                case 3:
                    value = field.begin
                case 4:
                    value = signed(field.begin)
                case 5:
                    value = text(raw, field)
                case 7:
                    value = self._stat_names.get(field.begin, "")
                case _:
                    pass
        return name, value

    def bytes_of(self, places: list[Field]) -> list[Field]:
        """Give where the statistics that hold bytes keep them."""
        return [
            field
            for place in places
            for field in fields(self._data, place.begin, place.end)
            if field.number == 6 and field.kind == BYTES
        ]

    def event_metadata(self) -> Iterator[tuple[int, str, list[Field]]]:
        """Yield id, name and statistics of all kinds of events."""
        for key, place in self._event_metadata.items():
            yield key, *self._metadata(place)

    def metadata_of(self, key: int) -> tuple[str, list[bytes]]:
        """Give name and statistics of one kind of event; no name if the plane does not describe it."""
        place = self._event_metadata.get(key)
        if place is None:
            return "", []
        name, stats = self._metadata(place)
        return name, self._raw(stats)

    def _metadata(self, place: Field) -> tuple[str, list[Field]]:
        name = display_name = ""
        stats: list[Field] = []
        for field in fields(self._data, place.begin, place.end):
            if field.number == 2 and field.kind == BYTES:
                name = text(self._data, field)
            elif field.number == 4 and field.kind == BYTES:
                display_name = text(self._data, field)
            elif field.number == 5 and field.kind == BYTES:
                stats.append(field)
        return name or display_name, stats

    def line(self, place: Field) -> Line:
        """Look through a line.

        Raises:
            WireError: It is damaged.
        """
        name, display_name, timestamp_ns = "", "", 0
        for field in fields(self._data, place.begin, place.end):
            if field.number == 2 and field.kind == BYTES:
                name = text(self._data, field)
            elif field.number == 11 and field.kind == BYTES:
                display_name = text(self._data, field)
            elif field.number == 3:
                timestamp_ns = signed(field.begin)
        return Line(name or display_name, timestamp_ns, place)

    def events_of(self, line: Line) -> Iterator[Field]:
        """Yield where the events of a line are stored.

        Raises:
            WireError: The line is damaged.
        """
        for field in fields(self._data, line.place.begin, line.place.end):
            if field.number == 4 and field.kind == BYTES:
                yield field

    def event(self, place: Field) -> Event:
        """Decode an event, up to its statistics.

        Raises:
            WireError: It is damaged.
        """
        # Fields are stored in the order of their numbers. The statistics of most events are equal byte for byte,
        # so they are left as they are: hundreds of thousands of events must not be decoded in full.
        data, at, end = self._data, place.begin, place.end
        values = [0, 0, 0]
        while at < end and data[at] in {0x08, 0x10, 0x18}:
            number = data[at] >> 3
            value = data[at + 1] if at + 1 < end else 0x80
            if value < 0x80:
                at += 2
            else:
                value, at = varint(data, at + 1, end)
            values[number - 1] = value
        return Event(values[0], signed(values[1]), signed(values[2]), data[at:end])

    def rest_of(self, event: Event) -> tuple[tuple[bytes, ...], int]:
        """Give the statistics of an event, undecoded, and how many events it stands for.

        Raises:
            WireError: It is damaged.
        """
        stats: list[bytes] = []
        occurrences = 1
        for field in fields(event.rest, 0, len(event.rest)):
            if field.number == 4 and field.kind == BYTES:
                stats.append(event.rest[field.begin : field.end])
            elif field.number == 5 and field.kind == VARINT:
                occurrences = max(1, signed(field.begin))
        return tuple(stats), occurrences


def integer(value: Value | None) -> int | None:
    """Give a statistic that is a whole number, or the decimal digits of one."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else None


def _map_entry(data: bytes, entry: Field) -> tuple[int, Field | None]:
    key, value = 0, None
    for field in fields(data, entry.begin, entry.end):
        if field.number == 1:
            key = field.begin
        elif field.number == 2 and field.kind == BYTES:
            value = field
    return key, value


def _name(data: bytes, metadata: Field) -> str:
    return next(
        (
            text(data, field)
            for field in fields(data, metadata.begin, metadata.end)
            if field.number == 2 and field.kind == BYTES
        ),
        "",
    )

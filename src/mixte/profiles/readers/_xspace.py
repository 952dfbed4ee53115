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

from mixte.profiles.readers._wire import BYTES, VARINT, Field, WireError, double, fields, signed, text, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = str | int | float

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
        occurrences: How many events it stands for.
        stats: Where its statistics are stored.
    """

    metadata: int
    offset_ps: int
    duration_ps: int
    occurrences: int
    stats: list[Field]


class Line(NamedTuple):
    """A line of a plane: its name, when it begins, and where its events are stored."""

    name: str
    timestamp_ns: int
    events: list[Field]


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
        self._known_stats: dict[bytes, tuple[str, Value | None]] = {}
        for field in fields(data, place.begin, place.end):
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

    def stats(self) -> dict[str, Value]:
        """Give the statistics of the plane itself."""
        return self.decode(self._stats)

    def decode(self, places: list[Field]) -> dict[str, Value]:
        """Give some statistics by name; those that hold bytes are left out.

        Raises:
            WireError: One is damaged.
        """
        data, known = self._data, self._known_stats
        result: dict[str, Value] = {}
        for place in places:
            raw = data[place.begin : place.end]
            # Most statistics repeat from event to event: names of operators, modules, launch shapes.
            stat = known.get(raw)
            if stat is None:
                stat = self._decode_one(place)
                if len(known) < 100_000:
                    known[raw] = stat
            if stat[1] is not None:
                result[stat[0]] = stat[1]
        return result

    def _decode_one(self, place: Field) -> tuple[str, Value | None]:
        name, value = "", None
        for field in fields(self._data, place.begin, place.end):
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
                    value = text(self._data, field)
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

    def metadata_of(self, key: int) -> tuple[str, list[Field]]:
        """Give name and statistics of one kind of event; no name if the plane does not describe it."""
        place = self._event_metadata.get(key)
        return ("", []) if place is None else self._metadata(place)

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
        events: list[Field] = []
        for field in fields(self._data, place.begin, place.end):
            if field.number == 4 and field.kind == BYTES:
                events.append(field)
            elif field.number == 2 and field.kind == BYTES:
                name = text(self._data, field)
            elif field.number == 11 and field.kind == BYTES:
                display_name = text(self._data, field)
            elif field.number == 3:
                timestamp_ns = signed(field.begin)
        return Line(name or display_name, timestamp_ns, events)

    def event(self, place: Field) -> Event:
        """Decode an event.

        Raises:
            WireError: It is damaged.
        """
        metadata = offset_ps = duration_ps = occurrences = 0
        stats: list[Field] = []
        for field in fields(self._data, place.begin, place.end):
            number = field.number
            if number == 4 and field.kind == BYTES:
                stats.append(field)
            elif number == 1:
                metadata = field.begin
            elif number == 2:
                offset_ps = signed(field.begin)
            elif number == 3:
                duration_ps = signed(field.begin)
            elif number == 5:
                occurrences = signed(field.begin)
        return Event(metadata, offset_ps, duration_ps, max(1, occurrences), stats)


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

"""The wire format; the oracle is Google's protobuf with TensorFlow's XPlane messages."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from mixte.profiles.readers._wire import (
    BYTES,
    FIXED64,
    VARINT,
    Field,
    WireError,
    double,
    encoded_varint,
    fields,
    packed_varints,
    signed,
    text,
    varint,
)
from mixte.profiles.readers._xspace import Plane, looks_like_xspace


@given(strategies.integers(0, 2**64 - 1))
def test_varints_round_trip(value):
    encoded = encoded_varint(value)
    assert varint(encoded + b"\xff", 0, len(encoded)) == (value, len(encoded))


@given(
    strategies.integers(-(2**63), 2**63 - 1), strategies.floats(allow_nan=False), strategies.text(max_size=300)
)
def test_every_kind_of_value_is_read_as_protobuf_reads_it(xplane_pb2, number, real, string):
    stat = xplane_pb2.XStat(metadata_id=number)
    for field, value in (("int64_value", number), ("double_value", real), ("str_value", string)):
        setattr(stat, field, value)
        data = stat.SerializeToString()
        read = list(fields(data, 0, len(data)))
        if number:
            assert read[0] == Field(1, VARINT, number % 2**64, 0)
            assert signed(read[0].begin) == number
        last = read[-1]
        if field == "int64_value":
            assert signed(last.begin) == number
        elif field == "double_value":
            assert last.kind == FIXED64
            assert double(last.begin) == real
        else:
            assert last.kind == BYTES
            assert text(data, last) == string


def test_unknown_kinds_and_cut_messages_are_errors():
    for data in (
        b"\x0b",
        b"\x07",
        b"\x0a\x05abc",
        b"\x08",
        b"\x08\xff",
        b"\x09\x00",
        b"\x00\x01",
        b"\xff" * 11,
    ):
        with pytest.raises(WireError):
            list(fields(data, 0, len(data)))


def test_fields_before_the_damage_are_given():
    seen: list[Field] = []
    with pytest.raises(WireError):
        seen.extend(iter_into(seen, b"\x08\x01\x10\x02\x0a\x05abc"))
    assert [field.number for field in seen] == [1, 2]


def iter_into(seen, data):
    for field in fields(data, 0, len(data)):
        seen.append(field)
    return []


def test_repeated_numbers_are_read_packed_or_not():
    packed = b"\x0a\x04\x01\xac\x02\x05"
    (field,) = fields(packed, 0, len(packed))
    assert list(packed_varints(packed, field)) == [1, 300, 5]
    assert list(packed_varints(b"", Field(1, VARINT, 7, 0))) == [7]


def random_space(xplane_pb2, rng):
    """An XSpace with all fields of the schema, zeros and negatives among them."""
    space = xplane_pb2.XSpace(hostnames=["host"], errors=["e"], warnings=["w"])
    for number in range(3):
        plane = space.planes.add(id=number, name=f"/device:GPU:{number}")
        for key in range(1, 6):
            plane.stat_metadata[key].id = key
            plane.stat_metadata[key].name = f"stat {key}"
        for key in range(1, 8):
            metadata = plane.event_metadata[key]
            metadata.id, metadata.name = key, "" if key == 7 else f"kernel {key}"
            metadata.display_name = f"display {key}"
            metadata.stats.add(metadata_id=1, str_value=f"shared {key}")
        plane.stats.add(metadata_id=2, uint64_value=2**64 - 1)
        plane.stats.add(metadata_id=3, ref_value=4)
        for stream in range(2):
            line = plane.lines.add(id=stream, name=f"Stream #{stream}", timestamp_ns=rng.randrange(2**62))
            for _ in range(rng.randrange(40)):
                event = line.events.add(
                    metadata_id=rng.randrange(8),
                    offset_ps=rng.choice([0, 5, 2**40]),
                    duration_ps=rng.randrange(2**40),
                )
                for key in rng.sample(range(1, 6), rng.randrange(4)):
                    stat = event.stats.add(metadata_id=key)
                    match rng.randrange(4):
                        case 0:
                            stat.int64_value = rng.randrange(-(2**63), 2**63)
                        case 1:
                            stat.double_value = rng.random()
                        case 2:
                            stat.str_value = rng.choice(["", "text", "é" * 70])
                        case _:
                            stat.ref_value = 5
    return space


@pytest.mark.parametrize("seed", range(5))
def test_planes_lines_events_and_statistics_are_read_as_protobuf_reads_them(xplane_pb2, seeded, seed):
    space = random_space(xplane_pb2, seeded(seed))
    data = space.SerializeToString()
    assert looks_like_xspace(data[:4096])
    places = [field for field in fields(data, 0, len(data)) if field.number == 1]
    for place, expected in zip(places, space.planes, strict=True):
        plane = Plane(data, place)
        assert plane.name == expected.name
        assert plane.stats() == {"stat 2": 2**64 - 1, "stat 3": "stat 4"}
        for line_place, expected_line in zip(plane.lines, expected.lines, strict=True):
            line = plane.line(line_place)
            assert (line.name, line.timestamp_ns) == (expected_line.name, expected_line.timestamp_ns)
            for event_place, wanted in zip(plane.events_of(line), expected_line.events, strict=True):
                event = plane.event(event_place)
                assert (event.metadata, event.offset_ps, event.duration_ps) == (
                    wanted.metadata_id,
                    wanted.offset_ps,
                    wanted.duration_ps,
                )
                name, shared = plane.metadata_of(event.metadata)
                metadata = expected.event_metadata[event.metadata] if event.metadata else None
                assert name == ((metadata.name or metadata.display_name) if metadata else "")
                assert plane.decode(shared) == ({"stat 1": f"shared {event.metadata}"} if metadata else {})
                assert plane.decode(plane.rest_of(event)[0]) == statistics(expected, wanted)


def statistics(plane, event):
    values = {}
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind)
        name = plane.stat_metadata[stat.metadata_id].name
        values[name] = plane.stat_metadata[value].name if kind == "ref_value" else value
    return values


def test_events_that_stand_for_several_say_so(xplane_pb2):
    space = xplane_pb2.XSpace()
    line = space.planes.add(name="p").lines.add(name="l")
    line.events.add(metadata_id=1, num_occurrences=12, duration_ps=5).stats.add(metadata_id=1, str_value="x")
    data = space.SerializeToString()
    plane = Plane(data, next(fields(data, 0, len(data))))
    (place,) = plane.events_of(plane.line(plane.lines[0]))
    stats, occurrences = plane.rest_of(plane.event(place))
    assert occurrences == 12
    assert len(stats) == 1


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\nEpoch 1", b"\n\x04\x08\x01\x08\x01", b"\n\x02\x12\x00", b"\x12\x00"]
)
def test_text_and_other_messages_are_no_xspace(data):
    assert not looks_like_xspace(data)

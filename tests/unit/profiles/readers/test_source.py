"""Bytes and lines of a profile: gzip, encodings, line ends, limits."""

from __future__ import annotations

import gzip
import zlib

import pytest

from mixte import ProfileError
from mixte.profiles import _limits
from mixte.profiles.readers._source import Source


@pytest.fixture
def source(tmp_path):
    def build(data: bytes) -> Source:
        path = tmp_path / "profile"
        path.write_bytes(data)
        return Source(path)

    return build


TEXT = "first\nsecond: 12 µs…\n\nlast"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.encode("cp1252"),
        gzip.compress(TEXT.encode()),
        gzip.compress(TEXT[:8].encode()) + gzip.compress(TEXT[8:].encode()),
        gzip.compress(TEXT.encode()) + bytes(512),
    ],
    ids=[
        *("utf-8", "utf-8 mark", "utf-16 mark", "utf-16-be mark", "utf-16-le bare", "windows lines", "cp1252"),
        *("gzip", "two gzip members", "padded gzip"),
    ],
)
def test_lines_are_the_same_in_every_encoding(source, data):
    assert list(source(data).lines()) == TEXT.split("\n")


def test_a_line_may_cross_windows(source, monkeypatch):
    monkeypatch.setattr(Source.windows, "__defaults__", (7,))
    lines = [f"line {number} {'x' * (number % 23)}" for number in range(200)]
    assert list(source("\n".join(lines).encode()).lines()) == lines


def test_what_a_progress_bar_overwrote_is_a_line_of_its_own(source):
    assert list(source(b"10 %\r20 %\rTime(%)  Time\r\n").lines()) == ["10 %", "20 %", "Time(%)  Time"]


def test_of_many_empty_lines_one_is_kept(source):
    assert list(source(b"a\n\n\n\n\nb\n\nc\n").lines()) == ["a", "", "b", "", "c"]


def test_a_line_without_end_is_refused(source, monkeypatch):
    monkeypatch.setattr(_limits, "MAX_LINE_BYTES", 1000)
    with pytest.raises(ProfileError, match="has a line of more than"):
        list(source(b"x" * 5000).lines())


def test_gzip_cut_in_the_middle_gives_what_is_there_and_says_so(source, seeded):
    data = seeded(1).randbytes(100_000)
    cut = source(gzip.compress(data)[:60_000])
    taken = b"".join(cut.windows())
    assert data.startswith(taken)
    assert len(taken) > 50_000
    assert cut.damage == ["the gzip data ends in the middle, after 0.1 MiB (unpacked)"]


def test_gzip_with_a_damaged_byte_gives_what_stands_before_it_and_says_so(source, seeded):
    data = seeded(2).randbytes(300_000)
    packed = bytearray(gzip.compress(data))
    packed[-3] ^= 0xFF  # the length in the trailer
    damaged = source(bytes(packed))
    assert b"".join(damaged.windows(4096)).startswith(data[:200_000])
    assert len(damaged.damage) == 1
    assert damaged.damage[0].startswith("the gzip data is damaged after")


def test_a_decompression_bomb_is_refused_before_it_fills_the_memory(source):
    packer = zlib.compressobj(9, wbits=31)
    packed = b"".join(packer.compress(bytes(2**20)) for _ in range(200)) + packer.flush()
    with pytest.raises(ProfileError, match="unpacks to more than 250 times its size"):
        for _ in source(packed).windows():
            pass


def test_a_small_file_may_expand_as_it_likes(source):
    data = b"a" * (_limits.EXPANSION_GRACE_BYTES - 1)
    assert sum(map(len, source(gzip.compress(data)).windows())) == len(data)


def test_unpacked_size_is_limited(source, monkeypatch, seeded):
    monkeypatch.setattr(_limits, "EXPANSION_GRACE_BYTES", 1000)
    monkeypatch.setattr(_limits, "MAX_UNPACKED_BYTES", 50_000)
    with pytest.raises(ProfileError, match="unpacks to more than"):
        list(source(gzip.compress(seeded(3).randbytes(60_000))).windows())


def test_whole_refuses_more_than_its_limit(source):
    assert source(b"abc").whole(3) == b"abc"
    with pytest.raises(ProfileError, match="more than this format is read up to"):
        source(b"abcd").whole(3)


def test_progress_ends_at_one(tmp_path):
    path = tmp_path / "profile"
    path.write_bytes(b"x" * 10_000)
    fractions: list[float] = []
    for _ in Source(path, fractions.append).windows(1000):
        pass
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert len(fractions) == 10

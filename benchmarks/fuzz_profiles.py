"""Feeds damaged variants of every reference profile to the readers.

Each variant must give a profile (partial or not) or a one-line ProfileError: no other exception, no hang, no more
than 4 GiB of memory. Variants: cut off, bits flipped, bytes overwritten, pieces removed or doubled, empty, wrongly
encoded, packed again, decompression bombs, nested without end.

    python benchmarks/fuzz_profiles.py                          # a small fixed set, as continuous integration runs it
    python benchmarks/fuzz_profiles.py --rounds 50 --seed 7     # more of each
    python benchmarks/fuzz_profiles.py --only kineto --rounds 200
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from mixte import ProfileError
from mixte.profiles import Profile, Weight, read_profile

if TYPE_CHECKING:
    from collections.abc import Iterator

PROFILES = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "profiles"
MEMORY_BYTES = 4 * 2**30
TIME_S = 30
# JSON longer than this is cut before it is damaged, unless --whole is given: what a reader can trip over is the
# same at the end of the first few thousand events as at the end of the last.
CUT_BYTES = 400_000
BOMB_BYTES = 48 * 2**20


class Hang(BaseException):
    """A reader took longer than `TIME_S`. Not an Exception, so that no reader can take it for a damaged file."""


def variants(rng: random.Random, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield damaged variants of a file's bytes."""
    size = len(data)
    yield "cut in the middle", data[: rng.randrange(size)]
    yield "cut near the end", data[: max(1, size - rng.randrange(1, 64))]
    yield "cut near the beginning", data[: rng.randrange(1, 512)]
    yield "without its beginning", data[rng.randrange(1, 512) :]
    for share in (1e-5, 1e-3):
        flipped = bytearray(data)
        for _ in range(max(1, int(size * share))):
            flipped[rng.randrange(size)] ^= 1 << rng.randrange(8)
        yield f"{share:g} of the bytes flipped", bytes(flipped)
    begin = rng.randrange(size)
    length = rng.randrange(1, 4096)
    yield "a piece removed", data[:begin] + data[begin + length :]
    yield "a piece doubled", data[: begin + length] + data[begin:]
    yield "a piece of zeros", data[:begin] + bytes(length) + data[begin + length :]
    yield "a piece of noise", data[:begin] + rng.randbytes(length) + data[begin + length :]


def encodings(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the bytes as if they had passed through the wrong encoding."""
    text = data.decode("utf-8", errors="replace")
    yield "UTF-16 with a mark", text.encode("utf-16")
    yield "UTF-16 big-endian without a mark", text.encode("utf-16-be")
    yield "UTF-8 with a mark", b"\xef\xbb\xbf" + data
    yield "UTF-8 taken for Windows-1252", data.decode("cp1252", errors="replace").encode()
    yield "Windows line ends", data.replace(b"\n", b"\r\n")
    yield "numbers replaced by huge ones", data.replace(b"1", b"9" * 40)
    yield "negative numbers", data.replace(b": 1", b": -1").replace(b",1", b",-1")


def bombs(head: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield gzip files that unpack to far more than any profile does."""
    for label, unit in (
        ("zeros", bytes(4096)),
        ("empty events", b"{}," * 1024),
        ("line ends", b"\n" * 4096),
        ("one endless line", b"x" * 4096),
    ):
        packer = zlib.compressobj(9, wbits=31)
        packed = bytearray(packer.compress(head))
        for _ in range(BOMB_BYTES // len(unit)):
            packed += packer.compress(unit)
        packed += packer.flush()
        yield f"bomb of {label}", bytes(packed)


def nested() -> Iterator[tuple[str, bytes]]:
    """Yield values nested without end, wherever a reader may descend."""
    depth = 200_000
    yield "nested lists", b"[" * depth
    yield "nested objects", b'{"a":' * depth
    event = b'{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "args": '
    yield (
        "an event nested",
        b'{"schemaVersion": 1, "traceEvents": [' + event + b"[" * depth + b"]" * depth + b"}]}",
    )
    shapes = b'{"Input Dims": ' + b"[" * depth + b"]" * depth + b"}"
    yield "shapes nested", b'{"schemaVersion": 1, "traceEvents": [' + event + shapes + b"}]}"
    yield "messages nested", _nested_messages(2000)
    yield "nothing", b""
    yield "one byte", b"{"
    yield "gzip without content", gzip.compress(b"")
    yield "gzip in gzip in gzip", gzip.compress(gzip.compress(gzip.compress(b"{}")))


def _nested_messages(depth: int) -> bytes:
    message = b"\x12\x0d/device:GPU:0"
    for _ in range(depth):
        size = len(message)
        length = bytearray()
        while size >= 0x80:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        message = b"\x0a" + bytes([*length, size]) + message
    return message


def complaints(profile: Profile) -> Iterator[str]:
    """Yield which promises of a profile (mixte.profiles._model) are not kept."""
    if bool(profile.kernels) != (profile.no_kernels_reason is None):
        yield "there must be kernels or a reason why not, never both"
    for kernel in profile.kernels:
        if profile.weight is Weight.TIME and (kernel.duration_ns is None or kernel.duration_ns < 0):
            yield f"time is the weight, but the duration of a row is {kernel.duration_ns}"
        if profile.weight is Weight.LAUNCHES and kernel.count is None:
            yield "launches are the weight, but a row has no count"
        if kernel.count is not None and kernel.count <= 0:
            yield f"a row stands for {kernel.count} launches"
        if not all(math.isfinite(value) for value in (kernel.counters or {}).values()):
            yield "a counter is not finite"
        if kernel.step is not None and kernel.step not in profile.steps:
            yield f"a row belongs to step {kernel.step}, which the profile does not mark"
    if any("\n" in sentence for sentence in (*profile.missing, *profile.notes)):
        yield "a sentence has several lines"


def attempt(path: Path) -> str:
    """Read one variant; give "profile", "partial", "refused", or how it failed."""
    signal.alarm(TIME_S)
    try:
        profile = read_profile(path)
        broken = next(complaints(profile), None)
    except ProfileError as error:
        return "refused" if "\n" not in str(error) else f"an error message of several lines: {error}"
    except MemoryError:
        return "more than 4 GiB of memory"
    except Hang:
        return f"no answer within {TIME_S} s"
    except Exception:  # noqa: BLE001 - that is what the readers must not raise
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    if broken is not None:
        return broken
    return "partial" if profile.partial else "profile"


def cases(file: Path, rng: random.Random, *, rounds: int, whole: bool) -> Iterator[tuple[str, bytes]]:
    """Yield all variants of one file."""
    stored = file.read_bytes()
    packed = stored.startswith(b"\x1f\x8b")
    data = gzip.decompress(stored) if packed else stored
    if not whole and data.lstrip()[:1] in {b"{", b"["}:
        data = data[:CUT_BYTES]
    for number in range(rounds):
        for label, variant in variants(rng, data):
            yield f"{label} ({number})", variant
        if packed and number == 0:
            packed_again = gzip.compress(data, 1)
            for label, variant in variants(rng, packed_again):
                yield f"packed, {label}", variant
    if not data.startswith(b"SQLite"):
        yield from encodings(data)
    yield "packed", gzip.compress(data, 1)


class Tally:
    """Tries variants and counts how they ended."""

    def __init__(self, folder: Path) -> None:
        self.outcomes = {"profile": 0, "partial": 0, "refused": 0}
        self.failures: list[str] = []
        self._path = folder / "variant"

    def take(self, name: str, label: str, data: bytes) -> None:
        self._path.write_bytes(data)
        outcome = attempt(self._path)
        if outcome in self.outcomes:
            self.outcomes[outcome] += 1
        else:
            self.failures.append(f"{name}: {label}: {outcome}")

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return f"{counts}, {len(self.failures)} failures; peak {peak_bytes / 2**20:.0f} MiB"


def main() -> int:
    arguments = _arguments()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _hang)
    files = sorted(
        path
        for path in PROFILES.rglob("*")
        if path.is_file() and path.parent.name not in {"profiles", "LICENSES"} and arguments.only in str(path)
    )
    if not files:
        print(f"no profiles in {PROFILES}", file=sys.stderr)
        return 2
    started_s = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mixte-fuzz-") as folder:
        tally = Tally(Path(folder))
        for file in files:
            rng = random.Random(f"{arguments.seed} {file.name}")  # noqa: S311 - reproducible, not secret
            for label, data in cases(file, rng, rounds=arguments.rounds, whole=arguments.whole):
                tally.take(file.name, label, data)
        if not arguments.only:
            heads = (
                b"",
                b'{"traceEvents": [',
                b'"ID","Process ID"\n',
                b"==1== NVPROF is profiling process 1\n",
            )
            for label, data in (*nested(), *(bomb for head in heads for bomb in bombs(head))):
                tally.take("made up", label, data)
    print(f"{len(files)} files: {tally}; {time.perf_counter() - started_s:.0f} s")
    for failure in tally.failures[:20]:
        print(failure)
    return 1 if tally.failures else 0


def _hang(*_: object) -> None:
    raise Hang


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rounds", type=int, default=1, help="times that each kind of damage is done (default 1)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only files whose path contains this")
    parser.add_argument("--whole", action="store_true", help="do not cut long JSON first")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())

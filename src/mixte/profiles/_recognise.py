"""Which format a file has, by its content; the name is not looked at.

Signatures: docs/profile-formats.md. Order: gzip is unpacked, then SQLite, NVIDIA's binary reports, JSON, XPlane
(protocol buffers), and last text, whose tables may begin after any amount of program output.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mixte._errors import ProfileError
from mixte.profiles.readers._source import Source, lines_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mixte.profiles._model import Format

SQLITE_MAGIC = b"SQLite format 3\x00"

# A line that settles it. The first that occurs wins: the tables of one profiler come in one piece.
_DECISIVE: tuple[tuple[Format, str], ...] = (
    ("ncu_csv", r'"ID","Process ID"|"Process ID","Process Name",.*"Kernel Name"'),
    ("ncu_text", r"\s{2,}\S.*, Context \d+, Stream \d+(?:, Device \d+)?(?:, CC \d+\.\d+)?\s*$"),
    (
        "nvprof_csv",
        (
            r'"?(?:Type"?,"?)?Time\(%\)"?,"?Time"?,"?Calls"?,|"?Start"?,"?Duration"?,"?Grid X"?,'
            r'|"?Device"?,"?Kernel"?,"?Invocations"?,'
        ),
    ),
    (
        "nvprof_text",
        (
            r"\s*(?:Type\s+)?Time\(%\)\s+Time\s+Calls\s+Avg\s+Min\s+Max\s+Name"
            r"|\s*Start\s+Duration\s+Grid Size\s+Block Size|\s*Invocations\s+Metric Name\s+Metric Description"
        ),
    ),
    (
        "nsys_stats_csv",
        (
            r'"?Time ?\(%\)"?[,;\t]"?Total Time(?: \(\w+\))?"?[,;\t]"?Instances"?[,;\t]'
            r'|"?Start \(\w+\)"?[,;\t]"?Duration \(\w+\)"?[,;\t]"?CorrId"?[,;\t]'
        ),
    ),
    (
        "nsys_stats_text",
        (
            r"\s*Time ?\(%\)\s+Total Time(?: \(\w+\))?\s+Instances\s+A(?:vg|verage)\b"
            r"|\s*Start \(\w+\)\s+Duration \(\w+\)\s+CorrId\s"
        ),
    ),
    ("torch_table", r"\s*Name\s+.*Self CPU(?: %)?\s.*(?:# of|Number of) Calls"),
    (
        "dlprof",
        (
            r"(?:Kernel|Iteration|Tensor Core|Group Op|Group Node|Detailed|Op Type|Model|Expert Systems) Report\s*,*$"
            r"|All Iterations\s*,*$|System Config\s*,*$"
        ),
    ),
    (
        "rocprof",
        (
            r'(?:.*,)?"?Kernel_?Name"?,(?:.*,)?"?(?:Start_Timestamp|BeginNs)"?(?:,|\s*$)'
            r'|"?Name"?,"?Calls"?,"?TotalDurationNs"?'
        ),
    ),
)
# A line that tells which profiler wrote the file, though it may hold no table of kernels.
_FAMILY: tuple[tuple[Format, str], ...] = (
    ("nvprof_text", r"==\d+== (?:NVPROF is profiling|Profiling result:)"),
    ("ncu_text", r"==PROF== |==WARNING== No kernels were profiled"),
    (
        "nsys_stats_text",
        (
            r"Processing \[.*\] with \[.*\]|SKIPPED: .* does not contain |\[\d+/\d+\] Executing '\w+' stats report"
            r"| \*\* .* Summary .*\(\w+\):|Generating CUDA API Statistics"
        ),
    ),
)


def _one_of(signatures: Iterable[tuple[Format, str]]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in signatures))


_DECISIVE_LINE = _one_of(_DECISIVE)
_FAMILY_LINE = _one_of(_FAMILY)
# Every signature holds one of these: a piece of text without any is passed over at once.
_KEYWORDS = tuple(
    word.encode()
    for word in (
        *(
            "Kernel",
            "TotalDurationNs",
            "Process ID",
            ", Context ",
            "Time",
            "Start",
            "Invocations",
            "Self CPU",
            "Report",
            "Iterations",
        ),
        *("System Config", "==", "Processing [", "SKIPPED: ", "Executing '", " ** ", "Generating CUDA"),
    )
)


def recognise(path: Path) -> Format | None:
    """Tell which format a file has.

    Args:
        path: The file.

    Returns:
        The format; None if it is none that mixte reads (see `advice`).

    Raises:
        ProfileError: The file cannot be opened.
    """
    try:
        source = Source(path)
        return format_of(source)
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror or error}.") from error


def format_of(source: Source) -> Format | None:
    """Tell which format a source has; None for none that mixte reads."""
    head = source.head()
    if head.startswith(SQLITE_MAGIC):
        return _sqlite_format(source)
    if not head or advice_for(head) is not None:
        return None
    if source.text_head().lstrip()[:1] in {"{", "["}:
        return _json_format(source)
    from mixte.profiles.readers._xspace import looks_like_xspace  # noqa: PLC0415 - most files are none

    if looks_like_xspace(head):
        return "xplane"
    return _text_format(source)


def advice_for(head: bytes) -> str | None:
    """Say what to do with a file that mixte knows but does not read; None for any other.

    Args:
        head: Its first bytes, unpacked.
    """
    if head.startswith(b"NVIDIA Tegra Profiler Report"):
        return (
            "is a binary report of Nsight Systems. Export it first: "
            "nsys export --type sqlite --output report.sqlite FILE"
        )
    if head.startswith(b"NVR\x00"):
        return "is a binary report of Nsight Compute. Export it first: ncu --import FILE --csv --page raw > report.csv"
    if head.startswith((b"PAR1", b"\x89HDF\r\n", b"ARROW1")):
        return "is an export that mixte does not read. Export as SQLite: nsys export --type sqlite FILE"
    if head.startswith(b"PK\x03\x04") or head[257:262] == b"ustar":
        return "is an archive. Unpack it and give the profile in it."
    return None


def _sqlite_format(source: Source) -> Format | None:
    from mixte.profiles.readers._sqlite import Database  # noqa: PLC0415 - sqlite3 takes time to load

    with Database.of(source) as database:
        tables = database.tables
    if "StringTable" in tables:
        return "nvvp"
    if "StringIds" in tables or any(table.endswith("META_DATA_EXPORT") for table in tables):
        return "nsys_sqlite"
    if tables & {"read_only_kernels", "op_nodes", "expert_systems_feedback"}:
        return "dlprof"
    return None


def _json_format(source: Source) -> Format | None:
    if '"rocprofiler-sdk-tool"' in source.text_head():
        return "rocprof"
    from mixte.profiles.readers._trace_kind import trace_kind  # noqa: PLC0415 - only JSON needs it

    return trace_kind(source)


def _text_format(source: Source) -> Format | None:
    family: Format | None = None
    try:
        for block in source.blocks():
            if not any(word in block for word in _KEYWORDS):
                continue
            for line in lines_of(block):
                found = _DECISIVE_LINE.match(line)
                if found:
                    return _name(found)
                if family is None:
                    found = _FAMILY_LINE.match(line)
                    family = _name(found) if found else None
    except ProfileError:  # a line without end: no text
        return family
    return family


def _name(found: re.Match[str]) -> Format:
    return next(name for name, _ in (*_DECISIVE, *_FAMILY) if found.groupdict().get(name) is not None)

"""docs/profile-formats.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from mixte.profiles import Format, _limits
from mixte.profiles._read import _READERS

TEXT = (Path(__file__).resolve().parents[4] / "docs" / "profile-formats.md").read_text(encoding="utf-8")


def test_every_format_has_a_reader_and_is_documented():
    assert set(_READERS) == set(get_args(Format))
    for name in get_args(Format):
        assert f"`{name}`" in TEXT


def test_limits_are_those_of_the_code():
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", TEXT[TEXT.index("## Limits") :], re.MULTILINE))
    units = {"GiB": _limits.GIB, "MiB": _limits.MIB, "times": 1}
    documented = {}
    for limit, value in rows.items():
        found = re.match(r"([\d,]+)(?: (GiB|MiB|times))?", value)
        if found:
            documented[limit] = int(found[1].replace(",", "")) * units.get(found[2], 1)
    assert documented == {
        "unpacked size of a gzip file": _limits.MAX_UNPACKED_BYTES,
        "expansion of a gzip file larger than 16 MiB unpacked": _limits.MAX_EXPANSION,
        "unpacked SQLite file": _limits.MAX_UNPACKED_DATABASE_BYTES,
        "a line of text": _limits.MAX_LINE_BYTES,
        "an event of a JSON trace": _limits.MAX_ELEMENT_BYTES,
        "an XPlane file": _limits.MAX_MESSAGE_BYTES,
        "an HLO module": _limits.MAX_MODULE_BYTES,
        "kernels of an Nsight Systems file with NVTX": _limits.MAX_LINKED_LAUNCHES,
        "kernels, operators or ranges of a trace": _limits.MAX_LINKED_RANGES,
        "different rows": _limits.MAX_ROWS,
        "all different names and shapes": _limits.MAX_NAME_BYTES,
    }
    assert _limits.EXPANSION_GRACE_BYTES == 16 * _limits.MIB

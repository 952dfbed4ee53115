"""What the text and the CSV output of nvprof have in common: ``==pid==`` lines around the tables.

nvprof writes them between the program's own output, to the same terminal. Source: CUDA profiler user's guide
(nvprof modes and output), CUDA 7 to 12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mixte.profiles._model import Gpu
from mixte.profiles.readers._rows import Rows

_PREFIX = re.compile(r"==(?P<pid>\d+)== ?(?P<text>.*)")
_LOST = re.compile(r"Warning: (?:Found )?(\d+) (?:invalid records|records have invalid timestamps)")
_DEVICE = re.compile(r"(?P<name>.*?)\s*\((?P<index>\d+)\)")


@dataclass(slots=True)
class NvprofLog:
    """The state of reading nvprof's output, line by line.

    Attributes:
        section: Title of the current section: ``"Profiling result"``, ``"API calls"``, ``"NVTX result"``,
            ``"Metric result"``; empty before the first.
        devices: Index by name of the devices seen.
        gpus: Those devices.
        empty: nvprof itself says that no kernels were profiled.
        missing: A sentence for each loss that nvprof itself reports.
    """

    section: str = ""
    devices: dict[str, int | None] = field(default_factory=dict[str, int | None])
    gpus: list[Gpu] = field(default_factory=list[Gpu])
    empty: bool = False
    missing: list[str] = field(default_factory=list[str])
    rows: Rows = field(default_factory=Rows)

    def take(self, line: str) -> str | None:
        """Take a line; give it back if it may belong to a table."""
        if not line.startswith("=="):
            self.empty |= line.startswith("No kernels were profiled")
            return line
        found = _PREFIX.match(line)
        if found is None:
            return None
        text = found["text"].strip()
        lost = _LOST.match(text)
        if lost:
            self.missing.append(f"nvprof lost {lost[1]} records")
        elif text.startswith('Device "'):
            return text
        elif text.endswith(("result:", "calls:")):
            self.section = text.rstrip(":")
        self.empty |= text.startswith("No kernels were profiled")
        return None

    def device(self, text: str) -> int | None:
        """Give the index of a device written as ``Tesla T4 (0)``, and note the device.

        A name without an index is device 0 if it is the only one; nvprof leaves the index out when there is one.
        """
        name = text.strip()
        if name not in self.devices:
            found = _DEVICE.fullmatch(name)
            index = int(found["index"]) if found else len(self.devices) or 0
            product = found["name"] if found else name
            self.devices[name] = index
            if product:
                self.gpus.append(Gpu(index=index, name=product, vendor="nvidia"))
        return self.devices[name]

    def why_empty(self) -> str:
        """Say why there are no kernels, as a clause."""
        return "nvprof profiled no kernels" if self.empty else "the file lists no kernels under GPU activities"


def is_kernel(name: str) -> bool:
    """Whether a row of GPU activities is a kernel: copies and memory sets stand in brackets."""
    return bool(name) and not name.startswith("[CUDA ")

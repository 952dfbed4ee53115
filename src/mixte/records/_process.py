"""Which process this is, and whether one that wrote a record still lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from mixte.records._schema import Process


def this_process() -> Process:
    """Return what identifies the current process."""
    number = os.getpid()
    return Process(host=socket.gethostname(), process_id=number, start_mark=_start_mark(number))


def is_alive(process: Process | None) -> bool:
    """Whether the process runs on this machine. One on another machine counts as gone: nobody here knows."""
    # os.kill(number, 0) asks only on POSIX; on Windows it would send the process a Ctrl-C.
    if process is None or process.host != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(process.process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it lives and belongs to another user
    return process.start_mark is None or _start_mark(process.process_id) == process.start_mark


def _start_mark(process_id: int) -> str | None:
    """Start time of the process in clock ticks since boot, with the boot's id (Linux: proc(5)); else None.

    A number alone is not enough: the system gives it again after a while, and always after a restart.
    """
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    # Field 2 is the program's name in parentheses and may hold blanks and parentheses itself. After it follow
    # field 3, the state, and so on: the start time is field 22. A zombie ("Z") has ended.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else f"{boot}/{fields[19]}"

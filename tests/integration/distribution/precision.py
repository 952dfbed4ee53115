"""How a script comes under a policy: from within, by the library, or from outside, by ``mixte run``."""

from __future__ import annotations

import contextlib
import os


def policies(path: str):
    """Yield what the script builds its model in, and where the result goes: once for each policy in LIBRARY."""
    if "LIBRARY" not in os.environ:
        yield contextlib.nullcontext(), path
        return
    import mixte.keras

    for name in os.environ["LIBRARY"].split(","):
        yield mixte.keras.use(name, law=os.environ["LAW"]), f"{path}.{name}"

"""Show and record mixte's own warnings, whatever the script does to all others."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from mixte._errors import MixteWarning

if TYPE_CHECKING:
    from mixte.cli._messages import Messages
    from mixte.records import RecordWriter


def lead_warnings(writer: RecordWriter, messages: Messages) -> None:
    """Lead every ``MixteWarning`` of this process to the record and to standard error, each once.

    A script that ignores all warnings, as many do, would lose them; one that makes errors of them would fail by
    them. All other warnings go their way.
    """
    original = warnings.warn
    said: set[str] = set()

    @functools.wraps(original)
    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **named: Any) -> None:
        kind = type(message) if isinstance(message, Warning) else category
        if not (isinstance(kind, type) and issubclass(kind, MixteWarning)):
            original(message, category, stacklevel + 1, source, **named)  # one frame more: this one
            return
        text = str(message)
        writer.warn(text)
        if text not in said:
            said.add(text)
            messages.say(f"warning: {text}")

    warnings.warn = warn

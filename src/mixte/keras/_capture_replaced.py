"""Put a function in the place of another for a while."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@final
class Interception:
    """Calls something before each call of a function, until it is undone.

    Args:
        homes: The modules or classes that offer the function.
        name: Its name there.
        before: What to call first.
    """

    def __init__(self, homes: Sequence[Any], name: str, before: Callable[[], None]) -> None:
        self._homes = homes
        self._name = name
        self._original = getattr(homes[0], name)
        original = self._original

        @functools.wraps(original)
        def intercepted(*args: Any, **kwargs: Any) -> Any:
            before()
            return original(*args, **kwargs)

        self._substitute = intercepted
        self._put(self._original, self._substitute)

    def undo(self) -> None:
        """Put the function back, wherever nobody else has replaced it since."""
        self._put(self._substitute, self._original)

    def _put(self, old: Any, new: Any) -> None:
        for home in self._homes:
            if getattr(home, self._name, None) is old:
                setattr(home, self._name, new)

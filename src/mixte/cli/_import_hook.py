"""Act when a script imports a module, without importing it for the script."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def around_import(name: str, *, before: Callable[[], None] | None = None, after: Callable[[], None]) -> None:
    """Act right before and right after a module is imported for the first time.

    Args:
        name: A top-level module. If it has been imported already, ``after`` is called at once.
        before: What to do when the import begins: the script has set up by now what it wants to set up, an
            environment variable say.
        after: What to do when it has succeeded. After a failure, both wait for the next attempt.
    """
    if name in sys.modules:
        after()
    else:
        sys.meta_path.insert(0, _Finder(name, before, after))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, before: Callable[[], None] | None, after: Callable[[], None]) -> None:
        self._name = name
        self._before = before
        self._after = after
        self._searching = False

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the contract of a finder
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != self._name or self._searching:
            return None
        self._searching = True  # the search below comes here again
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def import_begins(self) -> None:
        if self._before is not None:
            self._before()

    def import_succeeded(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._after()


class _Loader(importlib.abc.Loader):
    """Loads as the loader around which it is put, and tells when."""

    def __init__(self, loader: importlib.abc.Loader, finder: _Finder) -> None:
        self._loader = loader
        self._finder = finder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if it had been loaded without us.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._finder.import_begins()
        self._loader.exec_module(module)
        self._finder.import_succeeded()

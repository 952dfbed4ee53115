"""Do something the moment that a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def after_import(name: str, act: Callable[[], None]) -> None:
    """Call ``act`` once, right after the module ``name`` has been imported for the first time.

    Args:
        name: A top-level module that is not imported yet. A script that sets the module up beforehand, by an
            environment variable say, finds it as it would without us.
        act: What to do.
    """
    sys.meta_path.insert(0, _Finder(name, act))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the contract of a finder
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)  # first: the search below must not come here again
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._act)
        return spec


class _Loader(importlib.abc.Loader):
    """Loads as the loader around which it is put, then acts."""

    def __init__(self, loader: importlib.abc.Loader, act: Callable[[], None]) -> None:
        self._loader = loader
        self._act = act

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module is to look as if it had been loaded without us.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._act()

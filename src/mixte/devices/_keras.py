"""Which Keras is installed and which backend it will use, without importing it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixte.devices._installed import FindDistribution


@dataclass(frozen=True, slots=True, kw_only=True)
class Keras:
    """The installed Keras.

    Attributes:
        version: Its version.
        backend: The backend that it will use.
        backend_from: What says so: ``"KERAS_BACKEND"``, the path of a ``keras.json``, or ``"default"``.
    """

    version: str
    backend: str
    backend_from: str


def installed_keras(find: FindDistribution, environment: Mapping[str, str]) -> Keras | None:
    """Describe the installed Keras, or return None.

    The order is Keras's own: the variable KERAS_BACKEND, then ``keras.json`` in KERAS_HOME or ``~/.keras``, then
    TensorFlow.

    Args:
        find: What finds distributions.
        environment: The environment variables.
    """
    distribution = find("keras")
    if distribution is None:
        return None
    backend, backend_from = _backend(environment)
    return Keras(version=distribution.version, backend=backend, backend_from=backend_from)


def _backend(environment: Mapping[str, str]) -> tuple[str, str]:
    if environment.get("KERAS_BACKEND"):
        return environment["KERAS_BACKEND"], "KERAS_BACKEND"
    directory = environment.get("KERAS_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".keras")
    path = Path(directory) / "keras.json"
    try:
        settings: object = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "tensorflow", "default"
    if isinstance(settings, dict):
        named = cast("dict[str, object]", settings).get("backend")
        if isinstance(named, str):
            return named, str(path)
    return "tensorflow", "default"

"""Which layer of a model an operation belongs to, from the scope that the framework gives it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# What the frameworks put around the names of layers: tf.function, gradients, jit.
_AROUND = re.compile(r"(?:Stateful)?PartitionedCall(?:_\d+)?|gradient_tape|p?jit\([^/]*\)")
_SUFFIX = re.compile(r"_\d+")


@final
class LayerNames:
    """The layers of the models that were trained, to be found in scopes.

    - Keras names a scope after each model and layer that it calls. JAX wraps such a name in the transformations of
      the function, as in ``transpose(jvp(encoder))/dense_3/dot_general``, and drops the name of the outermost model.
    - TensorFlow makes names unique that come twice: the layers ``dense`` and ``dense_1`` of ``sequential`` may be
      found as ``sequential_1/dense_1`` and ``sequential_1/dense_1_1``. The model's own name tells.

    Args:
        models: Name of each model, and the paths of its layers, as the record of a run has them.

    Example:
        >>> names = LayerNames([("sequential", ["dense", "dense_1"])])
        >>> names.layer_of("gradient_tape/sequential_1/dense_1/MatMul")
        'dense'
        >>> names.layer_of("jit(train_step)/transpose(jvp(dense_1))")
        'dense_1'
    """

    def __init__(self, models: Iterable[tuple[str, Iterable[str]]]) -> None:
        self._models: list[tuple[str, list[list[str]]]] = []
        for name, paths in models:
            parts = sorted((path.split("/") for path in paths if path), key=len, reverse=True)
            self._models.append((name, parts))
        self._known: dict[str, str | None] = {}

    def layer_of(self, scope: str) -> str | None:
        """Give the path of the innermost layer that a scope names; without one, what the scope says.

        Args:
            scope: As in ``CpuOperation.scope`` or ``Kernel.layer``.

        Returns:
            None if the scope says nothing.
        """
        if scope not in self._known:
            self._known[scope] = self._find(scope)
        return self._known[scope]

    def _find(self, scope: str) -> str | None:
        words = [_unwrapped(word) for word in scope.split("/")]
        for name, layers in self._models:
            for at, word in enumerate(words):
                suffix = word.removeprefix(name)
                if not word.startswith(name) or (suffix and not _SUFFIX.fullmatch(suffix)):
                    continue
                inner = words[at + 1 :]
                bare = [part.removesuffix(suffix) for part in inner] if suffix else inner
                found = _longest(bare, layers) or _longest(inner, layers)
                if found is not None:
                    return found
        found = _longest(words, [layer for _, layers in self._models for layer in layers])
        told = [_unwrapped(word) for word in scope.split("/") if not _AROUND.fullmatch(word)]
        return found or "/".join(told) or None


def _unwrapped(word: str) -> str:
    """Take the transformations off: ``transpose(jvp(dense))`` is ``dense``."""
    return word.rpartition("(")[2].rstrip(")")


def _longest(words: Sequence[str], layers: Sequence[Sequence[str]]) -> str | None:
    """Give the longest path that occurs among the words."""
    best: Sequence[str] = ()
    for layer in layers:
        if len(layer) > len(best) and any(
            list(words[at : at + len(layer)]) == list(layer) for at in range(len(words) - len(layer) + 1)
        ):
            best = layer
    return "/".join(best) or None

"""Which layers a rule selects: a closed union of selectors, and how specific each is about a layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mixte._errors import PolicyError
from mixte.policy._pattern import check_pattern, escape_path, match_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.policy._layer import LayerDescription


@dataclass(frozen=True, slots=True)
class ByPath:
    """Selects layers whose path matches a pattern.

    Within a name, ``*`` stands for any characters, ``?`` for one, ``[ab]`` for one of several, as in the
    standard library's ``fnmatch``, case-sensitive. ``**`` stands for any number of whole names, also none. The
    pattern matches the whole path or any tail of it that begins at a name: ``"attention/query"`` selects
    ``encoder/block_2/attention/query``. A pattern that starts with ``/`` is held against the whole path only;
    ``/`` alone is the model itself. The path of a block selects that layer only; ``"block/**"`` selects the
    block with all that is inside it, ``"block/**/*"`` only what is inside.

    Attributes:
        pattern: The pattern.

    Raises:
        PolicyError: The pattern is empty, has an empty segment, or has ``**`` inside a name.
    """

    pattern: str

    def __post_init__(self) -> None:
        check_pattern(self.pattern)

    @classmethod
    def exactly(cls, path: str) -> ByPath:
        """Return the selector of one path, from the root, whatever characters its names have."""
        return cls(escape_path(path))


@dataclass(frozen=True, slots=True)
class ByClass:
    """Selects layers of a class and of its subclasses, by the class's bare name (``"BatchNormalization"``).

    Attributes:
        name: The name without its module.

    Raises:
        PolicyError: The name is empty or is not a bare class name.
    """

    name: str

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            bare = self.name.replace(">", ".").rpartition(".")[2]
            advice = f"; write {bare!r}" if bare.isidentifier() and bare != self.name else ""
            raise PolicyError(f"{self.name!r} is not the bare name of a class, such as 'Softmax'{advice}")


@dataclass(frozen=True, slots=True)
class ByActivation:
    """Selects layers whose activation function has a name (``"softmax"``), of whatever class they are.

    Attributes:
        name: The function's name, as Keras spells it: lower case with underscores.
    """

    name: str

    def __post_init__(self) -> None:
        if not self.name:
            raise PolicyError("the name of an activation is empty; give one such as 'softmax'")


@dataclass(frozen=True, slots=True)
class Outputs:
    """Selects the layers whose values are the model's outputs, and the layers that implement these."""


@dataclass(frozen=True, slots=True)
class ActivityRegularized:
    """Selects layers with a penalty computed from their output, and the layers that implement these."""


@dataclass(frozen=True, slots=True)
class ByPredicate:
    """Selects the layers for which a function returns True. Not expressible in ``policy.toml``.

    Attributes:
        function: From a layer's description to True or False. What it raises, and any other result, becomes a
            ``PolicyError`` that names the rule and the layer.
        description: What the function selects, in a few words for messages and tables.
    """

    function: Callable[[LayerDescription], bool]
    description: str


Selector: TypeAlias = ByPath | ByPredicate | Outputs | ByActivation | ActivityRegularized | ByClass

Specificity: TypeAlias = tuple[int, tuple[object, ...]]
"""The kind of selector, then what the kind compares: greater is more specific, equal is a tie."""


def describe_selector(select: Selector) -> str:
    """Return a selector in a few words: ``"path encoder/**"``, ``"class Softmax"``, ``"outputs"``."""
    match select:
        case ByPath(pattern):
            return f"path {pattern}"
        case ByClass(name):
            return f"class {name}"
        case ByActivation(name):
            return f"activation {name}"
        case Outputs():
            return "outputs"
        case ActivityRegularized():
            return "activity regularizer"
        case ByPredicate(_, description):
            return f"predicate {description}"


def specificity(select: Selector, layer: LayerDescription) -> Specificity | None:
    """Return how specific a selector is about a layer, or None where it does not select it.

    From most to least: a path (of two, the one that says more about the layer's own name, else about its
    parent's, and so on), a predicate, the model's outputs, an activation, an activity regularizer, a class (of
    two, the one nearer to the layer's own class).

    Raises:
        PolicyError: A predicate raised, or returned neither True nor False.
    """
    match select:
        case ByPath(pattern):
            grades = match_path(pattern, layer.segments)
            return None if grades is None else (6, grades)
        case ByPredicate():
            return (5, ()) if _holds(select, layer) else None
        case Outputs():
            return (4, ()) if any(part.is_output for part in with_owners(layer)) else None
        case ByActivation(name):
            return (3, ()) if layer.activation == name else None
        case ActivityRegularized():
            return (2, ()) if any(part.has_activity_regularizer for part in with_owners(layer)) else None
        case ByClass(name):
            return (1, (-layer.class_names.index(name),)) if name in layer.class_names else None


def with_owners(layer: LayerDescription) -> tuple[LayerDescription, ...]:
    """Return the layer, the layer that it is part of, the one that this is part of, and so on."""
    return (layer,) if layer.owner is None else (layer, *with_owners(layer.owner))


def _holds(select: ByPredicate, layer: LayerDescription) -> bool:
    where = (
        f"the rule for {describe_selector(select)!r}, asked about layer {layer.path!r} ({layer.class_name}),"
    )
    try:
        answer = select.function(layer)
    except Exception as error:
        raise PolicyError(f"{where} raised {type(error).__name__}: {error}") from error
    if answer is True or answer is False:  # only these: a predicate that forgot its return gives None
        return answer
    raise PolicyError(f"{where} returned {answer!r}; a predicate returns True or False")

"""The variables of an optimizer by name, to find each again where another order, or another number, is saved.

Keras saves them by position alone. A name here is what the variable is for, as in ``momentum``, and the path of the
model's variable that it belongs to.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

from mixte._errors import MixteWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

Name = tuple[str, str]
"""What a variable is for, and the path of the model's variable that it belongs to: empty for ``iteration``."""


def names_of(optimizer: Any) -> list[Name]:
    """Return the name of each of ``optimizer.variables``, in their order; no two are equal."""
    paths = {_as_prefix(variable): path_of(variable) for variable in optimizer._trainable_variables}  # noqa: SLF001 - not public
    longest_first = sorted(paths, key=len, reverse=True)
    seen: Counter[Name] = Counter()
    names: list[Name] = []
    for variable in optimizer.variables:
        own = variable.name
        prefix = next((each for each in longest_first if own.startswith(each)), "")
        slot, path = own[len(prefix) :], paths.get(prefix, "")
        seen[slot, path] += 1
        number = seen[slot, path]
        names.append((slot if number == 1 else f"{slot}#{number}", path))
    return names


def assign_by_name(optimizer: Any, names: Sequence[Name], values: Sequence[Any]) -> None:
    """Give an optimizer's variables saved values: each by its name.

    Where the model's variables have other paths than when they were saved, as layers have whose names Keras numbers,
    the order counts, if the variables are for the same and have the same shapes.

    Warns:
        MixteWarning: If variables are not among the saved ones: they keep their values.
    """
    saved = dict(zip(names, values, strict=True))
    own = list(zip(names_of(optimizer), optimizer.variables, strict=True))
    missing = [name for name, variable in own if not _fits(variable, saved.get(name))]
    if missing and [slot for (slot, _), _ in own] == [slot for slot, _ in names] and fit(optimizer, values):
        assign(optimizer.variables, values)
        return
    for name, variable in own:
        if name not in missing:
            variable.assign(saved[name])
    if missing:
        warn_of_missing(optimizer, len(own) - len(missing), missing)


def fit(optimizer: Any, values: Sequence[Any]) -> bool:
    """Tell whether values are as many as an optimizer's variables, and have their shapes, in order."""
    variables = optimizer.variables
    pairs = zip(variables, values, strict=False)
    return len(variables) == len(values) and all(_fits(variable, value) for variable, value in pairs)


def assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Assign values to variables, in order."""
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def warn_of_missing(optimizer: Any, found: int, missing: Sequence[Name]) -> None:
    """Say what of an optimizer's state a checkpoint does not hold."""
    shown = ", ".join(f"{slot} of {path}" if path else slot for slot, path in missing[:3])
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    warnings.warn(
        f"the checkpoint holds, in their shapes, {found} of the {len(optimizer.variables)} variables of the optimizer "
        f"{optimizer.name!r}; missing: {shown}{more}. These keep their values. A checkpoint of the same optimizer with "
        "the same options, for the same model, has all.",
        category=MixteWarning,
        stacklevel=2,
    )


def _fits(variable: Any, value: Any) -> bool:
    return value is not None and tuple(variable.shape) == tuple(value.shape)


def path_of(variable: Any) -> str:
    """Return the path of one of the model's variables."""
    return getattr(variable, "path", None) or variable.name  # a tf.Variable has no path


def _as_prefix(variable: Any) -> str:
    """Return how Keras begins the names of the variables that an optimizer makes for one of the model."""
    return path_of(variable).replace("/", "_").replace(":", "_") + "_"

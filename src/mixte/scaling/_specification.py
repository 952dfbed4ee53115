"""A law as a short text (for the command line) and as a JSON-able dictionary (for configs and records)."""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, fields, replace
from difflib import get_close_matches
from math import frexp
from typing import TYPE_CHECKING, Any, Final

from mixte._errors import InputError
from mixte.scaling._contrib import ContribScale
from mixte.scaling._dynamic import DynamicScale
from mixte.scaling._fixed import FixedScale
from mixte.scaling._hysteresis import HysteresisScale
from mixte.scaling._logmax import LogMaxScale
from mixte.scaling._presets import PRESETS
from mixte.scaling._progan import ProGanScale
from mixte.scaling._underflow import UnderflowScale

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mixte.scaling._law import LossScaleLaw

_LAWS: Final[Mapping[str, type[LossScaleLaw]]] = {
    "fixed": FixedScale,
    "dynamic": DynamicScale,
    "exponential": ContribScale,
    "hysteresis": HysteresisScale,
    "log2": ProGanScale,
    "logmax": LogMaxScale,
    "underflow": UnderflowScale,
}

_SHORT: Final = {"initial": "initial_scale", "min": "min_scale", "max": "max_scale"}
_POWER_OF_TWO = re.compile(r"2(?:\*\*|\^)(-?\d{1,3})")


def parse_law(text: str) -> LossScaleLaw:
    """Build a law from its text.

    The text is a name, or a name, a colon and parameters: ``dynamic``, ``fixed:128``,
    ``dynamic:initial=65536,growth_interval=1000``, ``torch``, ``torch:initial=2^10``, ``none``.

    - The name is a law (``fixed``, ``dynamic``, ``exponential``, ``hysteresis``, ``log2``, ``logmax``,
      ``underflow``), a preset (see ``PRESETS``), or ``none``: scale 1, with the finite check kept.
    - A parameter is a field of the law; ``initial``, ``min`` and ``max`` stand for ``initial_scale``,
      ``min_scale`` and ``max_scale``. A value without a name, first, is the scale.
    - A number may be written as a power of two: ``2^15`` or ``2**15``.

    Raises:
        InputError: If the name or a parameter is unknown (the nearest is suggested), or a value is not allowed.
    """
    name, colon, rest = text.strip().partition(":")
    name = name.strip()
    if name == "none":
        if colon:
            raise InputError(f"loss scale {text!r}: 'none' takes no parameters. Write 'fixed:...' for a scale.")
        return FixedScale(1.0)
    law = _named(name, text)
    items = [item.strip() for item in rest.split(",")] if colon else []
    parameters: dict[str, Any] = {}
    for position, item in enumerate(items):
        field, value = _parameter(law, name, item, first=position == 0)
        if field in parameters:
            raise InputError(f"loss scale {text!r}: {field} is given twice. Give it once.")
        parameters[field] = value
    return replace(law, **parameters) if parameters else law


def format_law(law: LossScaleLaw) -> str:
    """Return a short text from which ``parse_law`` builds an equal law: its name and what is not default.

    A fixed scale always shows its value.

    Example:
        >>> format_law(DynamicScale(2.0**16, growth_interval=1000))
        'dynamic:initial_scale=65536,growth_interval=1000'
    """
    if isinstance(law, FixedScale):
        return f"fixed:{_format_value(law.scale)}"
    changed = [
        f"{field.name}={_format_value(getattr(law, field.name))}"
        for field in _fields(law)
        if getattr(law, field.name) != field.default
    ]
    return _name_of(law) + (":" + ",".join(changed) if changed else "")


def law_to_config(law: LossScaleLaw) -> dict[str, float | int | str]:
    """Return the law as a flat dictionary that JSON can hold: its name under ``"law"``, and every parameter.

    Raises:
        InputError: If the law is not one of this package.
    """
    return {"law": _name_of(law)} | {field.name: getattr(law, field.name) for field in _fields(law)}


def law_from_config(config: Mapping[str, Any]) -> LossScaleLaw:
    """Build the law that ``law_to_config`` described. A parameter that is absent has its default.

    Raises:
        InputError: If ``"law"`` is missing, or a name or value is not allowed.
    """
    name = config.get("law")
    if not isinstance(name, str) or name not in _LAWS:
        raise InputError(
            f"loss-scaling law {name!r} under the key 'law' is unknown."
            f"{_nearest(str(name), _LAWS)} The laws are: {', '.join(_LAWS)}."
        )
    law_class = _LAWS[name]
    parameters = {key: value for key, value in config.items() if key != "law"}
    known = [field.name for field in _fields(law_class)]
    for key in parameters:
        if key not in known:
            raise _unknown_parameter(name, key, known)
    return law_class(**parameters)


def _named(name: str, text: str) -> LossScaleLaw:
    if name in _LAWS:
        return _LAWS[name]()
    if name in PRESETS:
        return PRESETS[name]
    names = ["none", *_LAWS, *PRESETS]
    raise InputError(
        f"unknown loss-scaling law {name!r} in {text!r}.{_nearest(name, names)} "
        f"The laws are: none, {', '.join(_LAWS)}. Other projects' laws are: {', '.join(PRESETS)}."
    )


def _parameter(law: LossScaleLaw, name: str, item: str, *, first: bool) -> tuple[str, Any]:
    """Return the field and the value of one ``key=value``, or of a bare first value."""
    key, equals, value = (part.strip() for part in item.partition("="))
    law_fields = {field.name: field for field in _fields(law)}
    if not equals:
        if not first or not key:
            raise InputError(
                f"{name}: {item!r} is not a parameter. Write parameters as name=value, separated by commas; "
                f"they are: {', '.join(law_fields)}."
            )
        key, value = next(iter(law_fields)), key
    key = _SHORT.get(key, key)
    if key not in law_fields:
        raise _unknown_parameter(name, key, list(law_fields))
    return key, _parse_value(law_fields[key].default, name, key, value)


def _parse_value(default: Any, law: str, key: str, text: str) -> float | int | str:
    """Return the text as a value of the type of the field's default."""
    if isinstance(default, str):
        return text
    power = _POWER_OF_TWO.fullmatch(text)
    try:
        if isinstance(default, int):
            return 2 ** int(power[1]) if power else int(text)
        return 2.0 ** int(power[1]) if power else float(text)
    except ValueError:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise InputError(f"{law}: {key} is {text!r}. It must be {kind}, for example {default:g}.") from None


def _format_value(value: float | str) -> str:
    if not isinstance(value, float):
        return str(value)
    mantissa, exponent = frexp(value)
    if mantissa == 0.5 and not -4 < exponent < 21:  # a power of two too small or too large to read as decimal
        return f"2^{exponent - 1}"
    return str(int(value)) if value.is_integer() and abs(value) < 2.0**53 else str(value)


def _fields(law: LossScaleLaw | type[LossScaleLaw]) -> tuple[Field[Any], ...]:
    """Return the parameters of a law, all of which have defaults."""
    law_fields: tuple[Field[Any], ...] = fields(law)
    return tuple(field for field in law_fields if field.default is not MISSING)


def _name_of(law: LossScaleLaw) -> str:
    for name, law_class in _LAWS.items():
        if type(law) is law_class:
            return name
    raise InputError(
        f"{type(law).__name__} is not a loss-scaling law of mixte, so it has no name to be stored under. "
        f"The laws are: {', '.join(law_class.__name__ for law_class in _LAWS.values())}."
    )


def _unknown_parameter(law: str, key: str, known: list[str]) -> InputError:
    return InputError(f"{law}: unknown parameter {key!r}.{_nearest(key, known)} It has: {', '.join(known)}.")


def _nearest(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, list(names), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""

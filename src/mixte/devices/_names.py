"""Find an accelerator by the name that a driver, a cloud or a person uses for it."""

from __future__ import annotations

import re
from difflib import SequenceMatcher, get_close_matches
from typing import Final

from mixte._errors import InputError
from mixte.devices._device import ComputeCapability, Device
from mixte.devices._table import known_devices
from mixte.devices._tensor_cores import architecture_of

# Words that drivers and shops add to a name, and that tell no two boards of the table apart.
_BRAND_WORDS: Final = frozenset({"nvidia", "tesla", "geforce", "amd", "instinct", "google", "gpu", "graphics"})

_HELP: Final = (
    "`mixte doctor --list-gpus` prints all; the compute capability of an NVIDIA GPU will do too, as in 8.9."
)


def find_device(name: str) -> Device:
    """Return the known accelerator with a name.

    Case, punctuation and the words "NVIDIA", "Tesla", "GeForce", "AMD", "Instinct" and "Google" do not matter:
    ``"Tesla V100-SXM2-16GB"``, ``"v100 sxm2 16gb"`` and ``"NVIDIA V100-SXM2-16GB"`` are one name. A name that
    leaves words out is accepted if only one board fits; ``"V100"``, ``"P100"``, ``"A100"`` and ``"H100"`` mean
    the board that public clouds rent under that name. A compute capability such as ``"8.9"`` stands for an NVIDIA
    GPU of which nothing else is known.

    Raises:
        InputError: No board has that name (the nearest are named), or several could be meant (they are named).
    """
    if re.fullmatch(r"\s*\d+\.\d+\s*", name):
        return _of_capability(ComputeCapability.parse(name))
    exact = match_driver_name(name)
    if exact is not None:
        return exact
    wanted = frozenset(_words(name))
    fitting = [
        device for device in known_devices() if wanted and any(wanted <= key for key in _word_sets(device))
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise InputError(f"{name!r} could be {_either(fitting)}; name one of them")
    raise InputError(f"no GPU called {name!r} is known.{_suggestion(name)}")


def match_driver_name(name: str) -> Device | None:
    """Return the known accelerator whose whole name or alias this is, or None.

    Words that are left over make it another board: "RTX 4090 Laptop GPU" is not an RTX 4090.
    """
    wanted = _compact(name)
    for device in known_devices():
        if wanted in {_compact(known) for known in (device.name, *device.aliases)}:
            return device
    return None


def siblings(device: Device) -> tuple[Device, ...]:
    """Return the other boards that a short name of the device could mean.

    Args:
        device: For example the one found as ``"V100"``.
    """
    family = _family(device)
    return tuple(other for other in known_devices() if other is not device and _family(other) == family)


def _of_capability(capability: ComputeCapability) -> Device:
    return Device(
        name=f"compute capability {capability}",
        vendor="NVIDIA",
        architecture=architecture_of(capability),
        compute_capability=capability,
    )


def _family(device: Device) -> str:
    """The first distinguishing word: ``v100`` for every V100; a board line such as RTX needs its number too."""
    words = _words(device.name)
    return words[0] if any(character.isdigit() for character in words[0]) else " ".join(words)


def _words(name: str) -> list[str]:
    return [word for word in re.findall(r"[a-z0-9]+", name.lower()) if word not in _BRAND_WORDS]


def _word_sets(device: Device) -> list[frozenset[str]]:
    return [frozenset(_words(known)) for known in (device.name, *device.aliases)]


def _compact(name: str) -> str:
    return "".join(_words(name))


def _either(devices: list[Device]) -> str:
    names = [device.name for device in devices]
    if len(names) > 6:
        return f"{', '.join(names[:5])} or one of {len(names) - 5} others"
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _suggestion(name: str) -> str:
    by_compact = {
        _compact(known): device.name for device in known_devices() for known in (device.name, *device.aliases)
    }
    wanted = _compact(name)
    # A typing slip first; then names that share their beginning, so that "V100-SXM2-80GB" finds the V100s.
    near = get_close_matches(wanted, by_compact, n=8, cutoff=0.6)
    near += sorted(
        (key for key in by_compact if _shared_start(key, wanted) >= 2),
        key=lambda key: (-_shared_start(key, wanted), -SequenceMatcher(None, key, wanted).ratio()),
    )
    names = list(dict.fromkeys(by_compact[key] for key in near))[:3]
    if not names:
        return f" {_HELP}"
    return f" The nearest known: {', '.join(names)}. {_HELP}"


def _shared_start(one: str, other: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )

"""Mixed-precision training that can be trusted.

``import mixte`` loads no framework, and little else: the names below are imported when they are first used.
``mixte.keras`` and ``mixte.tensorflow`` need the framework that they are named after.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mixte._errors import (
    InputError as InputError,
    LossScaleError as LossScaleError,
    MissingFrameworkError as MissingFrameworkError,
    MixteError as MixteError,
    MixteWarning as MixteWarning,
    PolicyError as PolicyError,
    ProfileError as ProfileError,
    RecordError as RecordError,
)
from mixte._version import __version__ as __version__

if TYPE_CHECKING:
    from mixte import (
        compare as compare,
        devices as devices,
        formats as formats,
        keras as keras,
        policy as policy,
        profiles as profiles,
        records as records,
        report as report,
        scaling as scaling,
        tensorcore as tensorcore,
        tensorflow as tensorflow,
    )
    from mixte.policy import (
        ByActivation as ByActivation,
        ByClass as ByClass,
        ByPath as ByPath,
        ByPredicate as ByPredicate,
        Outputs as Outputs,
        Policy as Policy,
        Precision as Precision,
        Rule as Rule,
    )
    from mixte.scaling import DynamicScale as DynamicScale, FixedScale as FixedScale

_PACKAGES = (
    "compare",
    "devices",
    "formats",
    "keras",
    "policy",
    "profiles",
    "records",
    "report",
    "scaling",
    "tensorcore",
    "tensorflow",
)
_NAMES = {
    "ByActivation": "policy",
    "ByClass": "policy",
    "ByPath": "policy",
    "ByPredicate": "policy",
    "DynamicScale": "scaling",
    "FixedScale": "scaling",
    "Outputs": "policy",
    "Policy": "policy",
    "Precision": "policy",
    "Rule": "policy",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"mixte.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(f"mixte.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'mixte' has no attribute {name!r}")


def __dir__() -> list[str]:
    # Not what happens to be imported by now: what is there to be used.
    errors = [name for name in globals() if name.endswith(("Error", "Warning"))]
    return sorted(["__version__", *_PACKAGES, *_NAMES, *errors])

"""Mixed-precision training that can be trusted.

``import mixte`` loads no framework. ``mixte.keras`` and ``mixte.tensorflow`` are imported on first use, and
need the framework that they are named after.
"""

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

"""The exception tree. Every error that a user can meet says what was received, what is allowed, what to do."""

from __future__ import annotations


class MixteError(Exception):
    """Base of every error raised by mixte.

    The command line prints the message of one in a single paragraph, without a traceback.
    """


class MixteWarning(UserWarning):
    """Something that trains, but not as it should: says what and what to do. ``mixte run`` records it."""


class InputError(MixteError, ValueError):
    """A value, name, file or option that mixte cannot work with."""


class PolicyError(InputError):
    """A precision policy, or the file that holds one, is wrong."""


class RecordError(InputError):
    """A run record is missing, unreadable, or of another schema version."""


class ProfileError(InputError):
    """A profile is not readable: unknown format, truncated, or one that must be exported first."""


class LossScaleError(MixteError):
    """Loss scaling is set up in a way that would train wrongly."""


class MissingFrameworkError(MixteError, ImportError):
    """A framework that the call needs is not installed."""

    @classmethod
    def for_extra(cls, framework: str, extra: str) -> MissingFrameworkError:
        """Build the error that names the extra to install.

        Args:
            framework: The framework's name as users know it, for example ``"TensorFlow"``.
            extra: The extra of the distribution ``mixte`` that brings it, for example ``"tensorflow"``.
        """
        return cls(f"{framework} is not installed. Install it with: pip install 'mixte[{extra}]'")

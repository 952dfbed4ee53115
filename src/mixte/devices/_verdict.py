"""The verdict on one precision on one device, with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal

Precision = Literal["float32", "tf32", "float16", "bfloat16", "float8"]
PolicyName = Literal["mixed_float16", "mixed_bfloat16"]

PRECISIONS: Final[tuple[Precision, ...]] = ("float32", "tf32", "float16", "bfloat16", "float8")
POLICIES: Final[tuple[PolicyName, ...]] = ("mixed_float16", "mixed_bfloat16")


class Verdict(Enum):
    """How well a device does with a precision.

    A precision is judged by the device's arithmetic, a policy by whole trainings as the frameworks run them.
    The two can differ: a P100 multiplies float16 vectors twice as fast as float32, but training libraries
    compute in float32 there, so that the policy ``mixed_float16`` gains nothing.
    """

    FAST = "fast"
    """A precision: the device computes in it at least as fast as in float32. A policy: training gains from it."""

    SLOW = "slow"
    """It runs, but slower than float32; for a policy, also no faster than float32."""

    IMPOSSIBLE = "impossible"
    """The device has no such arithmetic, and nothing stands in for it."""

    UNKNOWN = "unknown"
    """Nothing reliable is known; measure it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """What a device can do in one precision or under one policy.

    Attributes:
        subject: The precision or the policy.
        verdict: How well.
        reason: Why, in one sentence without a full stop.
        advice: What to do about it, in full sentences; None where there is nothing to do.
    """

    subject: Precision | PolicyName
    verdict: Verdict
    reason: str
    advice: str | None = None

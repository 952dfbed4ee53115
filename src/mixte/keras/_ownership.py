"""Which scaler scales an optimizer's loss: one optimizer has one."""

from __future__ import annotations

import weakref
from typing import Any

_MARK = "_mixte_wrapped_by"


def scaled_by(optimizer: Any) -> Any:
    """Return the loss-scaling optimizer or the scaler that an optimizer belongs to; None if it is free."""
    reference = getattr(optimizer, _MARK, None)
    return None if reference is None else reference()


def claim(optimizer: Any, owner: Any) -> None:
    """Note that an optimizer, and those inside a ``MultiOptimizer``, belong to a scaler as long as it lives."""
    for each in (optimizer, *getattr(optimizer, "optimizers", ())):
        object.__setattr__(each, _MARK, weakref.ref(owner))  # TensorFlow's optimizers track what is set plainly


def release(optimizer: Any) -> None:
    """Let an optimizer go, to be used alone or wrapped anew."""
    for each in (optimizer, *getattr(optimizer, "optimizers", ())):
        object.__setattr__(each, _MARK, None)

"""Seed every source of random numbers the moment that a script imports it."""

from __future__ import annotations

import random
import sys

from mixte._errors import InputError
from mixte.cli._import_hook import around_import

_LARGEST = 2**32 - 1  # of numpy's global generator, the narrowest


def check_seed(seed: int | None) -> None:
    """Check a seed from the command line.

    Raises:
        InputError: It is out of range.
    """
    if seed is not None and not 0 <= seed <= _LARGEST:
        raise InputError(f"--seed {seed} is out of range: give a whole number from 0 to {_LARGEST}.")


def seed_everything(seed: int) -> None:
    """Seed Python now, and numpy, TensorFlow and PyTorch when they are imported, if they are.

    Keras, on every backend, draws its own seeds from Python's ``random``. Its ``set_random_seed`` is not called,
    because that imports TensorFlow whatever the backend.
    """
    random.seed(seed)
    around_import("numpy", after=lambda: sys.modules["numpy"].random.seed(seed))
    around_import("tensorflow", after=lambda: sys.modules["tensorflow"].random.set_seed(seed))
    around_import("torch", after=lambda: sys.modules["torch"].manual_seed(seed))

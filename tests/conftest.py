"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parent.parent.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of reference data beside the repository: real profiles, recorded results, published speeds."""
    if SHARED.is_dir():
        return SHARED
    if os.environ.get("MIXTE_REQUIRE_SHARED") == "1":
        pytest.fail(f"{SHARED} is missing and MIXTE_REQUIRE_SHARED=1 forbids a skip")
    pytest.skip(f"the reference data folder {SHARED} is not here")

"""The examples in the docstrings run as written."""

from __future__ import annotations

import doctest
import importlib

import pytest

import mixte.scaling

MODULES = ["_dynamic", "_fixed", "_simulation", "_specification", "_stopping"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_written(name: str) -> None:
    module = importlib.import_module(f"mixte.scaling.{name}")
    results = doctest.testmod(module, extraglobs=vars(mixte.scaling))
    assert results.attempted > 0
    assert results.failed == 0

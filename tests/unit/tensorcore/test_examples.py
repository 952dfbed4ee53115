"""The examples in the docstrings run as written."""

from __future__ import annotations

import doctest
import importlib

import pytest

import mixte.tensorcore

MODULES = ["_matmul", "_units"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_written(name):
    module = importlib.import_module(f"mixte.tensorcore.{name}")
    results = doctest.testmod(module, extraglobs=vars(mixte.tensorcore))
    assert results.attempted > 0
    assert results.failed == 0

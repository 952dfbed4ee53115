"""The examples in the docstrings run as written."""

from __future__ import annotations

import doctest
import importlib

import pytest

import mixte.formats

MODULES = ["_array", "_block", "_codes", "_float", "_table"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_written(name):
    module = importlib.import_module(f"mixte.formats.{name}")
    results = doctest.testmod(module, extraglobs=vars(mixte.formats))
    assert results.attempted > 0
    assert results.failed == 0

"""The examples in the docstrings run as written."""

from __future__ import annotations

import doctest
import importlib

import pytest
import tensorflow as tf

import mixte.scaling
import mixte.tensorflow

MODULES = ["_getter", "_loss_scale_optimizer", "_loss_scaler", "_storage"]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_written(name: str) -> None:
    module = importlib.import_module(f"mixte.tensorflow.{name}")
    names = {"tf": tf} | vars(mixte.scaling) | vars(mixte.tensorflow)
    results = doctest.testmod(module, extraglobs=names)
    assert results.attempted > 0
    assert results.failed == 0

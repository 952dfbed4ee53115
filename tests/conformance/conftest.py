"""Conformance: the same tests on each backend, as ``KERAS_BACKEND=tensorflow|jax|torch pytest tests/conformance``."""

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Most of these tests compile a small model and run it a few times: XLA's passes stay as they are, and what is left to
# LLVM is done in half of the time.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

keras = pytest.importorskip("keras", reason="Keras is not installed")

from mixte.keras._framework import BACKEND  # noqa: E402 - not before the check above


@pytest.fixture(autouse=True)
def _fresh_keras():
    """Give every test Keras's defaults: names from the start, seed 0, the float32 policy."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
    keras.config.set_dtype_policy("float32")
    yield
    assert keras.config.dtype_policy().name == "float32", "the test left a global dtype policy behind"


def pytest_report_header():
    return f"Keras {keras.__version__} on {BACKEND}"

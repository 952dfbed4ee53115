"""What the tests of the readers share."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from mixte.profiles import read_profile


@pytest.fixture(scope="session")
def seeded():
    """A generator of random numbers that gives the same ones in every run."""

    def generator(seed: object) -> random.Random:
        return random.Random(str(seed))  # noqa: S311 - reproducible, not secret

    return generator


@pytest.fixture
def profile_of(tmp_path):
    """Writes a file and reads it as a profile."""

    def build(content: str | bytes, name: str = "profile"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return read_profile(path)

    return build


@pytest.fixture(scope="session")
def xplane_pb2():
    """TensorFlow's generated messages, loaded from their file: importing TensorFlow would take seconds."""
    pytest.importorskip("google.protobuf")
    package = importlib.util.find_spec("tensorflow")
    if package is None or not package.submodule_search_locations:
        pytest.skip("TensorFlow, whose messages are the oracle, is not installed")
    file = Path(package.submodule_search_locations[0]) / "tsl/profiler/protobuf/xplane_pb2.py"
    spec = importlib.util.spec_from_file_location("xplane_pb2", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

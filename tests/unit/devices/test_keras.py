"""Keras's version and backend are found in Keras's own order."""

from __future__ import annotations

import json

import pytest

from mixte.devices._keras import installed_keras


@pytest.fixture
def find(installed):
    return installed({"keras": "3.15.1"})


def test_the_environment_variable_wins(find, tmp_path) -> None:
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "torch"}))
    keras = installed_keras(find, {"KERAS_BACKEND": "jax", "KERAS_HOME": str(tmp_path)})
    assert keras is not None
    assert (keras.version, keras.backend, keras.backend_from) == ("3.15.1", "jax", "KERAS_BACKEND")


@pytest.mark.parametrize("where", ["KERAS_HOME", "HOME"])
def test_the_settings_file_comes_second(find, tmp_path, where: str) -> None:
    directory = tmp_path if where == "KERAS_HOME" else tmp_path / ".keras"
    directory.mkdir(exist_ok=True)
    (directory / "keras.json").write_text(json.dumps({"floatx": "float32", "backend": "torch"}))
    keras = installed_keras(find, {where: str(tmp_path)})
    assert keras is not None
    assert (keras.backend, keras.backend_from) == ("torch", str(directory / "keras.json"))


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"backend": 3}'])
def test_without_usable_settings_it_is_tensorflow(find, tmp_path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "keras.json").write_text(text)
    keras = installed_keras(find, {"KERAS_HOME": str(tmp_path)})
    assert keras is not None
    assert (keras.backend, keras.backend_from) == ("tensorflow", "default")


def test_no_keras_is_none(installed) -> None:
    assert installed_keras(installed({}), {"KERAS_BACKEND": "jax"}) is None

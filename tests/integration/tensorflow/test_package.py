"""What importing the package does, and does not, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = None
try:
    import mixte.tensorflow
except ImportError as error:
    print(type(error).__name__, error)
"""

KERAS_IMPORTERS = """
import builtins, sys
importers = set()
original = builtins.__import__
def spy(name, globals=None, *arguments, **named):
    if name.split(".")[0] in {"keras", "tf_keras"} and globals and globals["__name__"].startswith("mixte"):
        importers.add(globals["__name__"])
    return original(name, globals, *arguments, **named)
builtins.__import__ = spy
import mixte.tensorflow
print(sorted(importers))
"""

TWO_REPLICAS = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from mixte import MixteError
from mixte.tensorflow import LossScaler, float32_variable_storage
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    try:
        with float32_variable_storage():
            tf.Variable(1.0)
    except MixteError as error:
        print(type(error).__name__, error)
    weight, scaler = tf.Variable(1.0), LossScaler()
def step():
    scaler.scale(weight * 1.0)
    scaler.step([tf.constant(1.0)], lambda gradients: None)
try:
    strategy.run(step)
except MixteError as error:
    print(type(error).__name__, error)
"""


def output_of(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_missing_tensorflow_names_the_extra() -> None:
    assert output_of(WITHOUT_TENSORFLOW).strip() == (
        "MissingFrameworkError TensorFlow is not installed. Install it with: pip install 'mixte[tensorflow]'"
    )


def test_package_itself_never_imports_keras() -> None:
    assert output_of(KERAS_IMPORTERS).strip() == "[]"


def test_several_replicas_are_refused_with_a_reason() -> None:
    storage, scaler = output_of(TWO_REPLICAS).strip().splitlines()
    assert storage.startswith("InputError")
    assert "more than one replica" in storage
    assert scaler.startswith("LossScaleError")
    assert "Each replica would decide alone" in scaler

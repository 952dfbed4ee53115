"""What is mended in the library is mended for an unchanged script under ``mixte run``, too."""

import json
import os
import subprocess
import sys

from mixte.keras._framework import BACKEND

SCRIPT = """
import json

import keras
import numpy as np
from keras import layers, ops

policies = keras.dtype_policies.DTypePolicyMap()  # D14
policies["some"] = keras.DTypePolicy("mixed_float16")
policies.get_config()


def dice(y, y_pred):  # D18
    return 2 * ops.sum(y * y_pred) / (ops.sum(y + y_pred) ** 2 + 1)


def build():
    x = layers.Input((4, 4, 1))
    y = layers.Conv2D(2, 1, activation="relu", name="first")(x)
    y = layers.UpSampling2D(interpolation="bilinear", name="up")(y)  # D20
    y = layers.Reshape((64, 2), name="flat")(y)
    if keras.backend.backend() == "torch":
        import torch

        y = layers.TorchModuleWrapper(torch.nn.Linear(2, 2), output_shape=(None, 64, 2), name="module")(y)  # D21
    y = layers.Dense(2, activity_regularizer=keras.regularizers.L2(1e-6), name="penalised")(y)  # D19
    return keras.Model(x, layers.Dense(1, name="out")(y))


keras.utils.set_random_seed(0)
model = build()
model.compile("sgd", loss="mse", metrics=[dice], jit_compile=keras.backend.backend() != "torch")
history = model.fit(
    np.full((2, 4, 4, 1), 100.0, "float32"), np.zeros((2, 64, 1), "float32"), batch_size=2, verbose=0
)

attention = layers.Attention()  # D17
hidden = attention([np.ones((1, 1, 1)), np.array([[[1.0], [3.0]]])], mask=[None, np.zeros((1, 2), bool)])
print(
    json.dumps(
        {
            "some": policies["some"].name,
            "finite": bool(np.isfinite([values[0] for values in history.history.values()]).all()),
            "metrics": sorted(history.history),
            "hidden": float(ops.convert_to_numpy(hidden).item()),
            "attention": attention.compute_dtype,
            "dtypes": {layer.name: layer.compute_dtype for layer in model.layers[1:]},
        }
    )
)
"""


def test_D14_D17_D18_D19_D20_D21_are_mended_in_a_script_under_mixte_run(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "mixte", "run", "--policy", "mixed_float16"]

    ended = subprocess.run(
        [*command, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KERAS_BACKEND": BACKEND, "COLUMNS": "80"},
        timeout=240,
    )

    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    module = {"module": "float32"} if BACKEND == "torch" else {}
    assert found == {
        "some": "mixed_float16",
        "finite": True,
        "metrics": ["dice", "loss"],
        "hidden": 2.0,
        "attention": "float16",
        "dtypes": {
            "first": "float16",
            "up": "float32",
            "flat": "float16",
            "penalised": "float32",
            "out": "float32",
        }
        | module,
    }

"""A training prints and computes under ``mixte run`` what it prints and computes under ``python``."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Ended

SCRIPT = """
    import hashlib, os, random, sys
    import keras
    import numpy as np

    random.seed(3)  # from which Keras draws its own
    np.random.seed(3)
    x, y = np.random.rand(64, 8).astype("float32"), np.random.rand(64, 1).astype("float32")
    inputs = keras.Input((8,))
    hidden = keras.layers.Dropout(0.5)(keras.layers.Dense(4, activation="relu")(inputs))
    model = keras.Model(inputs, keras.layers.Dense(1, name=input())(hidden))  # a line from standard input
    model.compile("adam", loss="mse", metrics=["mae"])
    model.summary()
    history = model.fit(x, y, epochs=3, batch_size=16, validation_split=0.25, verbose=0)
    print(history.history, model.evaluate(x, y, verbose=0), model.train_on_batch(x, y))
    print(hashlib.sha256(b"".join(w.tobytes() for w in model.get_weights())).hexdigest())
    print(type(model.optimizer), keras.config.dtype_policy(), model.optimizer.get_config())
    model.save("model.keras")
    print(len(os.listdir(".")) >= 2, "to stderr", file=sys.stderr)
    print("prints after training")
    keras.models.load_model("model.keras").fit(x, y, verbose=0)
    model.fit(x, y[:3], verbose=0)
    """


def test_a_training_prints_computes_and_fails_as_under_python(
    run_twice: Callable[..., tuple[Ended, Ended]],
) -> None:
    plain, ours = run_twice(dedent(SCRIPT).lstrip(), text_in="named\n", variables={"KERAS_BACKEND": "jax"})
    assert "prints after training\n" in plain.stdout
    assert ours.stdout == plain.stdout
    assert ours.returncode == plain.returncode == 1  # the last line of the script is wrong
    error = plain.stderr[plain.stderr.index("Traceback (most recent call last):") :]
    assert error in ours.stderr  # the same exception, with the same frames
    assert ours.record.status == "failed"
    assert len(ours.record.steps) == 3 * 3 + 1 + 2  # two fits and a train_on_batch; the failed fit had none
    assert ours.record.run.optimizers[0].loss_scale == "none"

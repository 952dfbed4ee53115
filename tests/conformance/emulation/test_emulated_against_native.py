"""Emulated float16 trains as native float16 does, where a processor has that: on TensorFlow.

The yardstick of a loss curve is the seed: with the same seed, native and emulated curves must be closer to each other
than two seeds are. Native float16 on a processor is slow, so that the models are tiny.
"""

import numpy as np
import pytest

import mixte.keras
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale

keras = pytest.importorskip("keras")
datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
layers = keras.layers

pytestmark = pytest.mark.skipif(
    BACKEND != "tensorflow", reason="native float16 runs on processors on TensorFlow only"
)

STEPS, BATCH = 24, 16


def cnn():
    return [
        keras.Input((64,)),
        layers.Reshape((8, 8, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(10),
    ]


def mlp():
    return [
        keras.Input((64,)),
        layers.Dense(32, activation="relu"),
        layers.Dense(32, activation="gelu"),
        layers.Dense(10),
    ]


class Block(layers.Layer):
    """A transformer block, written as users write them: with operators between layers."""

    def __init__(self):
        super().__init__()
        self.before, self.between = layers.LayerNormalization(), layers.LayerNormalization()
        self.attention = layers.MultiHeadAttention(2, 8)
        self.wide, self.narrow = layers.Dense(32, activation="gelu"), layers.Dense(16)

    def call(self, x):
        y = self.before(x)
        x = x + self.attention(y, y)
        return x + self.narrow(self.wide(self.between(x)))


def transformer():
    return [
        keras.Input((64,)),
        layers.Reshape((8, 8)),
        layers.Dense(16),
        Block(),
        layers.GlobalAveragePooling1D(),
        layers.Dense(10),
    ]


def digits():
    images, labels = datasets.load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


def train(build, *, seed, emulate, law=256.0, scale_of_data=1.0):
    """Train for some steps; return the losses and the scaler's state."""
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(seed)
    with mixte.keras.use("mixed_float16", law=law, emulate=emulate):
        model = keras.Sequential(build())
    model.compile(keras.optimizers.SGD(0.02), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images, labels = digits()
    losses = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        model.reset_metrics()
        losses.append(float(model.train_on_batch(images[part] * np.float32(scale_of_data), labels[part])))
    return np.array(losses), model.optimizer.read_state()


@pytest.mark.parametrize("build", [cnn, mlp, transformer])
def test_the_loss_curve_is_that_of_native_float16_within_the_noise_of_the_seed(build):
    native, _ = train(build, seed=1, emulate=None)
    emulated, _ = train(build, seed=1, emulate="volta")
    other_seed, _ = train(build, seed=2, emulate="volta")

    assert np.isfinite(native).all()
    noise = np.abs(other_seed - emulated).mean()
    assert np.abs(native - emulated).mean() < noise / 10


@pytest.mark.parametrize("build", [cnn, mlp, transformer])
def test_forced_overflows_are_skipped_at_the_same_steps(build):
    """From a scale at which every gradient overflows, with a growth interval that overflows again and again."""
    law = DynamicScale(2.0**26, growth_interval=4, max_scale=2.0**30)
    _, native = train(build, seed=1, emulate=None, law=law)
    _, emulated = train(build, seed=1, emulate="volta", law=law)

    assert emulated.counters["skipped"] >= 5
    assert emulated.counters == native.counters
    assert emulated.history == native.history


def test_a_training_that_overflows_without_a_law_to_avoid_it_stands_still_in_both():
    """Fixed at 2^26 every step overflows: nothing is ever applied, natively or emulated."""
    law = mixte.FixedScale(2.0**26)
    native, native_state = train(mlp, seed=1, emulate=None, law=law)
    emulated, emulated_state = train(mlp, seed=1, emulate="volta", law=law)

    assert native_state.counters["applied"] == emulated_state.counters["applied"] == 0
    np.testing.assert_allclose(emulated, native, rtol=2**-9)  # float16 activations, each within half a unit


def test_gradients_that_underflow_reach_no_float16_layer_in_either_and_all_with_loss_scaling():
    """A loss times 2^-30, with a learning rate times 2^30, is the same training, if the gradients survive."""

    def moved(*, emulate, law):
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(1)
        with mixte.keras.use("mixed_float16", law=law, emulate=emulate):
            model = keras.Sequential(mlp())
        entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.SGD(0.1 * 2.0**30), loss=lambda t, y: entropy(t, y) * 2.0**-30)
        before = [w.copy() for w in model.layers[0].get_weights()]
        images, labels = digits()
        model.train_on_batch(images[:64], labels[:64])
        return [
            not np.array_equal(old, new) for old, new in zip(before, model.layers[0].get_weights(), strict=True)
        ]

    for emulate in (None, "volta"):
        assert moved(emulate=emulate, law=mixte.FixedScale(1.0)) == [False, False]
        assert moved(emulate=emulate, law=mixte.FixedScale(2.0**30)) == [True, True]

"""Emulated layers round where mixed precision rounds: against numpy's conversion from float64, bit for bit.

A product of two float16 numbers has at most 22 significant bits and is exact in float32, so that one rounding from
float64 is what an emulated layer must give. The tests compile: ``predict_on_batch`` and ``train_on_batch`` run in the
backend's compiled step, where a compiler could take conversions out.
"""

import numpy as np
import pytest

import mixte.keras
from mixte.formats import round_to

keras = pytest.importorskip("keras")

FORMATS = {"float16": ("mixed_float16", "volta"), "bfloat16": ("mixed_bfloat16", "ampere")}


def spread(rng, size, *, exponents):
    """Return normally distributed numbers times powers of two, with zeros and infinities among them."""
    values = rng.standard_normal(size) * 2.0 ** rng.integers(*exponents, size)
    values[:3] = [0.0, -0.0, np.inf]
    return values.astype(np.float32)


def one_weight(policy, arch, weight, *, trainable=True):
    """Return an emulated model that multiplies by one weight, with float32 layers around it."""
    inputs = keras.Input((1,), dtype="float32")
    product = keras.layers.Dense(1, use_bias=False, name="product", trainable=trainable)(inputs)
    outputs = keras.layers.Activation("linear", dtype="float32", name="out")(product)
    model = keras.Model(inputs, outputs)
    model.get_layer("product").set_weights([np.float32([[weight]])])
    mixte.keras.emulate(model, policy, arch=arch)
    return model


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("weight", [1.0, 0.1, 3.3, -700.0, 2.0**-14])
def test_operands_and_results_are_rounded_once_each_with_true_overflow(dtype, weight):
    policy, arch = FORMATS[dtype]
    x = spread(np.random.default_rng(1), 4000, exponents=(-26, 18))

    y = one_weight(policy, arch, weight).predict_on_batch(x[:, None])[:, 0]

    operand, factor = (round_to(np.float64(v), dtype) for v in (x, np.float32([weight])))
    expected = round_to(operand * factor, dtype).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(y, np.float32), expected)
    assert np.isinf(expected[2])


@pytest.mark.parametrize("dtype", FORMATS)
def test_gradients_of_results_inputs_and_weights_are_rounded(dtype):
    policy, arch = FORMATS[dtype]
    inputs = keras.Input((1,))
    hidden = keras.layers.Dense(1, use_bias=False, name="first")(inputs)
    hidden = keras.layers.Dense(1, use_bias=False, name="second", trainable=False)(hidden)
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(hidden))
    model.get_layer("first").set_weights([np.zeros((1, 1), np.float32)])
    model.get_layer("second").set_weights([np.float32([[0.7]])])
    mixte.keras.emulate(model, policy, arch=arch)
    # The loss is y * target, so that target is the gradient of y; SGD at rate 1 leaves minus the gradient in a weight
    # that was 0.
    model.compile(keras.optimizers.SGD(1.0), loss=lambda target, y: y * target, auto_scale_loss=False)

    for target, x in [(0.3, 1.7), (1000.3, 90.1), (3e-5, 1e-3), (-0.123, 5.0)]:
        model.get_layer("first").set_weights([np.zeros((1, 1), np.float32)])
        model.train_on_batch(np.float32([[x]]), np.float32([[target]]))
        (found,) = model.get_layer("first").get_weights()

        dy, w, x16 = (round_to(np.float64(v), dtype) for v in np.float32([target, 0.7, x]))
        expected = round_to(round_to(dy * w, dtype) * x16, dtype)
        assert found[0, 0] == -np.float32(expected)


def test_an_overflowing_gradient_is_infinite():
    model = one_weight("mixed_float16", "volta", 0.0)
    model.compile(keras.optimizers.SGD(1.0), loss=lambda target, y: y * target, auto_scale_loss=False)

    model.train_on_batch(np.float32([[300.0]]), np.float32([[300.0]]))

    assert model.get_layer("product").get_weights()[0][0, 0] == -np.inf


@pytest.mark.parametrize("build", ["dense", "einsum", "conv", "matmul", "operator", "attention"])
def test_products_accumulate_in_float32(build):
    """2048 + 2049 ones: float16 accumulation would stop at 2048, where 1 is half a unit and rounds to even."""
    count = 4097
    x = np.ones((2, 1, count), np.float32)
    inputs = keras.Input((1, count))

    class Raw(keras.layers.Layer):
        def call(self, x):
            y = keras.ops.transpose(x, (0, 2, 1))
            return x @ y if build == "operator" else keras.ops.matmul(x, y)

    layer = {
        "dense": lambda: keras.layers.Dense(1, use_bias=False, kernel_initializer="ones"),
        "einsum": lambda: keras.layers.EinsumDense("abc,cd->abd", (1, 1), kernel_initializer="ones"),
        "conv": lambda: keras.layers.Conv1D(1, 1, use_bias=False, kernel_initializer="ones"),
        "attention": lambda: keras.layers.Dot((2, 2)),
    }.get(build, Raw)()
    product = layer([inputs, inputs]) if build == "attention" else layer(inputs)
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(product))
    policy = mixte.Policy("mixed_float16", [mixte.Rule(mixte.ByClass("Activation"), "float32", "read it")])
    mixte.keras.emulate(model, policy, arch="volta")

    assert np.asarray(model.predict_on_batch(x)).ravel().tolist() == [4096.0, 4096.0]


def test_sums_over_a_batch_accumulate_in_float32():
    """The gradient of a bias is a sum: 20,000 x 0.01, which float16 accumulation of a processor makes 128."""
    inputs = keras.Input((2,))
    hidden = keras.layers.Dense(2, kernel_initializer="zeros", trainable=True)(inputs)
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(hidden))
    mixte.keras.emulate(model, "mixed_float16", arch="volta")
    model.compile(
        keras.optimizers.SGD(1.0),
        loss=lambda t, y: 20000 * keras.ops.mean(y * t, axis=-1),
        auto_scale_loss=False,
    )

    model.train_on_batch(np.zeros((20000, 2), np.float32), np.full((20000, 2), 0.02, np.float32))

    # The exact sum is 20000 x float16(0.01) = 200.043. Its neighbours in float16 are 200 and 200.125; a tree of
    # partial sums may round to either.
    bias = model.layers[1].get_weights()[1]
    assert np.abs(bias + 200.043).max() < 0.125


def test_a_float32_layer_is_left_as_it_is():
    x = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    before = model.predict_on_batch(x)

    emulated = mixte.keras.emulate(model, "mixed_float16", arch="volta")  # an output: float32 by a safeguard

    assert emulated.formats == {}
    np.testing.assert_array_equal(model.predict_on_batch(x), before)

"""Exact layers compute what ``mixte.tensorcore.matmul`` does, which is held against recorded results of real GPUs."""

import warnings

import numpy as np
import pytest

import mixte.keras
from mixte.tensorcore import matmul

keras = pytest.importorskip("keras")

RNG = np.random.default_rng(7)


def float16(*shape):
    return RNG.standard_normal(shape).astype(np.float16).astype(np.float32)


def exact_model(layer, shape, *, arch="volta"):
    inputs = keras.Input(shape)
    layer.name = "exact"
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32", name="out")(layer(inputs)))
    weights = [float16(*w.shape) for w in layer.get_weights()]
    layer.set_weights(weights)
    emulated = mixte.keras.emulate(model, "mixed_float16", arch=arch, exact=["exact"])
    assert emulated.formats["exact"] == "float16 exact"
    return model, weights


@pytest.mark.parametrize("arch", ["volta", "ampere", "hopper"])
def test_a_dense_layer_multiplies_as_the_architecture_does(arch):
    model, (kernel,) = exact_model(keras.layers.Dense(5, use_bias=False), (300,), arch=arch)
    x = float16(4, 300)

    y = model.predict_on_batch(x)

    np.testing.assert_array_equal(y, matmul(x, kernel, arch=arch).astype(np.float16))


def test_the_gradient_of_the_weights_is_such_a_product_too():
    model, (kernel,) = exact_model(keras.layers.Dense(3, use_bias=False), (4,))
    model.compile(
        keras.optimizers.SGD(1.0),
        loss=lambda t, y: keras.ops.sum(y * t, axis=-1) * 200.0,
        auto_scale_loss=False,
    )
    model.get_layer("exact").set_weights([np.zeros_like(kernel)])
    x, target = float16(200, 4), float16(200, 3)

    model.train_on_batch(x, target)  # the loss is the mean over 200 samples

    (found,) = model.get_layer("exact").get_weights()
    np.testing.assert_array_equal(-found, matmul(x.T, target, arch="volta").astype(np.float16))


@pytest.mark.parametrize(
    ("equation", "shape", "inputs"),
    [
        ("abc,cd->abd", (6, 3), (6, 40)),
        ("abc,cde->abde", (6, 2, 3), (6, 40)),
        ("abc,bcd->abd", (6, 3), (6, 40)),
    ],
)
def test_an_einsum_is_the_same_batch_of_products(equation, shape, inputs):
    model, (kernel,) = exact_model(keras.layers.EinsumDense(equation, shape), inputs)
    x = float16(2, *inputs)

    y = model.predict_on_batch(x)

    if equation == "abc,bcd->abd":
        expected = matmul(x[:, :, None, :], kernel, arch="volta")[:, :, 0]
    else:
        expected = matmul(x, kernel.reshape(40, -1), arch="volta").reshape(2, *shape)
    np.testing.assert_array_equal(y, expected.astype(np.float16))


def test_a_convolution_sums_over_the_window_and_then_the_channels():
    model, (kernel,) = exact_model(keras.layers.Conv2D(3, 2, strides=2, use_bias=False), (5, 4, 6))
    x = float16(2, 5, 4, 6)

    y = model.predict_on_batch(x)

    expected = np.zeros((2, 2, 2, 3), np.float32)
    for n, i, j in np.ndindex(2, 2, 2):
        patch = x[n, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :].reshape(1, -1)
        expected[n, i, j] = matmul(patch, kernel.reshape(-1, 3), arch="volta")[0]
    np.testing.assert_array_equal(y, expected.astype(np.float16))


@pytest.mark.parametrize("padding", ["valid", "same"])
@pytest.mark.parametrize(("strides", "dilation", "groups"), [(1, 1, 1), (2, 1, 1), (3, 1, 2), (1, 2, 1)])
def test_gradients_of_convolutions_are_those_of_the_backend(padding, strides, dilation, groups):
    """With small whole numbers every sum is exact, so that the order of summation cannot matter."""
    results = []
    for exact in ((), ("first", "second")):
        keras.utils.set_random_seed(0)
        rng = np.random.default_rng(0)
        inputs = keras.Input((9, 7, 2))
        settings = {"strides": strides, "dilation_rate": dilation, "padding": padding, "groups": groups}
        x = keras.layers.Conv2D(4, (3, 2), **settings, name="first")(inputs)
        x = keras.layers.Conv2D(2, 2, padding="same", name="second")(x)
        model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(x))
        model.set_weights([rng.integers(-2, 3, w.shape) for w in model.get_weights()])
        mixte.keras.emulate(model, "mixed_float16", arch="volta", exact=exact)
        model.compile(
            keras.optimizers.SGD(1.0),
            loss=lambda t, y: keras.ops.sum(y * t, axis=(1, 2, 3)) * 2.0,
            auto_scale_loss=False,
        )
        model.train_on_batch(
            rng.integers(-2, 3, (2, 9, 7, 2)).astype(np.float32),
            rng.integers(-2, 3, (2, *model.output_shape[1:])).astype(np.float32),
        )
        results.append(model.get_weights())

    for exact, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(exact, plain)


def test_a_recurrent_layer_takes_its_products_one_by_one():
    model, weights = exact_model(keras.layers.SimpleRNN(3, activation="linear", use_bias=False), (2, 100))
    x = float16(2, 2, 100)

    y = model.predict_on_batch(x)

    kernel, recurrent = weights
    first = matmul(x[:, 0], kernel, arch="volta").astype(np.float16)
    state = matmul(first.astype(np.float32), recurrent, arch="volta").astype(np.float16)
    expected = matmul(x[:, 1], kernel, arch="volta").astype(np.float16) + state
    np.testing.assert_array_equal(y, expected)


def test_what_the_model_does_not_cover_is_said():
    model, _ = exact_model(keras.layers.DepthwiseConv2D(2, use_bias=False), (4, 4, 2))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict_on_batch(float16(1, 4, 4, 2))

    said = [str(warning.message) for warning in caught if warning.category is mixte.MixteWarning]
    assert any("depthwise_conv is not covered" in text for text in said)

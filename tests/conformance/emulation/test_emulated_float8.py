"""Dense layers in float8: against ``mixte.formats.round_to``, which is held against ml_dtypes and gfloat."""

import numpy as np
import pytest

import mixte.keras
from mixte.formats import round_to
from mixte.keras._emulation_float8 import scaled_round

keras = pytest.importorskip("keras")

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


@pytest.mark.parametrize("name", LARGEST)
@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1.0, 7e4])
def test_a_tensor_is_rounded_with_its_own_scale(name, factor):
    x = np.random.default_rng(0).standard_normal(5000).astype(np.float32) * np.float32(factor)

    found = np.asarray(
        keras.ops.convert_to_numpy(scaled_round(keras.ops.convert_to_tensor(x), name, LARGEST[name]))
    )

    scale = np.float32(LARGEST[name]) / np.abs(x).max()
    np.testing.assert_array_equal(found, round_to(x * scale, name) * (np.float32(1) / scale))
    assert np.isclose(np.abs(found).max(), np.abs(x).max(), rtol=2**-22)  # three roundings of float32


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_stays_so(bad):
    x = np.float32([1.0, bad, 0.5])

    found = keras.ops.convert_to_numpy(scaled_round(keras.ops.convert_to_tensor(x), "float8_e4m3fn", 448.0))

    np.testing.assert_array_equal(found, x)


def test_zeros_stay_zeros():
    x = keras.ops.zeros((3, 2), "float32")

    assert not keras.ops.convert_to_numpy(scaled_round(x, "float8_e5m2", 57344.0)).any()


def test_operands_are_e4m3_and_gradients_e5m2():
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(2, use_bias=False, name="dense")(inputs)
    model = keras.Model(inputs, keras.layers.Activation("linear", dtype="float32")(hidden))
    emulated = mixte.keras.emulate(model, "float8_from_mixed_float16", arch="hopper")
    assert emulated.formats["dense"] == "float8"
    rng = np.random.default_rng(5)
    x, target = (rng.standard_normal(s).astype(np.float16).astype(np.float32) for s in ((1, 4), (1, 2)))
    kernel = rng.standard_normal((4, 2)).astype(np.float16).astype(np.float32)
    layer = model.get_layer("dense")
    layer.set_weights([kernel])

    y = model.predict_on_batch(x)

    def rounded(v, name):
        scale = np.float32(LARGEST[name]) / np.abs(v).max()
        return round_to(v * scale, name) / scale

    product = rounded(x, "float8_e4m3fn").astype(np.float64) @ rounded(kernel, "float8_e4m3fn")
    # Four products in float32: an error below 4 x 2^-24 of the largest, far below float16's half unit of 2^-12.
    np.testing.assert_allclose(y, product.astype(np.float16), rtol=2**-10)

    model.compile(keras.optimizers.SGD(1.0), loss=lambda t, y: 2 * y * t, auto_scale_loss=False)
    layer.set_weights([np.zeros_like(kernel)])
    model.train_on_batch(x, target)  # the mean over two outputs, times 2: the gradient of y is the target
    expected = rounded(x, "float8_e4m3fn").T * rounded(
        target, "float8_e5m2"
    )  # one product: exact but for the scales
    np.testing.assert_allclose(-layer.get_weights()[0], expected, rtol=2**-10)

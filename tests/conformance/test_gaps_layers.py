"""The defects of Keras's layers and metrics in float16, by their ids: first that it has them, then that mixte has not.

D14, D17 and D18 are mended by patches: there ``inspect.unwrap`` gives Keras's own method. The others are mended by
safeguards.
"""

import inspect

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte.keras._framework import BACKEND
from mixte.keras._mendings import mend_keras

from .policy_models import layers_of
from .steps import host

only_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="the other backends promote the dtypes")
only_torch = pytest.mark.skipif(BACKEND != "torch", reason="a layer that Keras has on PyTorch alone")
compiles = pytest.mark.skipif(BACKEND == "torch", reason="nothing is compiled with XLA on PyTorch")


def under_keras(build):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return build()
    finally:
        keras.config.set_dtype_policy("float32")


def by_use(build, policy="mixed_float16"):
    with mk.use(policy):
        return build()


def by_apply(build, policy="mixed_float16"):
    model = build()
    mk.apply(model, policy)
    return model


ways = pytest.mark.parametrize("way", [by_apply, by_use])


def policy_map():
    policies = keras.dtype_policies.DTypePolicyMap()
    policies["hidden"] = keras.DTypePolicy("mixed_float16")
    policies["quantised"] = keras.dtype_policies.get("float8_from_mixed_float16")
    return policies


def names(policies):
    return {key: policies[key].name for key in policies}


def test_D14_keras_takes_the_names_off_policies_that_it_serialises():
    policies = policy_map()

    inspect.unwrap(keras.dtype_policies.DTypePolicyMap.get_config)(policies)

    assert names(policies) == {"hidden": None, "quantised": None}


def test_D14_serialising_a_policy_map_leaves_its_policies_as_they_are():
    mend_keras()
    policies = policy_map()

    config = policies.get_config()

    assert names(policies) == {"hidden": "mixed_float16", "quantised": "float8_from_mixed_float16"}
    assert config == inspect.unwrap(type(policies).get_config)(policies), "what is written is Keras's"


def test_D14_a_model_with_a_policy_map_computes_the_same_after_it_was_written():
    mend_keras()
    policies = keras.dtype_policies.DTypePolicyMap()
    policies["hidden"] = policies["out"] = keras.DTypePolicy("mixed_float16")
    hidden, out = layers.Dense(2, dtype=policies, name="hidden"), layers.Dense(1, dtype=policies, name="out")
    model = keras.Sequential([layers.Input((2,)), hidden, out])

    model.to_json()

    assert [layer.dtype_policy["hidden"].name for layer in model.layers] == ["mixed_float16"] * 2


def rows(layer, *, score, shown):
    """Return the weighted mean of the values 1 and 3, as far as they are shown, if both have the same score."""
    query, key = np.full((1, 1, 1), score, "float32"), np.ones((1, 2, 1), "float32")
    values = np.array([[[1.0], [3.0]]], "float32")
    mean = layer([query, values, key], mask=[None, np.array([shown])])
    return host(ops.cast(mean, "float32")).item()


def attention_of_keras():
    layer = layers.Attention(dtype="float16")
    layer._apply_scores = inspect.unwrap(layers.Attention._apply_scores).__get__(layer)
    return layer


def test_D17_keras_loses_a_row_of_which_all_is_hidden():
    scores = (1.0, -32.0) if BACKEND == "torch" else (-32.0,)
    for score in scores:
        assert np.isnan(rows(attention_of_keras(), score=score, shown=[False, False])), score

    assert rows(layers.Attention(dtype="float32"), score=-32.0, shown=[False, False]) == 2.0


@pytest.mark.parametrize("layer", [layers.Attention, layers.AdditiveAttention])
@pytest.mark.parametrize("score", [1.0, -32.0])
@pytest.mark.parametrize(("shown", "mean"), [([False, False], 2.0), ([True, False], 1.0), ([True, True], 2.0)])
def test_D17_what_a_mask_hides_is_hidden_in_float16_as_in_float32(layer, score, shown, mean):
    mend_keras()
    for dtype in ("float32", "mixed_float16"):
        assert rows(layer(dtype=dtype), score=score, shown=shown) == mean, dtype


def test_D17_causal_and_value_masks_together_hide_what_they_hide_in_float32():
    mend_keras()
    x = np.random.default_rng(3).integers(-2, 3, (2, 3, 4)).astype("float32")
    shown = np.array([[True, True, False], [False, True, True]])

    def attend(dtype):
        layer = layers.Attention(dtype=dtype)
        return host(layer([x, x], mask=[None, shown], use_causal_mask=True)).astype("float64")

    # Scores are small integers, exact in float16. A weight is rounded three times (exponential, sum, division), a
    # product once, and the sum of three once more: each by 2**-11 of at most 3 * 2.
    np.testing.assert_allclose(attend("mixed_float16"), attend("float32"), rtol=0, atol=6 * 6 * 2.0**-11)


def dice(y, y_pred):
    return 2 * ops.sum(y * y_pred) / ops.sum(y + y_pred)


class Sum(keras.metrics.Metric):
    """A metric of the script's own, that adds predictions to a float32 total."""

    def __init__(self):
        super().__init__(name="total")
        self.total = self.add_variable((), "zeros", name="total")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign(self.total + ops.sum(y_true * y_pred))

    def result(self):
        return self.total + 0.0


def constant_model():
    """Return a model that predicts 4096 for each of 32 rows: their sum, 131072, exceeds float16."""
    head = layers.Dense(1, kernel_initializer=keras.initializers.Constant(4096.0), name="out")
    return keras.Sequential([layers.Input((1,)), head])


def evaluated(model, *metrics):
    model.compile("sgd", loss="mse", metrics=list(metrics), run_eagerly=BACKEND != "jax")
    ones = np.ones((32, 1), "float32")
    return model.evaluate(ones, ones, verbose=0, return_dict=True)


@only_tensorflow
def test_D18_keras_gives_a_metric_function_float16_predictions_and_float32_targets():
    model = under_keras(constant_model)
    model.compile("sgd", loss="mse", metrics=[dice])
    ones = ops.ones((2, 1))

    with pytest.raises(Exception, match="half"):
        inspect.unwrap(keras.Model.compute_metrics)(model, ones, ones, model(ones))


@ways
def test_D18_metrics_are_computed_from_predictions_in_float32(way):
    found = evaluated(way(constant_model), dice, Sum())

    # 2 * 131072 / (32 + 131072), in float32.
    assert found["dice"] == np.float32(2 * 131072) / np.float32(32 + 131072)
    assert found["total"] == 131072.0


def test_D18_also_where_the_script_keeps_an_output_in_float16():
    def build():
        head = layers.Dense(
            1, kernel_initializer=keras.initializers.Constant(4096.0), name="out", dtype="mixed_float16"
        )
        return keras.Sequential([layers.Input((1,)), head])

    model = by_use(build)
    assert layers_of(model)["out"].compute_dtype == "float16"

    assert evaluated(model, Sum())["total"] == 131072.0


def test_D18_a_mask_still_reaches_the_metrics():
    mend_keras()

    def build():
        x = layers.Input((3, 1))
        return keras.Model(x, layers.Dense(1, kernel_initializer="ones")(layers.Masking(mask_value=0.0)(x)))

    model = under_keras(build)
    model.compile("sgd", loss="mse", metrics=["mae"], run_eagerly=BACKEND != "jax")
    x, y = np.array([[[1.0], [2.0], [0.0]]], "float32"), np.array([[[2.0], [3.0], [9.0]]], "float32")

    assert model.compute_dtype == "float16"
    assert model.evaluate(x, y, verbose=0, return_dict=True)["mae"] == 1.0, "the last step is masked"


def penalised():
    hidden = layers.Dense(
        64, kernel_initializer="ones", activity_regularizer=keras.regularizers.L2(1.0), name="hidden"
    )
    return keras.Sequential([layers.Input((64,)), hidden, layers.Dense(1, name="out")])


def penalty(model):
    model(np.full((8, 64), 10.0, "float32"))
    return host(model.losses[0]).item()


def test_D19_keras_computes_an_activity_penalty_in_float16():
    with np.errstate(over="ignore"):
        assert penalty(under_keras(penalised)) == np.inf


@ways
def test_D19_an_activity_penalty_is_computed_in_float32(way):
    assert penalty(way(penalised)) == 64 * 640.0**2, "a mean over the batch of the sum over 64 squares"


def upsampling():
    return keras.Sequential(
        [
            layers.Input((3, 3, 1)),
            layers.Conv2D(1, 1, activation="relu", name="first"),
            layers.UpSampling2D(interpolation="bilinear", name="up"),
            layers.Conv2D(1, 1, name="hidden"),
            layers.Conv2D(1, 1, name="out"),
        ]
    )


def trained(model):
    model.compile("sgd", loss="mse", jit_compile=True)
    x, y = np.ones((1, 3, 3, 1), "float32"), np.ones((1, 6, 6, 1), "float32")
    return model.fit(x, y, verbose=0).history["loss"][0]


@only_tensorflow
def test_D20_keras_fails_to_compile_a_float16_upsampling():
    import tensorflow as tf

    with pytest.raises(tf.errors.InternalError):
        trained(under_keras(upsampling))


@compiles
def test_D20_an_upsampling_that_interpolates_is_compiled_in_float32_with_the_reason():
    model = upsampling()
    applied = mk.apply(model, "mixed_float16")

    assert np.isfinite(trained(model))

    decision = next(each for each in applied.decisions if each.path == "up")
    assert (decision.compute_dtype, decision.origin) == ("float32", "safeguard")
    assert "keras-team/keras#20931" in decision.reason
    assert {path: each.compute_dtype for path, each in layers_of(model).items()} == {
        "first": "float16",
        "up": "float32",
        "hidden": "float16",
        "out": "float32",
    }


def around_a_torch_module():
    import torch

    x = layers.Input((4,))
    module = layers.TorchModuleWrapper(torch.nn.Linear(4, 4), output_shape=(None, 4), name="module")
    return keras.Model(
        x, layers.Dense(1, name="out")(layers.Dense(2, name="hidden")(module(layers.Dense(4, name="first")(x))))
    )


@only_torch
def test_D21_keras_feeds_a_float32_module_in_float16():
    import torch

    wrapper = layers.TorchModuleWrapper(torch.nn.Linear(4, 4), dtype="mixed_float16")

    with pytest.raises(RuntimeError, match="Half"):
        wrapper(np.ones((2, 4), "float32"))


@only_torch
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@ways
def test_D21_a_module_of_pytorch_is_trained_in_float32(way, policy):
    model = way(around_a_torch_module, policy)
    before = [host(variable) for variable in model.get_layer("module").trainable_variables]
    model.compile("sgd", loss="mse")

    history = model.fit(np.ones((2, 4), "float32"), np.zeros((2, 1), "float32"), verbose=0)

    assert np.isfinite(history.history["loss"][0])
    assert {path: each.compute_dtype for path, each in layers_of(model).items()} == {
        "first": policy.removeprefix("mixed_"),
        "module": "float32",
        "hidden": policy.removeprefix("mixed_"),
        "out": "float32",
    }
    after = [host(variable) for variable in model.get_layer("module").trainable_variables]
    assert any(not np.array_equal(old, new) for old, new in zip(before, after, strict=True)), "it learns"

"""What does not fit together is warned of, once: wrappers, a model's own dtype, outputs that no layer gives."""

import warnings

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte import MixteWarning, Policy
from mixte.policy import ByPath, Outputs, Rule

from .policy_models import call_and_look, layers_of
from .steps import host

KerasScaler = keras.optimizers.LossScaleOptimizer


def around(wrapper):
    """Return a model of one wrapper; its name is ``wrapper``."""
    x = layers.Input((4, 6))
    return keras.Model(x, layers.Dense(1, name="out")(wrapper(x)))


def time_distributed(inner="float32"):
    dense = layers.Dense(3, dtype=inner, name="inner")
    return around(layers.TimeDistributed(dense, dtype="mixed_float16", name="wrapper"))


def bidirectional(**inner):
    lstm = layers.LSTM(3, name="lstm", **inner)
    return around(layers.Bidirectional(lstm, dtype="mixed_float16", name="wrapper"))


def wrapped(model):
    """Return what the wrapper and the layers inside it compute in."""
    return {path: layer.compute_dtype for path, layer in layers_of(model).items() if path.startswith("wrapper")}


def test_D16_keras_casts_to_float16_around_a_float32_layer():
    model = time_distributed()

    assert wrapped(model) == {"wrapper": "float16", "wrapper/inner": "float32"}
    x = np.full((1, 4, 6), 1 + 2.0**-12, "float32")  # in float16: 1
    ones = np.ones((1, 4, 6), "float32")
    np.testing.assert_array_equal(host(model(x)), host(model(ones)))


def by_apply(build):
    model = build()
    mk.apply(model, "mixed_float16")
    return model


def by_use(build):
    with mk.use("mixed_float16"):
        return build()


ways = pytest.mark.parametrize("way", [by_apply, by_use])


@ways
def test_D16_a_wrapper_around_a_layer_with_another_dtype_is_warned_of_once(way):
    words = (
        "TimeDistributed 'wrapper' computes in float16, and the layer inside it, 'wrapper/inner', in float32"
    )

    with pytest.warns(MixteWarning, match=words) as warned:
        model = way(time_distributed)

    assert len(warned) == 1
    model.compile("sgd", loss="mse")  # where any warning is an error


def test_D16_a_bidirectional_layer_around_a_layer_with_another_dtype_is_warned_of_once():
    with pytest.warns(
        MixteWarning, match="Bidirectional 'wrapper' computes in float16, and the layer"
    ) as warned:
        model = by_use(lambda: bidirectional(dtype="float32"))

    assert len(warned) == 1
    assert wrapped(model)["wrapper/forward_lstm"] == "float32"


@ways
def test_D16_layers_inside_a_wrapper_follow_its_dtype_where_they_have_none(way):
    model = way(bidirectional)

    assert set(wrapped(model).values()) == {"float16"}


def test_D16_a_rule_for_a_wrapper_reaches_the_layer_inside():
    model = around(layers.TimeDistributed(layers.Dense(3, name="inner"), name="wrapper"))

    mk.apply(model, Policy("float32", [Rule(ByPath("wrapper"), "mixed_float16", "for its speed")]))

    assert wrapped(model) == {"wrapper": "float16", "wrapper/inner": "float16"}
    assert call_and_look(model, np.ones((1, 4, 6), "float32"))[1]["wrapper/inner"] == "float16"


def sequential():
    return keras.Sequential([layers.Input((4,)), layers.Dense(4, name="hidden"), layers.Dense(1, name="out")])


def test_L12_keras_scales_the_loss_of_a_model_whose_layers_stay_in_float32():
    model = sequential()
    model.dtype_policy = keras.DTypePolicy("mixed_float16")
    model.compile("sgd", loss="mse")

    assert isinstance(model.optimizer, KerasScaler)
    assert {layer.compute_dtype for layer in model.layers} == {"float32"}


def test_L12_a_dtype_policy_that_was_set_too_late_is_warned_of_once_and_then_applied():
    model = sequential()
    model.dtype_policy = keras.DTypePolicy("mixed_float16")
    model.compile("sgd", loss="mse")

    with pytest.warns(MixteWarning, match="no layer computes in float16: only float16 needs that") as warned:
        mk.apply(model, "float32")
    assert len(warned) == 1
    mk.apply(model, "float32")  # where any warning is an error

    mk.apply(model, "mixed_float16")  # what the message says to do
    assert {path: layer.compute_dtype for path, layer in layers_of(model).items()} == {
        "hidden": "float16",
        "out": "float32",
    }


def test_L12_a_dtype_policy_that_was_set_too_late_under_use_is_warned_of_once():
    with mk.use("float32"):
        model = sequential()
    model.dtype_policy = keras.DTypePolicy("mixed_float16")

    with pytest.warns(MixteWarning, match="no layer computes in float16") as warned:
        model.compile("sgd", loss="mse")

    assert len(warned) == 1
    assert model.dtype_policy.name == "float32", "the policy in force decides"


def test_L12_the_dtype_policy_of_a_layer_changes_it_in_place_and_its_symbols_are_refreshed():
    model = sequential()
    model.layers[0].dtype_policy = "mixed_float16"
    assert model.layers[0].output.dtype == "float32", "stale"

    applied = mk.apply(model, Policy("float32", [Rule(ByPath("hidden"), "mixed_float16", "as set already")]))

    assert not applied.changed
    assert call_and_look(model, np.ones((1, 4), "float32"))[1] == {"hidden": "float16", "out": "float32"}


class SoftmaxByCode(keras.Model):
    def __init__(self, name="by_code"):
        super().__init__(name=name)
        self.head = layers.Dense(3, name="head")

    def call(self, x):
        return ops.softmax(self.head(x))


class SoftmaxByLayer(SoftmaxByCode):
    def __init__(self):
        super().__init__(name="by_layer")
        self.softmax = layers.Softmax(name="softmax")

    def call(self, x):
        return self.softmax(self.head(x))


def built(model):
    model(np.ones((1, 4), "float32"))
    return model


@ways
def test_an_output_that_no_layer_gives_is_warned_of_once(way):
    with pytest.warns(
        MixteWarning, match=r"output of the model 'by_code' is computed in float16 by code"
    ) as warned:
        model = way(lambda: built(SoftmaxByCode()))

    assert len(warned) == 1
    assert keras.backend.standardize_dtype(built(model)(np.ones((1, 4), "float32")).dtype) == "float16"
    model.compile("sgd", loss="mse")  # where any warning is an error


def test_an_output_that_a_model_inside_gives_by_code_is_warned_of():
    x = layers.Input((4,))
    model = keras.Model(x, SoftmaxByCode()(x))

    with pytest.warns(MixteWarning, match=r"output of SoftmaxByCode 'by_code' is computed in float16 by code"):
        mk.apply(model, "mixed_float16")


@ways
def test_the_advice_for_an_output_that_no_layer_gives_helps(way):
    model = way(lambda: built(SoftmaxByLayer()))

    assert keras.backend.standardize_dtype(model(np.ones((1, 4), "float32")).dtype) == "float32"


QUIET = {
    "float32": Policy("float32"),
    "outputs in float16 by a rule": Policy("mixed_float16", [Rule(Outputs(), "mixed_float16", "on purpose")]),
    "no word of outputs": Policy("mixed_float16"),
}


@pytest.mark.parametrize("policy", QUIET.values(), ids=QUIET.keys())
def test_outputs_of_which_a_policy_says_nothing_are_not_warned_of(policy):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mk.apply(built(SoftmaxByCode()), policy)

    assert [
        str(each.message) for each in caught if "output" in str(each.message) and "by code" in str(each.message)
    ] == []


def test_a_model_that_casts_its_inputs_before_a_float32_layer_is_warned_of():
    class Raw(keras.Model):
        def __init__(self):
            super().__init__(name="raw")
            self.rescaling = layers.Rescaling(1e-5, name="rescaling")
            self.head = layers.Dense(1, name="head")

        def call(self, x):
            return self.head(self.rescaling(x))

    model = built(Raw())

    with pytest.warns(
        MixteWarning, match="'raw' casts its inputs to float16 before Rescaling 'rescaling' sees them"
    ):
        mk.apply(model, "mixed_float16")

    rule = Rule(ByPath("/"), "float32", "the advice")
    mk.apply(model, Policy.mixed("float16").with_rules(rule))  # where any warning is an error
    assert np.isfinite(host(model(np.full((1, 4), 90000.0, "float32")))).all()

"""A policy applied to a model that is compiled already, and has trained: its functions and its optimizer."""

import keras
import numpy as np
import pytest
from keras import layers

import mixte.keras as mk
from mixte import MixteWarning, Policy
from mixte.policy import ByPath, LossScaleSpec, Rule
from mixte.scaling import DynamicScale, FixedScale

from .policy_models import policies_of, values_of
from .steps import host

KerasScaler = keras.optimizers.LossScaleOptimizer


def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(8, 6)).astype("float32")
    return x, x[:, :2] * 0.5


def trained(optimizer):
    """Return a float32 model that has made two steps, and one prediction."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [layers.Input((6,)), layers.Dense(8, activation="tanh", name="hidden"), layers.Dense(2, name="out")]
    )
    model.compile(optimizer, loss="mse")
    x, y = data()
    model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
    model.predict(x, verbose=0)
    return model


def test_applying_wraps_the_optimizer_and_keeps_its_state_and_undoing_unwraps_it():
    adam = keras.optimizers.Adam(1e-2)
    model = trained(adam)
    state, weights = [host(variable) for variable in adam.variables], values_of(model)
    x, y = data()
    exact = model.predict(x, verbose=0)

    applied = mk.apply(model, "mixed_float16")

    assert isinstance(model.optimizer, mk.LossScaleOptimizer)
    assert model.optimizer.inner_optimizer is adam
    assert model.optimizer.law == DynamicScale()
    for mine, old in zip([*adam.variables, *model.variables], [*state, *weights], strict=True):
        np.testing.assert_array_equal(host(mine), old)
    rounded = model.predict(x, verbose=0)  # by a function that is compiled anew
    assert not np.array_equal(rounded, exact)
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=20 * 2.0**-11)  # as in test_policy_applied.py

    applied.undo()

    assert model.optimizer is adam
    np.testing.assert_array_equal(model.predict(x, verbose=0), exact)
    model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)
    assert int(host(adam.iterations)) == 4


def test_training_goes_on_with_loss_scaling_and_with_the_iterations_of_before():
    model = trained(keras.optimizers.Adam(1e-2))
    x, y = data()

    mk.apply(model, "mixed_float16", law=DynamicScale(2.0**8))
    before = values_of(model)
    model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)

    assert int(host(model.optimizer.iterations)) == 4
    counters = model.optimizer.read_state().counters
    assert (counters["steps"], counters["applied"]) == (2, 2)
    assert {variable.dtype for variable in model.variables} == {"float32"}
    assert all(not np.array_equal(new, old) for new, old in zip(values_of(model), before, strict=True))


def test_training_after_undo_is_that_of_a_model_that_was_never_touched():
    x, y = data()
    plain, touched = trained(keras.optimizers.Adam(1e-2)), trained(keras.optimizers.Adam(1e-2))

    mk.apply(touched, "mixed_float16").undo()
    for model in (plain, touched):
        model.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)

    for mine, other in zip(values_of(touched), values_of(plain), strict=True):
        np.testing.assert_array_equal(mine, other)


def compiled(optimizer="sgd", **options):
    model = keras.Sequential([layers.Input((6,)), layers.Dense(8, name="hidden"), layers.Dense(2, name="out")])
    model.compile(optimizer, loss="mse", **options)
    return model


LAWS = {
    "the argument": (Policy("mixed_float16", loss_scale="dynamic"), "fixed:128", FixedScale(128.0)),
    "a number": (Policy("mixed_float16"), 256.0, DynamicScale(256.0)),
    "the policy's": (
        Policy("mixed_float16", loss_scale=LossScaleSpec("fixed", {"scale": 64})),
        None,
        FixedScale(64.0),
    ),
    "the default": (Policy("mixed_float16"), None, DynamicScale()),
    "bfloat16 is only checked": (Policy("mixed_bfloat16"), None, FixedScale(1.0)),
    "one layer is enough": (
        Policy("float32", [Rule(ByPath("hidden"), "mixed_float16", "the only one")]),
        None,
        DynamicScale(),
    ),
}


@pytest.mark.parametrize(("policy", "law", "expected"), LAWS.values(), ids=LAWS.keys())
def test_the_law_of_the_wrapped_optimizer_is(policy, law, expected):
    model = compiled()

    mk.apply(model, policy, law=law)

    assert model.optimizer.law == expected


def test_no_optimizer_is_wrapped_in_float32():
    model = compiled(sgd := keras.optimizers.SGD())

    assert not mk.apply(model, "float32").changed
    assert model.optimizer is sgd


@pytest.mark.parametrize("wrap", [KerasScaler, mk.LossScaleOptimizer])
def test_an_optimizer_that_scales_its_loss_already_stays(wrap):
    model = compiled(scaler := wrap(keras.optimizers.SGD()))

    applied = mk.apply(model, "mixed_float16")
    assert model.optimizer is scaler

    applied.undo()
    assert model.optimizer is scaler


def test_a_fixed_factor_of_the_optimizer_becomes_the_law_and_is_restored():
    model = compiled(sgd := keras.optimizers.SGD(loss_scale_factor=512.0))

    applied = mk.apply(model, "mixed_float16")
    assert model.optimizer.law == FixedScale(512.0)

    applied.undo()
    assert (model.optimizer, sgd.loss_scale_factor) == (sgd, 512.0)


def test_undo_leaves_an_optimizer_alone_that_was_compiled_in_since():
    model = compiled()
    applied = mk.apply(model, "mixed_float16")
    model.compile(new := keras.optimizers.Adam(), loss="mse", auto_scale_loss=False)

    applied.undo()

    assert model.optimizer is new
    assert {layer.compute_dtype for layer in model.layers} == {"float32"}


def test_policies_are_undone_one_after_the_other():
    model = compiled(sgd := keras.optimizers.SGD())
    float32 = policies_of(model)
    first = mk.apply(model, "mixed_float16")
    float16, scaler = policies_of(model), model.optimizer
    second = mk.apply(model, Policy("mixed_float16", [Rule(ByPath("hidden"), "float32", "for this test")]))
    assert policies_of(model) != float16

    second.undo()
    assert (policies_of(model), model.optimizer) == (float16, scaler)
    first.undo()
    assert (policies_of(model), model.optimizer) == (float32, sgd)


def test_a_scaler_without_a_float16_layer_left_is_warned_of_once():
    model = compiled()
    mk.apply(model, "mixed_float16")

    with pytest.warns(MixteWarning, match="in which no layer computes in float16"):
        mk.apply(model, "float32")
    mk.apply(model, "float32")  # where any warning is an error


def test_a_model_compiled_under_use_is_wrapped_also_after_the_block():
    with mk.use("mixed_float16", law="fixed:128"):
        model = keras.Sequential([layers.Input((6,)), layers.Dense(8), layers.Dense(2)])
    model.compile("adam", loss="mse")

    assert model.optimizer.law == FixedScale(128.0)
    assert type(model.optimizer.inner_optimizer).__name__ == "Adam"

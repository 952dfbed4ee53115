"""The defects of Keras's own loss scaling, by their ids: first that it has them, then that ours has not."""

import gc

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte import InputError, LossScaleError, MixteWarning
from mixte.keras._framework import BACKEND
from mixte.keras._scaling import with_loss_scaling
from mixte.scaling import DynamicScale, FixedScale

from .steps import EAGER_AND_FASTEST, MODES, Steps, host
from .training import OwnStep, fit, make

KerasScaler = keras.optimizers.LossScaleOptimizer
only_jax = pytest.mark.skipif(BACKEND != "jax", reason="about tracing, which only JAX does to Python values")


def weight(*values):
    return keras.Variable(np.array(values, "float32"))


def gradient(*values):
    return np.array(values, "float32")


def keras_apply(optimizer, w, value):
    """Apply a gradient with Keras's own scaler: on JAX by its stateless call, since the other leaks (D10)."""
    if not optimizer.built:
        optimizer.build([w])
    if BACKEND != "jax":
        optimizer.apply([ops.convert_to_tensor(value)], [w])
        return
    state = [variable.value for variable in optimizer.variables]
    (weights,), state = optimizer.stateless_apply(state, [ops.convert_to_tensor(value)], [w.value])
    w.assign(weights)
    for variable, new in zip(optimizer.variables, state, strict=True):
        variable.assign(new)


class Silent:
    """Takes no notes."""

    def begin(self, model, optimizer):
        pass

    def __call__(self, applied):
        pass


class ForgetsToScale(OwnStep):
    """Its ``train_step`` applies the gradients of a loss that it never scaled."""

    def train_step(self, *arguments):
        self.optimizer.scale_loss = lambda loss: loss
        self.optimizer.stateless_scale_loss = lambda _, loss: loss
        return super().train_step(*arguments)


def test_D2_keras_trains_at_a_fraction_of_the_rate_when_the_loss_was_not_scaled():
    w = weight(1.0)
    optimizer = KerasScaler(keras.optimizers.SGD(0.1))
    for _ in range(20):
        keras_apply(optimizer, w, 2 * host(w))  # of the loss w**2

    assert host(w)[0] > 0.999, "Keras would have reached 0.01 without loss scaling"


@pytest.mark.parametrize("mode", MODES)
def test_D2_apply_of_a_loss_that_was_never_scaled_is_an_error(mode):
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    steps = Steps(optimizer, [weight(1.0)], mode)
    steps._scaled = lambda gradient: gradient

    with pytest.raises(LossScaleError, match=r"optimizer\.scale_loss"):
        steps.step(gradient(2.0))

    assert steps.values()[0] == 1.0


def test_D2_fit_with_a_train_step_that_does_not_scale_its_loss_is_an_error():
    with pytest.raises(LossScaleError, match="never multiplied"):
        fit(Silent(), build=ForgetsToScale)


def test_D2_nothing_need_be_scaled_where_the_scale_is_fixed_at_one():
    w = weight(1.0)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.125), FixedScale(1))

    assert optimizer.apply([ops.convert_to_tensor(gradient(2.0))], [w])

    assert host(w) == 0.75


def test_D4_keras_writes_nan_weights_once_its_scale_is_zero():
    w = weight(1.0)
    optimizer = KerasScaler(keras.optimizers.SGD(1.0), initial_scale=2.0**-148)
    for value in (np.inf, np.inf, np.inf, 0.0):
        keras_apply(optimizer, w, gradient(value))

    assert np.isnan(host(w)[0])


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_D4_the_scale_never_reaches_zero(mode):
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicScale(2.0**-10, min_scale=2.0**-126))
    steps = Steps(optimizer, [weight(1.0)], mode)
    for _ in range(130):
        assert not steps.step(gradient(np.inf))

    assert optimizer.read_state().scale == 2.0**-126
    assert steps.step(gradient(0.0))
    assert steps.values()[0] == 1.0


def test_D4_a_law_that_starts_near_zero_is_refused():
    with pytest.raises(InputError, match="initial_scale"):
        mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=2.0**-148)


def test_D5_the_scale_of_keras_becomes_infinite_and_stays_so():
    w = weight(1.0)
    optimizer = KerasScaler(keras.optimizers.SGD(1.0), initial_scale=2.0**127, dynamic_growth_steps=1)
    for value in (1.0, np.inf):
        keras_apply(optimizer, w, gradient(value))

    assert host(optimizer.dynamic_scale) == np.inf


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_D5_the_scale_never_becomes_infinite(mode):
    law = DynamicScale(2.0**126, growth_interval=1, max_scale=3.4028234663852886e38)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(2.0**-100), law)
    steps = Steps(optimizer, [weight(1.0)], mode)
    scales = []
    for _ in range(4):
        assert steps.step(gradient(2.0**-126))
        scales.append(optimizer.read_state().scale)

    assert scales == [2.0**127] * 4, "the growth to 2**128, which is no float32, is refused"
    assert not steps.step(gradient(np.inf))
    assert optimizer.read_state().scale == 2.0**126


def test_D8_compiling_with_keras_erases_a_fixed_factor():
    keras.config.set_dtype_policy("mixed_float16")
    model = keras.Sequential([layers.Input((2,)), layers.Dense(1)])
    keras.config.set_dtype_policy("float32")
    model.compile(keras.optimizers.Adam(loss_scale_factor=1024.0), loss="mse")

    assert isinstance(model.optimizer, KerasScaler)
    assert model.optimizer.inner_optimizer.loss_scale_factor is None
    assert model.optimizer.initial_scale == 2.0**15


def test_D8_a_fixed_factor_becomes_a_fixed_scale():
    with mk.use("mixed_float16"):
        model = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(loss_scale_factor=1024.0), loss="mse")

    assert model.optimizer.law == FixedScale(1024.0)
    assert host(model.optimizer.scale_loss(ops.convert_to_tensor(2.0))) == 2048.0
    assert model.optimizer.inner_optimizer.loss_scale_factor is None, "else the gradients were divided twice"


def test_D8_a_fixed_factor_that_a_law_replaces_is_warned_of():
    with pytest.warns(MixteWarning, match="loss_scale_factor=1024, which is not used"):
        optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0, loss_scale_factor=1024.0), DynamicScale())

    assert optimizer.law == DynamicScale()


def test_D9_keras_applies_infinite_gradients_with_a_fixed_factor():
    w = weight(1.0, 1.0)
    optimizer = keras.optimizers.SGD(0.1, loss_scale_factor=1024.0)
    optimizer.apply([ops.convert_to_tensor(gradient(np.inf, 1.0))], [w])

    assert host(w)[0] == -np.inf


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_D9_a_fixed_scale_skips_and_counts_like_any_other(mode):
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.125, loss_scale_factor=1024.0))
    steps = Steps(optimizer, [weight(1.0, 1.0)], mode)

    assert not steps.step(gradient(np.inf, 1.0))
    assert steps.step(gradient(2.0, 4.0))

    np.testing.assert_array_equal(steps.values()[0], [0.75, 0.5])
    state = optimizer.read_state()
    assert (state.scale, state.counters["applied"], state.counters["skipped"]) == (1024.0, 1, 1)


@only_jax
def test_D10a_keras_leaks_tracers_from_apply_in_jit():
    import jax

    w = weight(1.0)
    optimizer = KerasScaler(keras.optimizers.SGD(1.0))
    optimizer.build([w])

    with pytest.raises(jax.errors.UnexpectedTracerError):
        jax.jit(lambda g: optimizer.apply([g], [w]))(gradient(1.0))


@only_jax
def test_D10a_apply_in_jit_is_an_error_that_names_the_stateless_call():
    import jax

    w = weight(1.0)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.build([w])
    optimizer.scale_loss(1.0)

    with pytest.raises(LossScaleError, match="stateless_apply"):
        jax.jit(lambda g: optimizer.apply([g], [w]))(gradient(1.0))

    assert host(w) == 1.0


@only_jax
def test_D10b_keras_bakes_a_stale_scale_into_a_compiled_step():
    import jax

    w = weight(1.0)
    optimizer = KerasScaler(keras.optimizers.SGD(0.0), initial_scale=4.0, dynamic_growth_steps=1)
    optimizer.build([w])

    @jax.jit
    def step(values, state):
        loss, gradients = jax.value_and_grad(lambda v: optimizer.scale_loss(v[0].sum()))(values)
        return loss, optimizer.stateless_apply(state, gradients, values)

    values, state, losses, scales = [w.value], [v.value for v in optimizer.variables], [], []
    for _ in range(3):
        loss, (values, state) = step(values, state)
        losses.append(float(loss))
        scales.append(float(state[3]))

    assert losses == [4.0, 4.0, 4.0], "Keras multiplies by the scale of the first call"
    assert scales == [8.0, 16.0, 32.0], "and divides by the live one"


@only_jax
def test_D10b_scale_loss_in_jit_is_an_error():
    import jax

    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))

    with pytest.raises(LossScaleError, match="stateless_scale_loss"):
        jax.jit(jax.grad(lambda v: optimizer.scale_loss(v * 2.0)))(1.0)


@only_jax
def test_D10b_a_compiled_step_scales_and_unscales_by_the_same_state():
    import jax

    w = weight(1.0)
    law = DynamicScale(4.0, growth_interval=1)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.125), law)
    optimizer.build([w])

    @jax.jit
    def step(values, state):
        return mk.stateless_minimize(optimizer, lambda v: v[0].sum(), values, state)

    values, state, scales = [w.value], [v.value for v in optimizer.variables], []
    for _ in range(3):
        scales.append(optimizer.stateless_read_state(state).scale)
        _, values, state, _ = step(values, state)

    assert scales == [4.0, 8.0, 16.0]
    assert float(values[0][0]) == 1.0 - 3 * 0.125, "three steps by the true gradient of 1"


@pytest.mark.skipif(BACKEND == "torch", reason="on PyTorch Keras multiplies a float16 scalar in float32")
def test_D12_keras_overflows_a_float16_loss_before_it_is_built():
    optimizer = KerasScaler(keras.optimizers.SGD(1.0))

    assert host(optimizer.scale_loss(ops.cast(3.0, "float16"))) == np.inf


@pytest.mark.filterwarnings("ignore:the loss is computed in float16")  # once a policy was used in this process
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("built", [False, True])
def test_D12_the_loss_is_multiplied_in_float32(dtype, built):
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    if built:
        optimizer.build([weight(1.0)])

    scaled = optimizer.scale_loss(ops.cast(3.0, dtype))

    assert keras.backend.standardize_dtype(scaled.dtype) == "float32"
    assert host(scaled) == 98304.0


def test_D13_keras_accepts_two_scalers_and_divides_twice():
    w = weight(0.0)
    nested = KerasScaler(KerasScaler(keras.optimizers.SGD(1.0), initial_scale=2.0), initial_scale=4.0)
    scaled = nested.scale_loss(ops.convert_to_tensor(1.0))
    keras_apply(nested, w, gradient(4.0))

    assert host(scaled) == 4.0
    assert host(w) == -0.5, "the true update is -1"


@pytest.mark.parametrize("first", [mk.LossScaleOptimizer, KerasScaler])
def test_D13_a_scaler_around_a_scaler_is_refused(first):
    scaled = first(keras.optimizers.SGD(1.0))

    with pytest.raises(LossScaleError, match="scales the loss already"):
        mk.LossScaleOptimizer(scaled)


def test_D13_two_scalers_on_one_optimizer_are_refused():
    inner = keras.optimizers.SGD(1.0)
    first = mk.LossScaleOptimizer(inner)

    with pytest.raises(LossScaleError, match="'loss_scale_optimizer' already"):
        mk.LossScaleOptimizer(inner)

    del first
    gc.collect()
    mk.LossScaleOptimizer(inner)  # nobody scales for it any more


def test_D13_the_scaler_of_keras_around_ours_is_found_out_at_the_first_update():
    nested = KerasScaler(mk.LossScaleOptimizer(keras.optimizers.SGD(1.0)))
    nested.scale_loss(ops.convert_to_tensor(1.0))

    with pytest.raises(LossScaleError, match="never multiplied"):
        keras_apply(nested, weight(0.0), gradient(4.0))


def test_D13_what_is_no_optimizer_is_refused():
    with pytest.raises(InputError, match="received 'adam'"):
        mk.LossScaleOptimizer("adam")


def _per_layer():
    return keras.Sequential([layers.Input((2,)), layers.Dense(2, dtype="mixed_float16"), layers.Dense(1)])


def _policy_map():
    policies = keras.dtype_policies.DTypePolicyMap(default_policy="mixed_float16")
    inputs = layers.Input((2,))
    outputs = layers.Dense(1, dtype=policies)(layers.Dense(2, dtype=policies)(inputs))
    return keras.Model(inputs, outputs)


def _global_float16():
    keras.config.set_dtype_policy("float16")
    try:
        return keras.Sequential([layers.Input((2,)), layers.Dense(1)])
    finally:
        keras.config.set_dtype_policy("float32")


FLOAT16_MODELS = {"per layer": _per_layer, "policy map": _policy_map, "global float16": _global_float16}


@pytest.mark.parametrize("build", FLOAT16_MODELS.values(), ids=FLOAT16_MODELS.keys())
def test_D15_keras_does_not_scale_the_loss_of_models_whose_policy_has_another_name(build):
    model = build()
    model.compile("sgd", loss="mse")

    assert any(layer.compute_dtype == "float16" for layer in model.layers)
    assert not isinstance(model.optimizer, KerasScaler)


@pytest.mark.parametrize("build", FLOAT16_MODELS.values(), ids=FLOAT16_MODELS.keys())
def test_D15_the_loss_is_scaled_wherever_a_layer_computes_in_float16(build):
    optimizer = with_loss_scaling(keras.optimizers.SGD(1.0), build(), None)

    assert isinstance(optimizer, mk.LossScaleOptimizer)
    assert optimizer.law == DynamicScale()


def test_D15_compile_scales_the_loss_of_one_float16_layer_in_a_float32_model():
    with mk.use("float32"):
        model = _per_layer()
    model.compile("sgd", loss="mse")

    assert [layer.compute_dtype for layer in model.layers] == ["float16", "float32"]
    assert isinstance(model.optimizer, mk.LossScaleOptimizer)


def test_D15_no_loss_is_scaled_where_no_layer_computes_in_float16():
    with mk.use("float32"):
        model = keras.Sequential([layers.Input((2,)), layers.Dense(1)])
    model.compile("sgd", loss="mse")

    assert type(model.optimizer).__name__ == "SGD"


def test_D15_in_bfloat16_the_gradients_are_only_checked():
    with mk.use("mixed_bfloat16"):
        model = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(1)])
    model.compile("sgd", loss="mse")

    assert model.optimizer.law == FixedScale(1.0)


def test_models_of_the_other_tests_do_compute_in_float16():
    model, _ = make()

    assert [layer.compute_dtype for layer in model.layers] == ["float16", "float32"]

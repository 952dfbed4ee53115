"""What Keras's own loss scaling cannot do, by its ids: that ours can."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte import InputError, LossScaleError, MixteWarning
from mixte.keras._framework import BACKEND
from mixte.scaling import ContribScale, DynamicScale, FixedScale, HysteresisScale

from .steps import EAGER_AND_FASTEST, MODES, Steps, host

KerasScaler = keras.optimizers.LossScaleOptimizer


def weight(*values):
    return keras.Variable(np.array(values, "float32"))


def gradient(*values):
    return np.array(values, "float32")


def test_L1_the_scaler_of_keras_has_two_fixed_factors_and_no_bounds():
    for argument in ("growth_factor", "backoff_factor", "min_scale", "hysteresis"):
        with pytest.raises(ValueError, match="does not support arguments"):
            KerasScaler(keras.optimizers.SGD(1.0), **{argument: 2.0})


@pytest.mark.parametrize(
    ("law", "scales"),
    [
        (
            DynamicScale(1024.0, backoff_factor=0.25, growth_factor=4.0, growth_interval=2),
            [256.0, 64.0, 64.0, 256.0],
        ),
        (DynamicScale(1024.0, min_scale=512.0), [512.0, 512.0, 512.0, 512.0]),
        (HysteresisScale(1024.0, hysteresis=2), [1024.0, 512.0, 512.0, 512.0]),
        (ContribScale(1024.0), [1024.0, 819.2, 819.2, 819.2]),
        (FixedScale(1024.0), [1024.0] * 4),
        ("hysteresis:initial=1024,hysteresis=3", [1024.0, 1024.0, 1024.0, 1024.0]),
        (2.0**10, [512.0, 256.0, 256.0, 256.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_L1_any_law_with_any_parameters_moves_the_scale(law, scales):
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.0), law)
    steps = Steps(optimizer, [weight(1.0)])
    seen = []
    for value in (np.inf, np.inf, 1.0, 1.0):
        steps.step(gradient(value))
        seen.append(optimizer.read_state().scale)

    assert seen == [np.float32(scale) for scale in scales]


def test_L1_the_parameters_of_keras_make_a_dynamic_scale():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), initial_scale=256.0, dynamic_growth_steps=7)

    assert optimizer.law == DynamicScale(256.0, growth_interval=7)
    assert (optimizer.initial_scale, optimizer.dynamic_growth_steps) == (256.0, 7)


@pytest.mark.parametrize(
    "arguments",
    [
        {"law": DynamicScale(), "initial_scale": 4.0},
        {"law": "dinamic"},
        {"law": object()},
        {"law": True},
        {"iterations_on_skip": "stop"},
    ],
    ids=["law and initial_scale", "unknown law", "no law", "law of a boolean", "unknown iterations_on_skip"],
)
def test_L1_wrong_arguments_are_refused(arguments):
    with pytest.raises(InputError):
        mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), **arguments)


def overflowing_fit(optimizer, callbacks=()):
    """Train on inputs of 1e4 into Dense(4) in mixed_float16, with Adam, for 30 steps.

    With all weights at 0.5 an output is 2e4, its derivative of the mean square 2 * 2e4 / 16 = 2.5e3, and that of a
    weight 1e4 * 4 * 2.5e3 = 1e8: times 2**-10 it exceeds 65504, and times 2**-11 it does not.
    """
    head = layers.Dense(4, dtype="mixed_float16", kernel_initializer=keras.initializers.Constant(0.5))
    model = keras.Sequential([layers.Input((4,)), head])
    model.compile(optimizer, loss="mse", auto_scale_loss=False)
    x, y = np.full((60, 4), 1e4, "float32"), np.zeros((60, 4), "float32")
    return model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0, callbacks=list(callbacks))


def test_L2_the_scaler_of_keras_shows_nothing_of_its_skips():
    optimizer = KerasScaler(keras.optimizers.Adam())
    history = overflowing_fit(optimizer)

    assert set(history.history) == {"loss"}
    assert int(host(optimizer.iterations)) < 30, "steps were skipped"


def test_L2_skips_and_scale_are_counted_and_in_the_history():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.Adam())
    history = overflowing_fit(optimizer, [mk.LossScaleMonitor()]).history

    # From 2**15 to 2**-11 in 26 halvings, and then 4 updates.
    state = optimizer.read_state()
    assert (state.counters["skipped"], state.counters["applied"], state.scale) == (26, 4, 2.0**-11)
    assert state.counters["calibration_skips"] == 26
    assert int(host(optimizer.iterations)) == 4
    assert history["skipped_steps"] == [15, 11]
    assert history["loss_scale"] == [1.0, 2.0**-11]
    assert history["skip_rate"] == [1.0, 11 / 15]
    assert state.history[-1] == (26, 2.0**-11)


@pytest.mark.parametrize("mode", MODES)
def test_L3_the_first_gradient_that_was_not_finite_is_named(mode):
    variables = [keras.Variable(np.ones(2, "float32"), name=name) for name in ("first", "second", "third")]
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.0))
    steps = Steps(optimizer, variables, mode)
    assert optimizer.read_last_skip() is None

    steps.step(gradient(1, 1), gradient(1, 1), gradient(1, 1))
    assert optimizer.read_last_skip() is None

    steps.step(gradient(1, 1), gradient(1, np.inf), gradient(np.nan, 1))
    skip = optimizer.read_last_skip()
    assert (skip.step, skip.variable) == (2, variables[1].path)

    steps.step(gradient(1, 1), gradient(1, 1), gradient(1, 1))
    assert optimizer.read_last_skip() == skip

    steps.step(gradient(np.nan, 1), gradient(1, 1), gradient(1, 1))
    skip = optimizer.read_last_skip()
    assert (skip.step, skip.variable) == (4, variables[0].path)


def test_L3_variables_without_a_gradient_do_not_shift_the_name():
    variables = [keras.Variable(np.ones(2, "float32"), name=name) for name in ("first", "second", "third")]
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.0))
    steps = Steps(optimizer, variables)

    steps.step(gradient(1, 1), None, gradient(np.inf, 1))

    assert optimizer.read_last_skip().variable == variables[2].path


def test_L3_a_layer_is_named_after_fit():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.Adam())
    overflowing_fit(optimizer)

    assert optimizer.read_last_skip().step == 26
    assert optimizer.read_last_skip().variable.endswith("dense/kernel")


@pytest.mark.parametrize("mode", MODES)
def test_L4_gradients_clipped_by_hand_after_unscale_are_applied_as_they_are(mode):
    w = weight(1.0, 1.0)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicScale(1024.0))

    class ClipsByHand(Steps):
        def _apply(self, gradients):
            unscaled = self.optimizer.unscale([self._scaled(each) for each in gradients])
            return self.optimizer.apply_unscaled(
                [ops.clip(each, -0.5, 0.5) for each in unscaled], self.variables
            )

    steps = ClipsByHand(optimizer, [w], mode)

    assert steps.step(gradient(4.0, 0.25))
    np.testing.assert_array_equal(steps.values()[0], [0.5, 0.75])
    assert not steps.step(gradient(np.inf, 0.25)), (
        "clipping made the infinity finite: the step is bad all the same"
    )
    np.testing.assert_array_equal(steps.values()[0], [0.5, 0.75])
    assert optimizer.read_state().scale == 512.0


def test_L4_unscale_returns_true_gradients_in_float32():
    w = weight(1.0)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicScale(1024.0))
    optimizer.build([w])
    scaled = optimizer.scale_loss(ops.convert_to_tensor(2.0**-10))

    (true, nothing) = optimizer.unscale([ops.cast(scaled, "float16"), None])

    assert nothing is None
    assert keras.backend.standardize_dtype(true.dtype) == "float32"
    assert host(true) == 2.0**-10


def test_L4_unscale_of_a_loss_that_was_never_scaled_is_an_error():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))

    with pytest.raises(LossScaleError, match="never multiplied"):
        optimizer.unscale([ops.ones(2)])


class Gan(keras.Model):
    """Two networks, two optimizers, and a ``compile`` of its own: Keras never wraps these."""

    def __init__(self):
        super().__init__()
        self.generator = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(2)])
        self.critic = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(1)])

    def compile(self, generator_optimizer, critic_optimizer):
        super().compile()
        self.generator_optimizer, self.critic_optimizer = generator_optimizer, critic_optimizer

    def call(self, x):
        return self.critic(self.generator(x))


def train_generator(gan, scale_loss=lambda loss: loss):
    """Take a step of the generator alone, in the way of each backend."""
    variables = gan.generator.trainable_variables
    x = ops.ones((2, 2))
    if BACKEND == "tensorflow":
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss = scale_loss(ops.mean(gan(x)))
        gradients = tape.gradient(loss, variables)
    elif BACKEND == "jax":
        import jax

        def loss_function(values):
            with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
                y = gan(x)
            return scale_loss(ops.mean(y))

        gradients = jax.grad(loss_function)([variable.value for variable in variables])
    else:
        scale_loss(ops.mean(gan(x))).backward()
        gradients = [variable.value.grad for variable in variables]
    return gan.generator_optimizer.apply(gradients, variables)


def test_L5_an_update_that_no_scaler_makes_is_warned_of():
    with mk.use("mixed_float16"):
        gan = Gan()
        gan.compile(keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1))
        gan(np.zeros((2, 2), "float32"))

    with pytest.warns(MixteWarning, match="without loss scaling"):
        train_generator(gan)


def test_L5_each_optimizer_of_a_gan_has_a_scaler_of_its_own():
    with mk.use("mixed_float16"):
        gan = Gan()
        optimizers = [mk.LossScaleOptimizer(keras.optimizers.SGD(0.1), scale) for scale in (8.0, 16.0)]
        gan.compile(*optimizers)
        gan(np.zeros((2, 2), "float32"))
    before = [host(variable) for variable in gan.generator.trainable_variables]

    assert train_generator(gan, gan.generator_optimizer.scale_loss)

    assert any(
        not np.array_equal(old, host(variable))
        for old, variable in zip(before, gan.generator.trainable_variables, strict=True)
    )
    assert gan.generator_optimizer.read_state().counters["applied"] == 1
    assert gan.critic_optimizer.read_state().counters["steps"] == 0


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_L5_the_optimizers_in_a_multi_optimizer_share_one_scaler(mode):
    variables = [keras.Variable(np.ones(2, "float32"), name=name) for name in ("encoder", "head")]
    fast, slow = keras.optimizers.SGD(0.5), keras.optimizers.SGD(0.25)
    choose = keras.optimizers.OptimizerMap(default_optimizer=fast)
    choose["head"] = slow
    inner = keras.optimizers.MultiOptimizer(lambda variable: slow if variable.name == "head" else fast)
    optimizer = mk.LossScaleOptimizer(inner, 1024.0, iterations_on_skip="advance")
    steps = Steps(optimizer, variables, mode)

    assert not steps.step(gradient(1, 1), gradient(np.inf, 1))
    assert steps.step(gradient(1, 1), gradient(1, 1))

    np.testing.assert_array_equal(steps.values(), [[0.5, 0.5], [0.75, 0.75]])
    assert [int(host(each.iterations)) for each in (inner, fast, slow)] == [2, 2, 2]
    with pytest.raises(LossScaleError, match="already"):
        mk.LossScaleOptimizer(slow)
    with pytest.raises(AttributeError, match="individual sub-optimizers"):
        _ = optimizer.learning_rate


def test_L8_gradients_that_are_all_none_are_explained():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    w = weight(1.0)
    optimizer.scale_loss(1.0)

    with pytest.raises(LossScaleError, match="all 1 gradients are None: the loss does not depend"):
        optimizer.apply([None], [w])


def test_gradients_and_variables_must_be_as_many():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.scale_loss(1.0)

    with pytest.raises(InputError, match="2 gradients for 1 variables"):
        optimizer.apply([ops.ones(1), ops.ones(1)], [weight(1.0)])


def test_an_optimizer_that_is_not_built_needs_the_variables():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))
    optimizer.scale_loss(1.0)

    with pytest.raises(InputError, match="not built"):
        optimizer.apply([ops.ones(1)])

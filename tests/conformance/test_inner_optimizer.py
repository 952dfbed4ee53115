"""With loss scaling, an optimizer does what it does without: on true gradients, and on the steps that are good."""

import keras
import numpy as np
import pytest
from keras import ops

import mixte.keras as mk
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale

from .steps import EAGER_AND_FASTEST, MODES, Steps, host

GOOD = (
    ([1.0, -2.0, 0.5], [0.25]),
    ([3.0, 4.0, -1.0], [-0.5]),
    ([0.0, 1.0, 1.0], [8.0]),
    ([-1.0, 0.5, 2.0], [1.0]),
    ([2.0, 2.0, 2.0], [0.0]),
    ([0.5, -0.5, 0.25], [-4.0]),
)
"""True gradients of two variables, step by step. The scale is a power of two: scaling and unscaling are exact."""

BAD = ([np.inf, 1.0, 1.0], [1.0])

WITH_BAD = (GOOD[0], BAD, GOOD[1], GOOD[2], BAD, BAD, GOOD[3], GOOD[4], GOOD[5])

INNER = {
    "SGD": lambda: keras.optimizers.SGD(0.1),
    "SGD with momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "Adam": lambda: keras.optimizers.Adam(0.1, amsgrad=True),
    "AdamW": lambda: keras.optimizers.AdamW(0.1, weight_decay=0.1),
    "RMSprop": lambda: keras.optimizers.RMSprop(0.1),
    "weight decay": lambda: keras.optimizers.SGD(0.1, weight_decay=0.25),
    "clipnorm": lambda: keras.optimizers.SGD(0.1, clipnorm=1.0),
    "global_clipnorm": lambda: keras.optimizers.SGD(0.1, global_clipnorm=1.0),
    "clipvalue": lambda: keras.optimizers.SGD(0.1, clipvalue=1.0),
    "EMA": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5),
    "EMA that overwrites": lambda: keras.optimizers.SGD(
        0.1, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2
    ),
    "gradient accumulation": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "accumulation, clipping and EMA": lambda: keras.optimizers.SGD(
        0.1, gradient_accumulation_steps=3, clipnorm=1.0, use_ema=True
    ),
    "learning-rate schedule": lambda: keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    ),
}


def variables(dtype="float32"):
    return [keras.Variable(np.array(value, dtype), dtype=dtype) for value in ([1.0, 2.0, 3.0], [4.0])]


def run(optimizer, gradients, mode="eager", dtype="float32"):
    steps = Steps(optimizer, variables(dtype), mode)
    for pair in gradients:
        steps.step(*(np.array(gradient, dtype) for gradient in pair))
    return steps


def scaled(inner, **arguments):
    return mk.LossScaleOptimizer(inner, DynamicScale(1024.0, growth_interval=2), **arguments)


def assert_same(steps, oracle, *, rtol=0.0):
    for one, other in zip(
        [*steps.values(), *steps.inner_values()], [*oracle.values(), *oracle.inner_values()], strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=0.0)


SLOW_WITHOUT_JIT = {
    "gradient accumulation",
    "accumulation, clipping and EMA",
    "EMA that overwrites",
    "AdamW",
    "RMSprop",
}
"""On JAX, where each operation that is not compiled is dear, these are tested under jit alone."""


@pytest.mark.parametrize("name", [name for name in INNER if BACKEND != "jax" or name not in SLOW_WITHOUT_JIT])
def test_eagerly_the_result_is_that_of_the_inner_optimizer_to_the_last_bit(name):
    oracle = run(INNER[name](), GOOD)

    steps = run(scaled(INNER[name]()), WITH_BAD)

    assert_same(steps, oracle)
    assert steps.optimizer.read_state().counters["skipped"] == 3


@pytest.mark.skipif(BACKEND == "torch", reason="nothing is compiled on PyTorch")
@pytest.mark.parametrize("mode", MODES[1:] or MODES)
@pytest.mark.parametrize("name", ["AdamW", "accumulation, clipping and EMA", "EMA that overwrites"])
def test_compiled_the_result_is_that_of_the_inner_optimizer(name, mode):
    oracle = run(INNER[name](), GOOD)

    steps = run(scaled(INNER[name]()), WITH_BAD, mode)

    # A compiler may contract a product and a sum into one operation: each step differs by a few 2**-24, of values
    # that cancel to a tenth of their summands at most, over six steps.
    assert_same(steps, oracle, rtol=6 * 10 * 4 * 2.0**-24)


@pytest.mark.parametrize("mode", MODES)
def test_a_skipped_step_leaves_all_state_as_it_was_to_the_last_bit(mode):
    optimizer = scaled(keras.optimizers.Adam(0.1, use_ema=True, ema_overwrite_frequency=1, weight_decay=0.1))
    steps = Steps(optimizer, variables(), mode)
    for pair in GOOD[:2]:
        steps.step(*(np.array(gradient, "float32") for gradient in pair))
    before = [*steps.values(), *steps.inner_values()]

    assert not steps.step(*(np.array(gradient, "float32") for gradient in BAD))

    for old, new in zip(before, [*steps.values(), *steps.inner_values()], strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_only_the_given_variables_are_updated_and_the_others_keep_their_average(mode):
    inner = keras.optimizers.SGD(0.5, use_ema=True, ema_overwrite_frequency=1)
    optimizer = scaled(inner)
    first, second = variables()
    optimizer.build([first, second])
    steps = Steps(optimizer, [first], mode)
    steps.optimizer = optimizer

    assert not steps.step(np.array(BAD[0], "float32"))

    np.testing.assert_array_equal(host(first), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(host(second), [4.0])


def test_iterations_are_held_by_a_skipped_step():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.5, 0.125])
    optimizer = scaled(keras.optimizers.SGD(schedule))

    steps = run(optimizer, [GOOD[0], BAD, BAD])

    assert int(host(optimizer.iterations)) == 1
    assert host(optimizer.learning_rate) == 0.5
    assert steps.optimizer.read_state().counters["steps"] == 3


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_iterations_are_advanced_by_a_skipped_step_if_asked(mode):
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.5, 0.125])
    optimizer = scaled(keras.optimizers.SGD(schedule), iterations_on_skip="advance")

    steps = run(optimizer, [GOOD[0], BAD, BAD], mode)

    assert int(host(optimizer.iterations)) == 3
    assert host(optimizer.learning_rate) == 0.125
    np.testing.assert_array_equal(steps.values()[0], [0.5, 3.0, 2.75])


def test_a_skipped_micro_batch_is_replaced_by_the_next_one_or_left_out():
    def result(**arguments):
        optimizer = scaled(keras.optimizers.SGD(1.0, gradient_accumulation_steps=2), **arguments)
        steps = run(optimizer, [([4.0, 4.0, 4.0], [4.0]), BAD, ([8.0, 8.0, 8.0], [8.0])])
        return steps.values()[1][0], int(host(optimizer.inner_optimizer._iterations))

    assert result() == (4.0 - (4.0 + 8.0) / 2, 2), "held: the third micro-batch completes the pair"
    assert result(iterations_on_skip="advance") == (4.0, 3), "advanced: it begins a new pair"


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_float64_variables_are_updated_in_float64(mode):
    if BACKEND == "jax":
        pytest.skip("JAX has no float64 unless its process is started so")
    tiny = 2.0**-40
    optimizer = scaled(keras.optimizers.SGD(1.0))
    steps = Steps(optimizer, variables("float64"), mode)

    assert steps.step(np.array([tiny, 0.0, 2.0**200]), np.array([0.0]))

    np.testing.assert_array_equal(steps.values()[0], [1.0 - tiny, 2.0, 3.0 - 2.0**200])
    assert not steps.step(np.array([1.0, np.nan, 1.0]), np.array([0.0]))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_variables_of_16_bits_are_updated(dtype):
    w = keras.Variable(np.array([1.0, 2.0], "float32"), dtype=dtype)
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), DynamicScale(8.0))
    optimizer.build([w])
    scaled_gradient = ops.cast(
        optimizer.scale_loss(ops.convert_to_tensor(np.array([1.0, 0.5], "float32"))), dtype
    )

    assert optimizer.apply([scaled_gradient], [w])

    assert w.dtype == dtype
    np.testing.assert_array_equal(host(ops.cast(w, "float32")), [0.5, 1.75])


@pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
def test_variables_that_take_their_gradient_as_new_value_are_not_unscaled(mode):
    """Keras hands the new scale of a float8 tensor on as the gradient of the old one."""
    scale, w = keras.Variable(np.array([1.0], "float32")), keras.Variable(np.array([1.0], "float32"))
    scale.overwrite_with_gradient = True
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), DynamicScale(8.0))

    class Mixed(Steps):
        def _apply(self, gradients):
            new_scale, gradient = gradients
            return self.optimizer.apply([new_scale, self._scaled(gradient)], self.variables)

    steps = Mixed(optimizer, [scale, w], mode)

    assert steps.step(np.array([3.0], "float32"), np.array([1.0], "float32"))
    np.testing.assert_array_equal(steps.values(), [[3.0], [0.5]])
    assert not steps.step(np.array([5.0], "float32"), np.array([np.nan], "float32"))
    np.testing.assert_array_equal(steps.values(), [[3.0], [0.5]])


def test_constraints_are_kept():
    w = keras.Variable(np.array([3.0], "float32"))
    w.constraint = keras.constraints.NonNeg()
    steps = Steps(scaled(keras.optimizers.SGD(1.0)), [w])

    assert steps.step(np.array([8.0], "float32"))

    assert host(w) == 0.0


def test_gradients_that_are_none_are_passed_over():
    optimizer = scaled(keras.optimizers.SGD(1.0))
    steps = Steps(optimizer, variables())

    with pytest.warns(UserWarning, match="Gradients do not exist"):
        assert steps.step(np.array([1.0, 1.0, 1.0], "float32"), None)

    np.testing.assert_array_equal(steps.values()[0], [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(steps.values()[1], [4.0])


def test_the_learning_rate_is_that_of_the_inner_optimizer():
    optimizer = scaled(keras.optimizers.SGD(1.0))

    optimizer.learning_rate = 0.25

    assert host(optimizer.inner_optimizer.learning_rate) == 0.25
    assert host(optimizer.learning_rate) == 0.25


def test_an_optimizer_that_has_trained_keeps_its_state_when_it_is_wrapped():
    inner = keras.optimizers.SGD(0.5, momentum=0.5)
    steps = run(inner, GOOD[:2])
    momentum = host(inner.variables[2])

    optimizer = scaled(inner)
    optimizer.build(steps.variables)

    np.testing.assert_array_equal(host(inner.variables[2]), momentum)
    assert int(host(optimizer.iterations)) == 2

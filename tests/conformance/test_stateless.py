"""``stateless_minimize``: one training step on values, in compiled JAX code and wherever Keras has a stateless API."""

import keras
import numpy as np
import pytest
from keras import ops

import mixte.keras as mk
from mixte import InputError
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale

from .steps import host


def square(values, factor):
    return ops.sum(ops.square(values[0])) * factor


def square_and_more(values, factor):
    return square(values, factor), {"twice": 2 * values[0]}


def start(inner=None, **law):
    variable = keras.Variable(np.array([1.0, -2.0], "float32"))
    inner = keras.optimizers.SGD(0.125) if inner is None else inner
    optimizer = mk.LossScaleOptimizer(inner, DynamicScale(64.0, growth_interval=2, **law))
    optimizer.build([variable])
    return optimizer, [variable.value + 0], [each.value + 0 for each in optimizer.variables]


@pytest.fixture(params=[False, True], ids=["eager", "jit"])
def minimize(request):
    if BACKEND == "tensorflow":
        pytest.skip("Keras optimizers have no stateless form on TensorFlow")
    if not request.param:
        return mk.stateless_minimize
    if BACKEND != "jax":
        pytest.skip("nothing is compiled on PyTorch")
    import jax

    return jax.jit(mk.stateless_minimize, static_argnums=(0, 1), static_argnames=("has_aux",))


def test_a_step_is_that_of_gradient_descent_and_the_loss_is_not_scaled(minimize):
    optimizer, values, state = start()

    loss, values, state, applied = minimize(optimizer, square, values, state, 1.0)

    assert float(host(loss)) == 5.0
    np.testing.assert_array_equal(host(values[0]), [0.75, -1.5])
    assert bool(host(applied))
    assert optimizer.stateless_read_state(state).counters["applied"] == 1
    assert optimizer.read_state().counters["applied"] == 0, "the optimizer's own variables are not touched"


def test_a_loss_that_is_not_finite_is_the_cause_of_the_skip(minimize):
    optimizer, values, state = start()

    loss, values, state, applied = minimize(optimizer, square, values, state, np.float32(np.inf))

    assert float(host(loss)) == np.inf
    np.testing.assert_array_equal(host(values[0]), [1.0, -2.0])
    assert not bool(host(applied))
    after = optimizer.stateless_read_state(state)
    assert (after.scale, after.counters["skipped_loss"], after.counters["skipped"]) == (32.0, 1, 1)


def test_what_the_loss_function_returns_beside_the_loss_is_handed_on(minimize):
    optimizer, values, state = start()

    result = minimize(optimizer, square_and_more, values, state, 1.0, has_aux=True)

    (loss, more) = result.value
    assert float(host(loss)) == 5.0
    np.testing.assert_array_equal(host(more["twice"]), [2.0, -4.0])
    np.testing.assert_array_equal(host(result.trainable_variables[0]), [0.75, -1.5])


def test_the_scale_grows_in_the_returned_state(minimize):
    optimizer, values, state = start()
    for _ in range(4):
        _, values, state, _ = minimize(optimizer, square, values, state, 1.0)

    assert optimizer.stateless_read_state(state).history == ((2, 128.0), (4, 256.0))


def test_stateful_inner_state_is_in_the_returned_values(minimize):
    optimizer, values, state = start(keras.optimizers.SGD(0.125, momentum=0.5))
    for _ in range(2):
        _, values, state, _ = minimize(optimizer, square, values, state, 1.0)

    # velocity: -0.25 w, then half of it minus 0.25 of the new w. From 1: 0.75, then 0.75 - 0.125 - 0.1875.
    np.testing.assert_array_equal(host(values[0]), [0.4375, -0.875])


def test_on_tensorflow_the_error_names_the_stateful_calls():
    if BACKEND != "tensorflow":
        pytest.skip("about TensorFlow")
    optimizer, values, state = start()

    with pytest.raises(InputError, match="gradient tape"):
        mk.stateless_minimize(optimizer, square, values, state, 1.0)


def test_wrong_arguments_are_refused():
    if BACKEND == "tensorflow":
        pytest.skip("there the backend is refused first")
    optimizer, values, state = start()
    with pytest.raises(InputError, match="LossScaleOptimizer"):
        mk.stateless_minimize(optimizer.inner_optimizer, square, values, state, 1.0)
    unbuilt = mk.LossScaleOptimizer(keras.optimizers.SGD(0.125))
    with pytest.raises(InputError, match=r"optimizer\.build"):
        mk.stateless_minimize(unbuilt, square, values, state, 1.0)


def test_keras_own_stateless_calls_work_as_in_its_guide():
    if BACKEND != "jax":
        pytest.skip("about JAX")
    import jax

    optimizer, values, state = start()

    @jax.jit
    def step(values, state):
        gradients = jax.grad(lambda v: optimizer.stateless_scale_loss(state, square(v, 1.0)))(values)
        return optimizer.stateless_apply(state, gradients, values)

    values, state = step(values, state)

    np.testing.assert_array_equal(host(values[0]), [0.75, -1.5])


def test_the_scale_is_not_lost_when_a_loop_holds_the_loss_in_a_scan():
    """A flag of a trace inside the scan must not leak into the update outside it."""
    if BACKEND != "jax":
        pytest.skip("about JAX")
    import jax

    optimizer, values, state = start()

    @jax.jit
    def step(values, state):
        def micro_batch(total, factor):
            gradients = jax.grad(lambda v: optimizer.stateless_scale_loss(state, square(v, factor)))(values)
            return jax.tree.map(lambda a, b: a + b, total, gradients), None

        zeros = jax.tree.map(lambda v: v * 0, values)
        gradients, _ = jax.lax.scan(micro_batch, zeros, np.array([0.25, 0.75], np.float32))
        return optimizer.stateless_apply(state, gradients, values)

    values, state = step(values, state)

    np.testing.assert_array_equal(host(values[0]), [0.75, -1.5])
    assert optimizer.stateless_read_state(state).counters["applied"] == 1

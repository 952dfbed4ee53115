"""The getter for tf.compat.v1.variable_scope, in TensorFlow 1 graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import tensorflow as tf

from mixte.tensorflow import float32_variable_storage_getter

if TYPE_CHECKING:
    from collections.abc import Iterator

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def scope(**arguments: object) -> object:
    return v1.variable_scope("model", custom_getter=float32_variable_storage_getter, **arguments)


def run(*fetches: object) -> list[np.ndarray]:
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(list(fetches))


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_trainable_variable_is_stored_in_float32_and_handed_out_in_the_dtype_asked(dtype: tf.DType) -> None:
    with scope():
        value = v1.get_variable("w", [3, 2], dtype)
    (variable,) = v1.trainable_variables()
    assert value.dtype == dtype
    assert variable.dtype.base_dtype == tf.float32
    assert variable.op.name == "model/w"
    stored, handed_out = run(variable, value)
    np.testing.assert_array_equal(handed_out, stored.astype(dtype.as_numpy_dtype))


def test_variable_that_is_not_trainable_has_the_dtype_asked() -> None:
    with scope():
        v1.get_variable("step", [], tf.float16, trainable=False)
        v1.get_variable("read", [], tf.float16, synchronization=tf.VariableSynchronization.ON_READ)
    assert [variable.dtype.base_dtype for variable in v1.global_variables()] == [tf.float16, tf.float16]


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32])
def test_other_dtypes_are_made_as_asked(dtype: tf.DType) -> None:
    with scope():
        value = v1.get_variable("w", [2], dtype, v1.zeros_initializer())
    assert value.dtype.base_dtype == dtype
    assert isinstance(value, tf.Variable)


def test_initializer_given_as_a_float16_value_is_widened() -> None:
    with scope():
        v1.get_variable("w", dtype=tf.float16, initializer=tf.constant([0.5, 0.25], tf.float16))
    (variable,) = v1.trainable_variables()
    assert variable.dtype.base_dtype == tf.float32
    assert run(variable)[0].tolist() == [0.5, 0.25]


def test_regularizer_sees_float32() -> None:
    seen = []

    def regularizer(weights: tf.Tensor) -> tf.Tensor:
        seen.append(weights.dtype.base_dtype)
        return tf.reduce_sum(weights * weights)

    with scope():
        v1.get_variable("w", [2], tf.float16, regularizer=regularizer)
    assert set(seen) == {tf.float32}


def test_shared_variable_is_stored_once() -> None:
    with scope(reuse=v1.AUTO_REUSE):
        first = v1.get_variable("w", [2], tf.float16)
        second = v1.get_variable("w", [2], tf.float16)
    assert len(v1.trainable_variables()) == 1
    one, other = run(first, second)
    assert np.array_equal(one, other)


def test_partitioned_variable_is_stored_in_float32_shards() -> None:
    with scope(partitioner=v1.fixed_size_partitioner(2)):
        value = v1.get_variable("w", [4, 2], tf.float16)
    assert value.dtype == tf.float16
    assert value.shape == (4, 2)
    assert [variable.dtype.base_dtype for variable in v1.trainable_variables()] == [tf.float32] * 2


def test_getters_nest_also_when_called_by_position() -> None:
    def outer_style(getter: object, name: str, *arguments: object, **named: object) -> object:
        shape, dtype = named.pop("shape"), named.pop("dtype")
        return getter(name, shape, dtype, *arguments, **named)

    with scope(), v1.variable_scope("part", custom_getter=outer_style):
        value = v1.get_variable("w", [2], tf.float16)
    assert value.dtype == tf.float16
    assert v1.trainable_variables()[0].dtype.base_dtype == tf.float32


def test_gradients_reach_the_variable_in_float32_and_equal_numpys_exactly() -> None:
    # Small integers times float16 numbers: every product and sum is exact in float16, so the result is exact.
    random = np.random.default_rng(0)
    rows = random.integers(-3, 4, (4, 8)).astype(np.float16)
    kernel = (random.integers(-8, 9, (8, 3)) / 4).astype(np.float32)
    with scope():
        weights = v1.get_variable("w", kernel.shape, tf.float16, v1.constant_initializer(kernel))
    loss = tf.reduce_sum(tf.cast(tf.matmul(rows, weights), tf.float32) ** 2)
    (gradient,) = tf.gradients(loss, v1.trainable_variables())
    assert gradient.dtype == tf.float32
    exact = 2 * rows.astype(np.float32).T @ (rows.astype(np.float32) @ kernel)
    np.testing.assert_array_equal(run(gradient)[0], exact)


def test_compute_sees_the_rounded_weight_and_storage_keeps_the_rest() -> None:
    # 1 + 2**-12 is 1 in float16: the gradient of w**2 is 2 x 1, not 2 x (1 + 2**-12).
    with scope():
        weight = v1.get_variable("w", [], tf.float16, v1.constant_initializer(1 + 2.0**-12))
    (gradient,) = tf.gradients(tf.cast(weight * weight, tf.float32), v1.trainable_variables())
    stored, found = run(v1.trainable_variables()[0], gradient)
    assert stored == np.float32(1 + 2.0**-12)
    assert found == 2.0


def test_float16_gradients_of_a_softmax_layer_are_within_their_rounding_error_of_float64() -> None:
    rows_count, inputs, outputs = 4, 8, 3
    random = np.random.default_rng(1)
    rows = random.standard_normal((rows_count, inputs)).astype(np.float16)
    kernel = (random.standard_normal((inputs, outputs)) / 4).astype(np.float16)
    target = np.eye(outputs)[random.integers(0, outputs, rows_count)]
    with scope():
        weights = v1.get_variable("w", dtype=tf.float16, initializer=tf.constant(kernel))
    logits = tf.cast(tf.matmul(rows, weights), tf.float32)
    loss = v1.losses.softmax_cross_entropy(target, logits)
    (gradient,) = tf.gradients(128 * loss, v1.trainable_variables())
    found = run(gradient)[0].astype(np.float64) / 128

    x, w = rows.astype(np.float64), kernel.astype(np.float64)
    exponentials = np.exp(x @ w)
    error = (exponentials / exponentials.sum(1, keepdims=True) - target) / rows_count
    exact = x.T @ error

    # Rounding to float16 errs by at most u = 2**-11 of the value, and 2**-25 below the normal range; a dot
    # product of n terms, each step rounded, by at most g(n) = n u / (1 - n u) of the sum of magnitudes (Higham,
    # Accuracy and Stability of Numerical Algorithms, section 3.1). A softmax output moves by at most half of
    # the largest change of a logit. The float32 steps between are 2**13 times finer: a hundredth covers them.
    u = 2.0**-11

    def g(n: int) -> float:
        return n * u / (1 - n * u)

    logit_error = g(inputs) * (np.abs(x) @ np.abs(w)).max(1, keepdims=True)
    error_error = logit_error / 2 / rows_count + u * np.abs(error) + 2.0**-25 / 128
    magnitude = np.abs(x).T @ (np.abs(error) + error_error)
    bound = np.abs(x).T @ error_error + g(rows_count) * magnitude + 2.0**-25 / 128
    assert (np.abs(found - exact) <= 1.01 * bound).all()
    assert (bound < np.abs(exact).max() / 10).all()  # a bound that says something

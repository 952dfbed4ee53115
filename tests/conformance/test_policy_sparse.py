"""Gradients of an embedding: sparse on TensorFlow, dense on JAX and PyTorch, and applied alike."""

import keras
import numpy as np
import pytest
from keras import layers

import mixte.keras as mk
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale

from .steps import MODES, host

ROWS, WIDTH = 50, 2
LAW = DynamicScale(2.0**6, growth_interval=100)


def model():
    """A table whose rows are summed by a fixed output: the gradient of a row that is used is 1 for each use."""
    x = layers.Input((3,), dtype="int32")
    rows = layers.Embedding(ROWS, WIDTH, embeddings_initializer="ones", name="table")(x)
    summed = layers.Dense(1, kernel_initializer="ones", use_bias=False, trainable=False, name="out")(
        layers.Flatten()(rows)
    )
    return keras.Model(x, summed)


def batch():
    return np.array([[3, 3, 7], [7, 0, 3]], "int32")


def total(y, y_pred):
    return keras.ops.sum(y * y_pred)


def optimizer_that_looks(kinds, inner=None):
    """Return an optimizer that notes the types of the gradients that reach it."""
    base = type(inner or keras.optimizers.SGD(0.5))

    class Looking(base):
        def apply(self, grads, trainable_variables=None):
            grads = list(grads)
            kinds.extend(type(each).__name__ for each in grads)
            return super().apply(grads, trainable_variables)

    return Looking(0.5)


def trained(build, scale, factor, run_eagerly):
    kinds = []
    built = build()
    inner = optimizer_that_looks(kinds)
    optimizer = mk.LossScaleOptimizer(inner, LAW) if scale else inner
    built.compile(optimizer, loss=total, run_eagerly=run_eagerly, auto_scale_loss=False)
    built.train_on_batch(batch(), np.full((2, 1), factor, "float32"))
    return built, optimizer, kinds


def mixed():
    built = model()
    mk.apply(built, "mixed_float16")
    return built


@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "compiled"])
def test_gradients_of_an_embedding_are_applied_as_in_float32(run_eagerly):
    plain, _, _ = trained(model, scale=False, factor=0.25, run_eagerly=run_eagerly)
    scaled, optimizer, kinds = trained(mixed, scale=True, factor=0.25, run_eagerly=run_eagerly)

    expected = np.ones((ROWS, WIDTH), "float32")
    for row in batch().ravel():
        expected[row] -= 0.5 * 0.25  # the learning rate times the factor: all of it exact in float16
    np.testing.assert_array_equal(host(plain.variables[0]), expected)
    np.testing.assert_array_equal(host(scaled.variables[0]), expected)
    assert optimizer.read_state().counters["applied"] == 1
    if BACKEND == "tensorflow":
        assert set(kinds) == {"IndexedSlices"}, "it was made dense on the way"


@pytest.mark.parametrize("run_eagerly", [True, False], ids=["eager", "compiled"])
def test_an_overflow_of_rows_skips_the_whole_step(run_eagerly):
    # 2**6 * 2000 exceeds 65504: the gradient of each row in float16 is inf.
    built, optimizer, _ = trained(mixed, scale=True, factor=2000.0, run_eagerly=run_eagerly)

    np.testing.assert_array_equal(host(built.variables[0]), np.ones((ROWS, WIDTH), "float32"))
    counters = optimizer.read_state().counters
    assert (counters["applied"], counters["skipped_inf"]) == (0, 1)
    assert optimizer.read_state().scale == 2.0**5
    assert optimizer.read_last_skip().variable == built.variables[0].path


def slices(values, indices):
    """Return a sparse gradient of the table in the form of the backend."""
    values = np.asarray(values, "float32")
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([ROWS, WIDTH]))
    import torch

    # Checked: PyTorch warns where nobody says whether to check.
    return torch.sparse_coo_tensor(
        torch.tensor([indices]), torch.tensor(values), (ROWS, WIDTH), check_invariants=True
    )


sparse_only = pytest.mark.skipif(BACKEND == "jax", reason="JAX has no sparse gradients")


@sparse_only
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_value_that_is_not_finite_in_one_row_skips_the_step(bad):
    table = keras.Variable(np.ones((ROWS, WIDTH), "float32"), name="table")
    other = keras.Variable(np.ones(2, "float32"), name="other")
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), LAW)
    optimizer.build([table, other])
    optimizer.scale_loss(1.0)

    applied = optimizer.apply(
        [slices([[1, 1], [1, bad], [1, 1]], [4, 9, 4]), keras.ops.ones(2)], [table, other]
    )

    assert not bool(host(applied))
    np.testing.assert_array_equal(host(table), np.ones((ROWS, WIDTH), "float32"))
    np.testing.assert_array_equal(host(other), np.ones(2, "float32"))
    counters = optimizer.read_state().counters
    assert counters["skipped_nan" if np.isnan(bad) else "skipped_inf"] == 1
    assert optimizer.read_last_skip().variable == table.path


@sparse_only
def test_rows_that_come_twice_are_added_and_others_are_left_alone():
    table = keras.Variable(np.ones((ROWS, WIDTH), "float32"), name="table")
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), LAW)
    optimizer.build([table])
    scale = float(host(optimizer.scale_loss(1.0)))

    assert bool(host(optimizer.apply([slices(np.array([[1, 2], [3, 4], [5, 6]]) * scale, [4, 9, 4])], [table])))

    expected = np.ones((ROWS, WIDTH), "float32")
    expected[4] -= [3.0, 4.0]
    expected[9] -= [1.5, 2.0]
    np.testing.assert_array_equal(host(table), expected)


@sparse_only
def test_unscaled_sparse_gradients_stay_sparse_and_float32():
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), LAW)
    table = keras.Variable(np.ones((ROWS, WIDTH), "float32"), name="table")
    optimizer.build([table])
    optimizer.scale_loss(1.0)
    gradient = slices([[2.0**6, 0], [0, 2.0**5]], [4, 9])

    (unscaled,) = optimizer.unscale([gradient])

    assert type(unscaled) is type(gradient)
    if BACKEND == "tensorflow":
        np.testing.assert_array_equal(unscaled.values, [[1, 0], [0, 0.5]])
        np.testing.assert_array_equal(unscaled.indices, [4, 9])
    else:
        assert unscaled.is_sparse
        np.testing.assert_array_equal(unscaled.coalesce().values().numpy(), [[1, 0], [0, 0.5]])


tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="only TensorFlow has IndexedSlices")


@tensorflow_only
def test_D11_keras_makes_a_sparse_gradient_dense_to_look_at_it():
    finite = keras.ops.isfinite(slices([[1, 1]], [4]))

    assert tuple(finite.shape) == (ROWS, WIDTH)


@tensorflow_only
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "eager"])
def test_D11_a_sparse_gradient_is_looked_at_by_its_values_only(mode):
    import tensorflow as tf

    table = keras.Variable(np.ones((ROWS, WIDTH), "float32"), name="table")
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), LAW)
    optimizer.build([table])

    @tf.function(jit_compile=mode == "xla")
    def step(values):
        optimizer.scale_loss(1.0)
        (gradient,) = optimizer.unscale([tf.IndexedSlices(values, [4, 9], [ROWS, WIDTH])])
        optimizer.apply_unscaled([gradient])

    graph = step.get_concrete_function(tf.TensorSpec([2, WIDTH])).graph
    functions = [graph, *(graph._get_function(name).graph for name in graph._functions)]
    operations = [operation for each in functions for operation in each.get_operations()]
    dense = {
        operation.type
        for operation in operations
        for tensor in operation.outputs
        if tensor.shape.rank and tensor.shape[0] == ROWS
    }
    # The update reads the table and writes it; where both are selected, under XLA, the selection is as large.
    assert dense <= {"ReadVariableOp", *(("SelectV2", "Identity") if mode == "xla" else ())}
    assert any(operation.type == "ResourceScatterSub" for operation in operations) or mode == "xla"

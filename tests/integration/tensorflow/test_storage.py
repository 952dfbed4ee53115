"""Variables stored in float32 and read in 16 bits, in tf.Module code: eager, traced and compiled."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import pytest
import tensorflow as tf

from mixte import InputError
from mixte.tensorflow import AutocastVariable, float32_variable_storage, master_weight

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODES = {
    "eager": lambda function: function,
    "traced": tf.function,
    "compiled": lambda function: tf.function(function, jit_compile=True),
}
mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())


class Dense(tf.Module):
    """As a user writes it: it knows nothing of mixte."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.ones([inputs, outputs]))
        self.bias = tf.Variable(tf.zeros([outputs]))
        self.calls = tf.Variable(0.0, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def predict(self, rows: tf.Tensor) -> tf.Tensor:
        return self(tf.cast(rows, tf.as_dtype(tf.convert_to_tensor(self.kernel).dtype)))

    def __call__(self, rows: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.matmul(rows, self.kernel) + self.bias)


def stored(value: object, dtype: str = "float16") -> AutocastVariable:
    with float32_variable_storage(dtype):
        return tf.Variable(value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@mode
def test_module_computes_in_16_bits_and_its_gradients_are_float32(mode: Callable, dtype: str) -> None:
    with float32_variable_storage(dtype):
        model = Dense(4, 3)
    rows = tf.cast([[1.0, 2.0, 3.0, 4.0]], dtype)

    with tf.GradientTape() as tape:
        output = mode(model)(rows)
        loss = tf.reduce_sum(tf.cast(output, tf.float32))
    gradients = tape.gradient(loss, [model.kernel, model.bias])

    assert output.dtype == dtype
    assert [gradient.dtype for gradient in gradients] == [tf.float32, tf.float32]
    np.testing.assert_array_equal(gradients[0], np.repeat([[1], [2], [3], [4]], 3, axis=1))
    np.testing.assert_array_equal(gradients[1], [1, 1, 1])


def test_module_lists_its_variables_as_usual() -> None:
    with float32_variable_storage():
        model = Dense(4, 3)
    assert len(model.variables) == 3
    assert {id(variable) for variable in model.trainable_variables} == {id(model.kernel), id(model.bias)}
    assert model.calls.dtype == tf.float32
    assert not isinstance(model.calls, AutocastVariable)


@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.Variable(1.0),
        lambda: tf.Variable([1.0]),
        lambda: tf.Variable(np.ones(2, np.float32)),
        lambda: tf.Variable(tf.ones([2], tf.float16)),
        lambda: tf.Variable(tf.ones([2], tf.bfloat16)),
        lambda: tf.Variable(1.0, dtype=tf.float16),
        lambda: tf.Variable(np.ones(2, np.float16), dtype=tf.float16),
        lambda: tf.Variable(lambda: tf.ones([2])),
        lambda: tf.Variable(lambda: tf.ones([2], tf.float16)),
        lambda: tf.Variable(lambda: tf.ones([2], tf.float16), dtype=tf.float16),
        lambda: tf.Variable(1.0, trainable=True, name="w", shape=tf.TensorShape(None)),
    ],
)
def test_trainable_floating_variable_is_stored_in_float32_however_it_is_made(make: Callable) -> None:
    with float32_variable_storage():
        variable = make()
    assert isinstance(variable, AutocastVariable)
    assert isinstance(variable, tf.Variable)
    assert variable.trainable
    assert variable.dtype == tf.float32
    assert tf.convert_to_tensor(variable).dtype == variable.compute_dtype == tf.float16


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        (lambda: tf.Variable(1), tf.int32),
        (lambda: tf.Variable(1.0, dtype=tf.float64), tf.float64),
        (lambda: tf.Variable(1.0, trainable=False), tf.float32),
        (lambda: tf.Variable(1.0, trainable=False, dtype=tf.float16), tf.float16),
        (lambda: tf.Variable(1.0, synchronization=tf.VariableSynchronization.ON_READ), tf.float32),
    ],
)
def test_other_variables_are_made_as_asked(make: Callable, dtype: tf.DType) -> None:
    with float32_variable_storage():
        variable = make()
    assert not isinstance(variable, AutocastVariable)
    assert variable.dtype == dtype


def test_innermost_context_decides_and_the_outer_one_is_back_after_an_exception() -> None:
    with float32_variable_storage("float16"):
        with float32_variable_storage("bfloat16"):
            inner = tf.Variable(1.0)
        with float32_variable_storage("float32"):
            plain = tf.Variable(1.0)
        with pytest.raises(RuntimeError, match="inside"), float32_variable_storage("bfloat16"):
            raise RuntimeError("inside")
        outer = tf.Variable(1.0)
    after = tf.Variable(1.0)
    assert inner.compute_dtype == tf.bfloat16
    assert inner.master.dtype == tf.float32
    assert not isinstance(inner.master, AutocastVariable)
    assert not isinstance(plain, AutocastVariable)
    assert outer.compute_dtype == tf.float16
    assert not isinstance(after, AutocastVariable)


@pytest.mark.parametrize("dtype", ["half", "float64", "int8", None, 16])
def test_wrong_compute_dtype_is_refused_with_what_is_allowed(dtype: object) -> None:
    with pytest.raises(InputError, match="float16, bfloat16, float32"), float32_variable_storage(dtype):
        pass


def test_dtype_objects_are_taken() -> None:
    with float32_variable_storage(tf.bfloat16):
        assert tf.Variable(1.0).compute_dtype == tf.bfloat16


@mode
def test_every_use_as_a_tensor_has_the_compute_dtype(mode: Callable) -> None:
    w = stored([[1.0, 2.0], [3.0, 4.0]])
    half = tf.ones([2, 2], tf.float16)

    def uses() -> list[tf.Tensor]:
        return [
            w + half, half + w, w - half, half - w, w * half, half * w, w / half, half / w, w @ half, half @ w,
            -w, abs(w), w**2, w * 2, 2 * w, w[0], w[:, 1], w.value(), w.read_value(), tf.identity(w),
            tf.add(half, w), tf.matmul(half, w), tf.nn.relu(w), tf.reduce_sum(w), tf.stack([w, w]),
            tf.concat([w, half], 0), tf.convert_to_tensor(w), tf.raw_ops.Mul(x=half, y=w), w.sparse_read([0]),
            tf.gather(w, [1]), tf.nn.embedding_lookup(w, [1]), tf.where(half > 0, w, half),
        ]  # fmt: skip

    assert {tensor.dtype for tensor in mode(uses)()} == {tf.float16}


def test_gathered_slices_have_the_compute_dtype() -> None:
    # By itself, because XLA has no kernel for it on any variable.
    assert stored([[1.0, 2.0], [3.0, 4.0]]).gather_nd([[0, 1]]).dtype == tf.float16


def test_value_is_the_rounded_one_and_numpy_is_the_stored_one() -> None:
    w = stored(1 + 2.0**-12)
    assert float(w.value()) == 1.0
    assert w.numpy() == np.asarray(w) == np.float32(1 + 2.0**-12)
    assert float(w) == 1 + 2.0**-12


@mode
def test_updates_that_float16_would_lose_are_kept(mode: Callable) -> None:
    # 1 + 2**-12 rounds to 1 in float16: 16 such additions would change nothing.
    w = stored(1.0)
    add = mode(lambda: w.assign_add(2.0**-12))
    for _ in range(16):
        add()
    assert w.numpy() == np.float32(1 + 2.0**-8)


def test_assignments_take_16_bit_tensors_lists_and_arrays() -> None:
    w = stored([1.0, 2.0])
    assert w.assign(tf.constant([3, 4], tf.float16)) is w
    assert w.numpy().tolist() == [3, 4]
    w.assign([5.0, 6.0])
    w.assign(np.array([7.0, 8.0]))
    w.assign_sub(tf.constant([1, 1], tf.bfloat16)).assign_add(np.float32([0.5, 0.5]))
    assert w.numpy().tolist() == [6.5, 7.5]
    w[1:].assign([9.0])
    w.scatter_update(tf.IndexedSlices(tf.constant([1.0]), tf.constant([0])))
    assert w.numpy().tolist() == [1, 9]


def test_assigning_another_stored_variable_copies_float32() -> None:
    source, target = stored(1 + 2.0**-12), stored(0.0)
    target.assign(source)
    assert target.numpy() == source.numpy()


def test_assignment_in_a_tf_function_happens_in_program_order() -> None:
    w = stored(1.0)

    @tf.function
    def function() -> tuple[tf.Tensor, tf.Tensor]:
        before = w * 1
        w.assign(w * 4)
        return before, w * 1

    assert [float(value) for value in function()] == [1, 4]


def test_in_place_operators_are_refused_as_tensorflow_does() -> None:
    w = stored(1.0)
    with pytest.raises(RuntimeError, match="assign_add"):
        w += 1


def test_float32_operand_is_refused_naming_both_dtypes() -> None:
    w = stored([1.0])
    with pytest.raises(ValueError, match=r"read in float16.*float32.*master_weight"):
        tf.convert_to_tensor(w, tf.float32)


def test_master_weight_gives_the_float32_variable_and_leaves_others() -> None:
    w, plain = stored(1 + 2.0**-12), tf.Variable(1.0)
    assert master_weight(w).dtype == tf.convert_to_tensor(master_weight(w)).dtype == tf.float32
    assert master_weight(plain) is plain


def test_embedding_gradient_stays_sparse_and_float32() -> None:
    table = stored(np.ones((1000, 4), np.float32))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(tf.nn.embedding_lookup(table, [1, 1, 7]), tf.float32))
    gradient = tape.gradient(loss, table)
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.values.dtype == tf.float32
    assert gradient.indices.numpy().tolist() == [1, 1, 7]


def test_argument_of_a_tf_function_is_still_read_in_16_bits() -> None:
    traces = []

    @tf.function
    def double(variable: tf.Variable) -> tf.Tensor:
        traces.append(variable)
        return variable * tf.constant(2, tf.float16)

    first, second = stored([1.0]), stored([3.0])
    assert [float(double(variable)[0]) for variable in (first, second, first)] == [2, 6, 2]
    first.assign([5.0])
    assert float(double(first)[0]) == 10
    assert [id(variable) for variable in traces] == [id(first), id(second)]


def test_copy_of_a_module_has_its_own_float32_variables() -> None:
    with float32_variable_storage():
        model = Dense(4, 3)
    twin = copy.deepcopy(model)
    twin.kernel.assign_add(tf.ones([4, 3]))
    assert isinstance(twin.kernel, AutocastVariable)
    assert twin.kernel.compute_dtype == tf.float16
    assert model.kernel.numpy()[0, 0] == 1
    assert twin.kernel.numpy()[0, 0] == 2


@pytest.mark.parametrize(("saved_in", "restored_in"), [("float16", "float32"), ("float32", "float16")])
def test_checkpoints_are_float32_and_pass_between_precisions(
    tmp_path: Path, saved_in: str, restored_in: str
) -> None:
    exact = np.full((4, 3), 1 + 2.0**-20, np.float32)
    with float32_variable_storage(saved_in):
        source = Dense(4, 3)
    source.kernel.assign(exact)
    path = tf.train.Checkpoint(model=source).write(str(tmp_path / "checkpoint"))
    with float32_variable_storage(restored_in):
        target = Dense(4, 3)
    tf.train.Checkpoint(model=target).read(path).assert_consumed()
    np.testing.assert_array_equal(target.kernel.numpy(), exact)
    assert dict(tf.train.list_variables(path)).keys() >= {"model/kernel/.ATTRIBUTES/VARIABLE_VALUE"}


def test_asynchronous_checkpoint_holds_the_values(tmp_path: Path) -> None:
    with float32_variable_storage():
        source = Dense(4, 3)
    source.kernel.assign(np.full((4, 3), 1 + 2.0**-20, np.float32))
    checkpoint = tf.train.Checkpoint(model=source)
    options = tf.train.CheckpointOptions(enable_async=True)
    path = checkpoint.save(str(tmp_path / "checkpoint"), options=options)
    checkpoint.sync()
    target = Dense(4, 3)
    tf.train.Checkpoint(model=target).restore(path).assert_existing_objects_matched()
    np.testing.assert_array_equal(target.kernel.numpy(), source.kernel.numpy())


def test_saved_model_computes_in_16_bits_from_float32_variables(tmp_path: Path) -> None:
    with float32_variable_storage():
        model = Dense(4, 3)
    rows = tf.constant([[1.0, 2.0, 3.0, 4.0]])
    expected = model.predict(rows)
    tf.saved_model.save(model, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    output = loaded.predict(rows)
    assert output.dtype == tf.float16
    np.testing.assert_array_equal(output, expected)
    assert loaded.kernel.dtype == tf.float32


def test_optimizer_of_tensorflow_1_updates_the_float32_variable_with_float32_slots() -> None:
    with float32_variable_storage():
        model = Dense(4, 3)
    optimizer = tf.compat.v1.train.AdamOptimizer(2.0**-12, epsilon=0.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(model(tf.ones([2, 4], tf.float16)), tf.float32))
    variables = [model.kernel, model.bias]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    # Adam's first step is the learning rate, which 1.0 in float16 would not notice.
    assert 0 < 1 - model.kernel.numpy()[0, 0] < 2.0**-11
    assert {variable.dtype for variable in optimizer.variables()} == {tf.float32}


def test_variables_work_in_a_tensorflow_1_graph() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        with float32_variable_storage():
            w = tf.Variable(1.0)
        loss = tf.cast(w * w, tf.float32)
        (gradient,) = tf.gradients(loss, [w])
        update = w.assign_add(2.0**-12)
        session.run(v1.global_variables_initializer())
        assert gradient.dtype == tf.float32
        assert session.run([w.value(), gradient]) == [1.0, 2.0]
        session.run(update)
        assert session.run(master_weight(w)) == np.float32(1 + 2.0**-12)


def test_representation_names_the_compute_dtype() -> None:
    assert "read in float16" in repr(stored(1.0))

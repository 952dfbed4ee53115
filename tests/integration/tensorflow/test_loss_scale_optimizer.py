"""The loss-scale optimizer around tf.compat.v1.train optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf

from mixte import InputError, LossScaleError
from mixte.scaling import PRESETS, DynamicScale, FixedScale
from mixte.tensorflow import LossScaleOptimizer, float32_variable_storage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

v1 = tf.compat.v1


def nonzero(counters: dict[str, Any]) -> dict[str, int]:
    return {name: int(value) for name, value in counters.items() if int(value)}


def test_steps_in_a_graph_are_applied_unscaled_or_skipped_with_global_step_held() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=8.0)
        factor = v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(
            v1.train.GradientDescentOptimizer(1.0), DynamicScale(1024, growth_interval=2)
        )
        global_step = v1.train.get_or_create_global_step()
        train = optimizer.minimize(factor * weight, global_step=global_step)
        session.run(v1.global_variables_initializer())
        seen = []
        for value in (1.0, 2.0, 1e36, 1.0, 1.0):
            scale = session.run(optimizer.loss_scale)
            session.run(train, {factor: value})
            seen.append((float(scale), *map(float, session.run([weight, global_step]))))
        assert seen == [(1024, 7, 1), (1024, 5, 2), (2048, 5, 2), (1024, 4, 3), (1024, 3, 4)]
        assert session.run(optimizer.loss_scale) == 2048
        counters = nonzero(session.run(optimizer.counters))
        assert counters == {"steps": 5, "applied": 4, "skipped": 1, "skipped_inf": 1}


@pytest.mark.parametrize("mode", [lambda step: step, tf.function], ids=["eager", "traced"])
def test_steps_outside_a_graph_do_the_same(mode: Callable) -> None:
    weight = tf.Variable(8.0)
    optimizer = LossScaleOptimizer(
        v1.train.GradientDescentOptimizer(1.0), DynamicScale(1024, growth_interval=2)
    )

    @mode
    def step(factor: tf.Tensor) -> None:
        optimizer.minimize(lambda: factor * weight, var_list=[weight])

    seen = []
    for value in (1.0, 2.0, 1e36, 1.0, 1.0):
        scale = float(optimizer.loss_scale)
        step(tf.constant(value))
        seen.append((scale, float(weight)))
    assert seen == [(1024, 7), (1024, 5), (2048, 5), (1024, 4), (1024, 3)]
    assert nonzero(optimizer.counters) == {"steps": 5, "applied": 4, "skipped": 1, "skipped_inf": 1}


@pytest.mark.parametrize("mode", [lambda step: step, tf.function], ids=["eager", "traced"])
def test_optimizer_with_slots_works_traced(mode: Callable) -> None:
    weight = tf.Variable(8.0)
    optimizer = LossScaleOptimizer(v1.train.AdamOptimizer(0.5), FixedScale(128))

    @mode
    def step(factor: tf.Tensor) -> None:
        optimizer.minimize(lambda: factor * weight, var_list=[weight])

    step(tf.constant(1.0))
    momentum = optimizer.get_slot(weight, "m").numpy()
    assert momentum == np.float32(1) - np.float32(0.9)
    step(tf.constant(np.inf))
    assert optimizer.get_slot(weight, "m").numpy() == momentum
    assert weight.numpy() == pytest.approx(7.5, abs=1e-6)  # Adam's epsilon of 1e-8 against a gradient of 1
    assert optimizer.base_optimizer.get_slot_names() == ["m", "v"]


def paired_training(optimizer: Any, *, steps: int = 12) -> list[np.ndarray]:
    """Weights after each step of a float16 layer in a graph, with an overflow in step 5."""
    random = np.random.default_rng(2)
    rows, kernel = random.standard_normal((8, 4)).astype(np.float16), random.standard_normal((4, 2))
    with v1.Session() as session:
        weights = v1.get_variable("w", initializer=kernel.astype(np.float32))
        factor = v1.placeholder(tf.float32, [])
        output = tf.matmul(rows, tf.cast(weights, tf.float16))
        train = optimizer.minimize(factor * tf.reduce_mean(tf.cast(output, tf.float32) ** 2))
        session.run(v1.global_variables_initializer())
        history = []
        for step in range(steps):
            session.run(train, {factor: 1e6 if step == 5 else 1.0})
            history.append(session.run(weights))
        return history


def test_training_is_bit_equal_to_tensorflows_own_loss_scale_optimizer() -> None:
    with tf.Graph().as_default():
        ours = paired_training(LossScaleOptimizer(v1.train.AdamOptimizer(0.1), PRESETS["tf_keras"]))
    with tf.Graph().as_default():
        theirs = paired_training(
            v1.mixed_precision.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(0.1), "dynamic")
        )
    np.testing.assert_array_equal(ours, theirs)
    assert np.array_equal(ours[5], ours[4])
    assert not np.array_equal(ours[6], ours[5])


def test_halving_law_gives_the_scales_of_tensorflows_dynamic_loss_scale() -> None:
    theirs = v1.mixed_precision.DynamicLossScale(initial_loss_scale=2.0**4, increment_period=3, multiplier=2.0)
    weight = tf.Variable(1.0)
    ours = LossScaleOptimizer(
        v1.train.GradientDescentOptimizer(0.0),
        DynamicScale(2.0**4, growth_interval=3, min_scale=1.0, max_scale=2.0**127),
    )
    random = np.random.default_rng(8)
    for bad in random.random(200) < 0.25:
        gradient = tf.constant(np.inf if bad else 1.0)
        theirs.update([gradient])
        ours.minimize(lambda gradient=gradient: gradient * weight, var_list=[weight])
        assert float(ours.loss_scale) == float(theirs())


def test_none_gradients_are_allowed() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        used, unused = v1.get_variable("a", initializer=1.0), v1.get_variable("b", initializer=1.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), FixedScale(2))
        pairs = optimizer.compute_gradients(used * 0.25, var_list=[used, unused])
        assert pairs[1] == (None, unused)
        train = optimizer.apply_gradients(pairs)
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run([used, unused]) == [0.75, 1.0]


def test_all_none_gradients_are_refused_with_the_cause() -> None:
    with tf.Graph().as_default():
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0))
        unused = v1.get_variable("unused", initializer=1.0)
        with pytest.raises(LossScaleError, match="all 1 gradients are None"):
            optimizer.compute_gradients(tf.constant(1.0), var_list=[unused])


def test_sparse_gradients_stay_sparse_and_touch_their_rows_only() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("table", [1000, 2], initializer=v1.ones_initializer())
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), FixedScale(128))
        pairs = optimizer.compute_gradients(tf.reduce_sum(tf.nn.embedding_lookup(table, [3, 3, 5])))
        assert isinstance(pairs[0][0], tf.IndexedSlices)
        train = optimizer.apply_gradients(pairs)
        densified = [
            op.name for op in v1.get_default_graph().get_operations() if op.type == "UnsortedSegmentSum"
        ]
        assert not densified
        session.run(v1.global_variables_initializer())
        session.run(train)
        values = session.run(table)
        assert values[3].tolist() == [0, 0]
        assert values[5].tolist() == [0.5, 0.5]
        assert (np.delete(values, [3, 5], axis=0) == 1).all()


def test_gradients_are_unscaled_float32_for_clipping() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=1.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), FixedScale(1024))
        ((gradient, _),) = optimizer.compute_gradients(tf.cast(tf.cast(weight, tf.float16) * 3, tf.float16))
        train = optimizer.apply_gradients([(tf.clip_by_norm(gradient, 0.5), weight)])
        session.run(v1.global_variables_initializer())
        assert gradient.dtype == tf.float32
        assert session.run(gradient) == 3.0
        session.run(train)
        assert session.run(weight) == 0.5


def test_clipping_by_value_cannot_hide_an_overflow() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight, factor = v1.get_variable("w", initializer=1.0), v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), DynamicScale(1024))
        ((gradient, _),) = optimizer.compute_gradients(factor * weight)
        clipped = tf.clip_by_value(gradient, -1.0, 1.0)
        train = optimizer.apply_gradients([(clipped, weight)])
        session.run(v1.global_variables_initializer())
        assert session.run(clipped, {factor: 3e38}) == 1.0  # finite, and yet:
        session.run(train, {factor: 3e38})
        assert session.run([weight, optimizer.loss_scale]) == [1.0, 512.0]


def test_gradients_made_non_finite_after_they_were_computed_are_skipped() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=1.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), DynamicScale(1024))
        ((gradient, _),) = optimizer.compute_gradients(0 * weight)
        train = optimizer.apply_gradients([(gradient / gradient, weight)])
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run(weight) == 1.0
        assert nonzero(session.run(optimizer.counters))["skipped_nan"] == 1


def test_non_finite_loss_is_the_cause_of_non_finite_gradients() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight, factor = v1.get_variable("w", initializer=1.0), v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), FixedScale(2))
        train = optimizer.minimize(factor * weight)
        session.run(v1.global_variables_initializer())
        session.run(train, {factor: np.nan})
        assert session.run(weight) == 1.0
        assert nonzero(session.run(optimizer.counters))["skipped_loss"] == 1


@pytest.mark.parametrize("clip", [False, True], ids=["as computed", "clipped"])
def test_finite_gradients_of_a_loss_that_is_not_finite_are_applied(clip: bool) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight, shift = v1.get_variable("w", initializer=1.0), v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(
            v1.train.GradientDescentOptimizer(1.0), DynamicScale(2, growth_interval=1)
        )
        pairs = optimizer.compute_gradients(weight + shift)  # the gradient is 1 whatever the loss
        if clip:
            pairs = [(tf.clip_by_value(gradient, -9, 9), variable) for gradient, variable in pairs]
        train = optimizer.apply_gradients(pairs)
        session.run(v1.global_variables_initializer())
        session.run(train, {shift: np.nan})
        assert session.run([weight, optimizer.loss_scale]) == [0.0, 4.0]
        assert nonzero(session.run(optimizer.counters)) == {"steps": 1, "applied": 1}


def test_float16_loss_is_scaled_in_float32() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=3.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), FixedScale(2.0**15))
        loss = tf.cast(weight, tf.float16)  # 3 x 2**15 does not fit float16
        train = optimizer.minimize(loss)
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run(weight) == 2.0


def test_gradient_of_the_loss_given_by_the_caller_is_scaled_too() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        weight = v1.get_variable("w", initializer=1.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), FixedScale(1024))
        loss = tf.cast(weight, tf.float16) * [1, 2]
        ((gradient, _),) = optimizer.compute_gradients(loss, grad_loss=tf.constant([3, 5], tf.float16))
        session.run(v1.global_variables_initializer())
        assert session.run(gradient) == 13.0


def test_two_losses_on_one_optimizer_both_count() -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        a, b = v1.get_variable("a", initializer=1.0), v1.get_variable("b", initializer=1.0)
        factor = v1.placeholder(tf.float32, [])
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0), DynamicScale(1024))
        pairs = optimizer.compute_gradients(factor * a, var_list=[a])
        pairs += optimizer.compute_gradients(b * 0.5, var_list=[b])
        train = optimizer.apply_gradients([(tf.clip_by_value(g, -9, 9), variable) for g, variable in pairs])
        session.run(v1.global_variables_initializer())
        session.run(train, {factor: 2.0})
        assert session.run([a, b]) == [-1.0, 0.5]
        session.run(train, {factor: 3e38})
        assert session.run([a, b, optimizer.loss_scale]) == [-1.0, 0.5, 512.0]


def test_module_with_float32_storage_trains() -> None:
    with float32_variable_storage():
        weight = tf.Variable(1.0)
    optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(2.0**-12), FixedScale(128))
    optimizer.minimize(lambda: tf.cast(weight * 1, tf.float32), var_list=[weight])
    assert weight.numpy() == np.float32(1 - 2.0**-12)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_variables_stored_in_16_bits_are_refused_with_the_remedy(dtype: tf.DType) -> None:
    with tf.Graph().as_default():
        weight = v1.get_variable("narrow", [2], dtype)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0))
        with pytest.raises(LossScaleError, match=r"narrow:0 is stored in \w+16.*float32_variable_storage"):
            optimizer.minimize(tf.reduce_sum(tf.cast(weight, tf.float32)))


def test_gradients_from_elsewhere_are_refused() -> None:
    with tf.Graph().as_default():
        weight = v1.get_variable("w", initializer=1.0)
        optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(1.0))
        gradients = tf.gradients(weight * 2, [weight])
        with pytest.raises(LossScaleError, match="w:0 was not computed by compute_gradients"):
            optimizer.apply_gradients(zip(gradients, [weight], strict=True))


def test_second_scaler_around_a_scaler_or_its_optimizer_is_refused() -> None:
    plain = v1.train.GradientDescentOptimizer(1.0)
    ours = LossScaleOptimizer(plain)
    theirs = v1.mixed_precision.MixedPrecisionLossScaleOptimizer(v1.train.AdamOptimizer(), 128)
    with pytest.raises(LossScaleError, match="scales its loss already"):
        LossScaleOptimizer(ours)
    with pytest.raises(LossScaleError, match="scales its loss already"):
        LossScaleOptimizer(theirs)
    with pytest.raises(LossScaleError, match="wrapped by another"):
        LossScaleOptimizer(plain)


@pytest.mark.parametrize("optimizer", ["adam", None, v1.train.AdamOptimizer])
def test_what_is_not_an_optimizer_of_tensorflow_1_is_refused(optimizer: object) -> None:
    with pytest.raises(InputError, match=r"must be an optimizer of tf\.compat\.v1\.train"):
        LossScaleOptimizer(optimizer)


def test_what_is_not_a_law_is_refused_and_the_optimizer_stays_free() -> None:
    plain = v1.train.GradientDescentOptimizer(1.0)
    with pytest.raises(InputError, match=r"law of mixte\.scaling"):
        LossScaleOptimizer(plain, 128)
    assert LossScaleOptimizer(plain, FixedScale(128)).law == FixedScale(128)


def test_checkpoint_holds_scale_counters_and_slots(tmp_path: Path) -> None:
    def make() -> tuple[tf.Variable, LossScaleOptimizer, tf.train.Checkpoint]:
        weight = tf.Variable(8.0)
        optimizer = LossScaleOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), DynamicScale(1024))
        return weight, optimizer, tf.train.Checkpoint(weight=weight, optimizer=optimizer)

    weight, optimizer, checkpoint = make()
    for factor in (np.inf, 1.0):
        optimizer.minimize(lambda factor=factor: factor * weight, var_list=[weight])
    path = checkpoint.write(str(tmp_path / "checkpoint"))

    restored_weight, restored, other = make()
    restored.minimize(lambda: restored_weight * 1.0, var_list=[restored_weight])
    other.read(path).assert_consumed()
    assert float(restored.loss_scale) == 512.0
    assert nonzero(restored.counters) == nonzero(optimizer.counters)
    assert restored.get_slot(restored_weight, "momentum").numpy() == 1.0


def test_variables_are_those_of_the_optimizer_the_law_and_the_counters() -> None:
    weight = tf.Variable(1.0)
    optimizer = LossScaleOptimizer(v1.train.MomentumOptimizer(0.1, 0.9), DynamicScale())
    optimizer.minimize(lambda: weight * 1.0, var_list=[weight])
    assert len(optimizer.variables()) == 1 + 2 + len(optimizer.counters)


def test_state_survives_a_getter_and_a_device_scope() -> None:
    from mixte.tensorflow import float32_variable_storage_getter

    with tf.Graph().as_default(), tf.device("CPU:0"), v1.Session() as session:
        with v1.variable_scope("scope", custom_getter=float32_variable_storage_getter):
            weight = v1.get_variable("w", [], tf.float16, v1.ones_initializer())
            optimizer = LossScaleOptimizer(v1.train.GradientDescentOptimizer(0.5), FixedScale(128))
            train = optimizer.minimize(tf.cast(weight, tf.float32))
        session.run(v1.global_variables_initializer())
        session.run(train)
        assert session.run(v1.trainable_variables()) == [0.5]

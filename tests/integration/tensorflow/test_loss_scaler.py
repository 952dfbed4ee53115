"""Loss scaling in loops with tf.GradientTape: eager, in a tf.function, compiled, and in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf

from mixte import InputError, LossScaleError
from mixte.scaling import DynamicScale, FixedScale, UnderflowScale
from mixte.tensorflow import LossScaler, float32_variable_storage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODES = {
    "eager": lambda function: function,
    "traced": tf.function,
    "compiled": lambda function: tf.function(function, jit_compile=True),
}
mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())


def training_step(scaler: LossScaler, weight: tf.Variable) -> Callable[[tf.Tensor], Any]:
    """Gradient descent with rate 1 on factor * weight: the gradient is the factor."""

    def step(factor: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = factor * weight
            scaled_loss = scaler.scale(loss)
        gradients = tape.gradient(scaled_loss, [weight])
        return scaler.step(gradients, lambda gradients: weight.assign_sub(gradients[0]), loss=loss)

    return step


def counters(scaler: LossScaler) -> dict[str, int]:
    return {name: int(value) for name, value in scaler.counters.items() if int(value)}


@mode
def test_clean_steps_are_applied_unscaled_and_bad_ones_skipped(mode: Callable) -> None:
    weight, scaler = tf.Variable(8.0), LossScaler(DynamicScale(1024, growth_interval=2))
    step = mode(training_step(scaler, weight))
    scales, weights, applied = [], [], []
    for factor in (1.0, 2.0, 1e36, 1.0, 1.0):  # 1e36 x 2048 is inf in float32
        scales.append(float(scaler.loss_scale))
        applied.append(bool(step(tf.constant(factor))))
        weights.append(float(weight))
    assert applied == [True, True, False, True, True]
    assert weights == [7, 5, 5, 4, 3]
    assert scales == [1024, 1024, 2048, 1024, 1024]
    assert float(scaler.loss_scale) == 2048
    assert counters(scaler) == {"steps": 5, "applied": 4, "skipped": 1, "skipped_inf": 1}


@mode
def test_causes_are_told_apart(mode: Callable) -> None:
    weight, scaler = tf.Variable(1.0), LossScaler(FixedScale(1024))

    def step(wrong: tf.Tensor) -> tf.Tensor:
        return scaler.scale(weight) * 0 + wrong  # the gradient, made up

    def whole(wrong: tf.Tensor, loss: tf.Tensor) -> tf.Tensor:
        return scaler.step([step(wrong)], lambda gradients: weight.assign_sub(gradients[0]), loss=loss)

    run = mode(whole)
    run(tf.constant(np.inf), tf.constant(1.0))
    run(tf.constant(np.nan), tf.constant(1.0))
    run(tf.constant(np.nan), tf.constant(np.nan))
    run(tf.constant(np.inf), tf.constant(np.inf))
    found = counters(scaler)
    assert (found["skipped_inf"], found["skipped_nan"], found["skipped_loss"]) == (1, 1, 2)
    assert found["calibration_skips"] == found["consecutive_skipped"] == 4
    assert float(weight) == 1.0


@mode
def test_finite_gradients_of_a_loss_that_is_not_finite_are_applied(mode: Callable) -> None:
    weight, scaler = tf.Variable(70000.0), LossScaler(DynamicScale(1024, growth_interval=1))

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.cast(weight, tf.float16)  # inf: float16 ends at 65504; the gradient of the cast is 1
            scaled_loss = scaler.scale(loss)
        gradients = tape.gradient(scaled_loss, [weight])
        return scaler.step(gradients, lambda gradients: weight.assign_sub(gradients[0]), loss=loss)

    assert bool(mode(step)())
    assert float(weight) == 69999.0
    assert float(scaler.loss_scale) == 2048.0
    assert counters(scaler) == {"steps": 1, "applied": 1}


def test_float16_loss_is_scaled_in_float32() -> None:
    scaler = LossScaler(FixedScale(2.0**15))
    scaled = scaler.scale(tf.constant(3.0, tf.float16))  # 98304 does not fit float16
    assert scaled.dtype == tf.float32
    assert float(scaled) == 98304.0


def test_several_losses_are_scaled_in_their_structure() -> None:
    scaled = LossScaler(FixedScale(2)).scale({"g": tf.constant(1.0), "d": [tf.constant(2.0)]})
    assert {"g": float(scaled["g"]), "d": [float(scaled["d"][0])]} == {"g": 2.0, "d": [4.0]}


def test_float16_gradients_are_unscaled_in_float32_below_float16s_range() -> None:
    scaler = LossScaler(FixedScale(2.0**15))
    scaler.scale(tf.constant(1.0))
    smallest = tf.constant(2.0**-24, tf.float16)
    assert float(scaler.unscale(smallest).gradients) == 2.0**-39


def test_gradients_keep_their_structure_and_none() -> None:
    scaler = LossScaler(FixedScale(2))
    scaler.scale(tf.constant(1.0))
    unscaled = scaler.unscale({"w": [tf.constant(4.0), None], "b": tf.constant([2.0])})
    assert float(unscaled.gradients["w"][0]) == 2.0
    assert unscaled.gradients["w"][1] is None
    assert unscaled.gradients["b"].numpy().tolist() == [1.0]
    assert bool(unscaled.finite)


def test_sparse_gradient_stays_sparse_and_only_its_values_are_looked_at() -> None:
    # Dense, this gradient would take a terabyte.
    scaler = LossScaler(FixedScale(2))
    scaler.scale(tf.constant(1.0))
    gradient = tf.IndexedSlices(tf.constant([[4.0]]), tf.constant([7]), tf.constant([2**38, 1], tf.int64))
    unscaled = scaler.unscale([gradient])
    assert isinstance(unscaled.gradients[0], tf.IndexedSlices)
    assert unscaled.gradients[0].values.numpy().tolist() == [[2.0]]
    assert float(unscaled.observation.largest_gradient) == 2.0
    bad = tf.IndexedSlices(tf.constant([[np.inf]]), tf.constant([7]), tf.constant([2**38, 1], tf.int64))
    assert not bool(scaler.unscale([bad]).finite)


def test_empty_gradient_counts_as_finite() -> None:
    scaler = LossScaler(FixedScale(2))
    scaler.scale(tf.constant(1.0))
    unscaled = scaler.unscale([tf.zeros([0, 3]), tf.constant([1.0])])
    assert bool(unscaled.finite)
    assert float(unscaled.observation.largest_gradient) == 0.5
    assert bool(scaler.unscale([tf.zeros([0])]).finite)


def test_observation_agrees_with_numpy() -> None:
    random = np.random.default_rng(5)
    gradients = [np.exp2(random.normal(-16, 4, shape)).astype(np.float32) for shape in ((30, 4), (7,), ())]
    gradients[0][:3] = 0
    scaler = LossScaler(UnderflowScale(16.0))
    scaler.scale(tf.constant(1.0))
    observation = scaler.unscale([tf.constant(16 * gradient) for gradient in gradients]).observation
    everything = np.concatenate([gradient.ravel() for gradient in gradients])
    nonzero = everything[everything > 0]
    assert float(observation.largest_gradient) == everything.max()
    share = np.float32((16 * nonzero < np.finfo(np.float16).smallest_normal).sum()) / np.float32(nonzero.size)
    assert float(observation.underflow_fraction) == share


def test_underflow_is_computed_only_for_a_law_that_needs_it() -> None:
    scaler = LossScaler(DynamicScale())
    scaler.scale(tf.constant(1.0))
    assert float(scaler.unscale([tf.constant(2.0**-20)]).observation.underflow_fraction) == 0.0


@mode
def test_underflow_law_raises_the_scale_in_a_loop(mode: Callable) -> None:
    weight, scaler = tf.Variable(1.0), LossScaler(UnderflowScale(1.0, growth_interval=2))
    step = mode(training_step(scaler, weight))
    for _ in range(20):
        step(tf.constant(2.0**-20))
    assert float(scaler.loss_scale) == 2.0**6  # 2**-20 x 2**6 is float16's smallest normal number


def test_unscaling_is_differentiable_for_gradient_penalties() -> None:
    scaler, x = LossScaler(FixedScale(1024)), tf.Variable(3.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            scaled = scaler.scale(x**3)
        gradient = scaler.unscale(inner.gradient(scaled, x)).gradients
        penalty = scaler.scale(gradient**2)
    found = scaler.unscale(outer.gradient(penalty, x)).gradients
    assert float(gradient) == 27.0
    assert float(found) == 2 * 27 * 18  # d/dx (3 x^2)^2 = 2 (3 x^2) (6 x)


def test_unscale_and_update_make_a_step_with_clipping() -> None:
    scaler, weight = LossScaler(DynamicScale(4.0)), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        loss = scaler.scale(100 * weight)
    unscaled = scaler.unscale(tape.gradient(loss, [weight]))
    clipped, norm = tf.clip_by_global_norm(unscaled.gradients, 1.0)
    scaler.update(unscaled.observation)
    assert float(norm) == 100.0
    assert float(clipped[0]) == 1.0
    assert counters(scaler) == {"steps": 1, "applied": 1}


def test_module_in_16_bits_trains_with_adam_where_float16_alone_would_lose_the_gradient() -> None:
    with float32_variable_storage():
        weight = tf.Variable(1.0)
    optimizer, scaler = tf.compat.v1.train.AdamOptimizer(0.01), LossScaler(FixedScale(2.0**15))

    @tf.function
    def step() -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            # The factor 2**-30 is beyond float16; its gradient passes through a float16 cast.
            loss = tf.cast(weight, tf.float32) * 2.0**-30
            scaled_loss = scaler.scale(loss)
        gradients = tape.gradient(scaled_loss, [weight])
        unscaled = scaler.unscale(gradients)
        optimizer.apply_gradients(zip(unscaled.gradients, [weight], strict=True))
        scaler.update(unscaled.observation)
        return gradients[0], unscaled.gradients[0]

    scaled_gradient, gradient = step()
    assert float(scaled_gradient) == 2.0**-15
    assert float(gradient) == 2.0**-30
    assert weight.numpy() < 1.0
    with tf.GradientTape() as tape:
        unscaled_loss = tf.cast(weight, tf.float32) * 2.0**-30
    assert float(tape.gradient(unscaled_loss, weight)) == 0.0  # without the scale it is lost


def test_step_works_in_a_tensorflow_1_graph() -> None:
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        weight, scaler = tf.Variable(8.0), LossScaler(DynamicScale(1024, growth_interval=2))
        factor = v1.placeholder(tf.float32, [])
        gradients = tf.gradients(scaler.scale(factor * weight), [weight])
        applied = scaler.step(gradients, lambda gradients: weight.assign_sub(gradients[0]))
        session.run(v1.global_variables_initializer())
        results = [bool(session.run(applied, {factor: value})) for value in (1.0, 2.0, 1e36, 1.0)]
        assert results == [True, True, False, True]
        assert session.run([weight, scaler.loss_scale]) == [4.0, 1024.0]


def test_state_is_saved_and_restored(tmp_path: Path) -> None:
    scaler = LossScaler(DynamicScale(1024, growth_interval=3))
    step = training_step(scaler, tf.Variable(8.0))
    for factor in (3e38, 1.0, 1.0):
        step(tf.constant(factor))
    path = tf.train.Checkpoint(scaler=scaler).write(str(tmp_path / "checkpoint"))
    restored = LossScaler(DynamicScale(1024, growth_interval=3))
    tf.train.Checkpoint(scaler=restored).read(path).assert_consumed()
    assert float(restored.loss_scale) == 512.0
    assert counters(restored) == counters(scaler)
    training_step(restored, tf.Variable(8.0))(tf.constant(1.0))
    assert float(restored.loss_scale) == 1024.0  # the third clean step: its count was restored too


def test_no_variable_of_the_scaler_is_trainable() -> None:
    scaler = LossScaler()
    assert scaler.trainable_variables == ()
    assert {variable.dtype for variable in scaler.variables} == {tf.float32, tf.int32}
    assert scaler.law == DynamicScale()


def test_unscaling_without_ever_scaling_is_refused() -> None:
    with pytest.raises(LossScaleError, match="never scaled a loss"):
        LossScaler().unscale([tf.constant(1.0)])


def test_all_none_gradients_are_refused_with_the_cause() -> None:
    scaler = LossScaler()
    scaler.scale(tf.constant(1.0))
    with pytest.raises(LossScaleError, match=r"all 2 gradients are None.*does not depend"):
        scaler.unscale([None, None])


@pytest.mark.parametrize("law", ["dynamic", 128, DynamicScale])
def test_what_is_not_a_law_is_refused(law: object) -> None:
    with pytest.raises(InputError, match=r"law of mixte\.scaling"):
        LossScaler(law)

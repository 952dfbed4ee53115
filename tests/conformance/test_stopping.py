"""The callback that stops ``fit`` with the cause, and what is said of a loop's misuse, on each backend."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte import InputError, MixteError, MixteWarning
from mixte.keras._framework import BACKEND
from mixte.keras._guard import Guard
from mixte.keras._guard_batch import Batch
from mixte.keras._guard_cause import find_cause
from mixte.keras._replay import largest_gradients, replay
from mixte.scaling import DynamicScale, FixedScale, StopRule

from .steps import host


def model_of(*inner, policy="mixed_float16", kernel="glorot_uniform"):
    with mk.use(policy):
        return keras.Sequential(
            [
                layers.Input((4,)),
                layers.Dense(8, name="first", kernel_initializer=kernel),
                *inner,
                layers.Dense(1, name="last"),
            ],
            name="net",
        )


def data(steps=100):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps * 4, 4)).astype("float32")
    return x, x[:, :1] * 0.5


def fit(model, x, y, *, guard, optimizer=None, **options):
    model.compile(
        optimizer or mk.LossScaleOptimizer(keras.optimizers.SGD(0.01)), loss="mse", auto_scale_loss=False
    )
    return model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[guard], **options)


def test_a_training_that_goes_well_is_left_alone():
    model, guard = model_of(), mk.NonFiniteGuard(stop_after=3)
    function_before = model.train_function
    x, y = data(60)
    x[::40] = np.nan  # one bad batch in ten
    fit(model, x, y, guard=guard, epochs=2)

    assert guard.finding is None
    assert model.optimizer.read_state().counters["skipped"] >= 12
    assert getattr(model.train_function, "_mixte_original", None) is function_before is None


def test_skips_without_end_stop_fit_with_the_layer_and_the_remedy():
    large = layers.Dense(8, kernel_initializer=keras.initializers.Constant(2.0**15), name="large")
    model, guard = model_of(large, kernel="ones"), mk.NonFiniteGuard()
    x, y = np.ones((400, 4), "float32"), np.ones((400, 1), "float32")

    with pytest.raises(mk.TrainingStoppedError, match=r"Dense 'large' reaches .*path = \"/large\"") as stopped:
        fit(model, x, y, guard=guard)

    finding = guard.finding
    assert stopped.value.finding is finding
    assert isinstance(stopped.value, MixteError)
    assert (finding.reason, finding.cause, finding.layer) == ("loss", "range", "large")
    assert finding.largest == 4 * 8 * 2.0**15, "eight sums of four ones, each times 2**15"
    assert finding.step <= 40, "it is looked at every 20 steps, and 10 are enough"


def test_the_model_is_as_it_was_after_a_replay():
    x, y = data(1)
    model = model_of(layers.BatchNormalization(name="norm"), layers.Dropout(0.5))
    model.compile("sgd", loss="mse", metrics=["mae"])
    before = [np.array(host(v)) for v in (*model.variables, *model.metrics_variables)]
    dtypes = [layer.compute_dtype for layer in model.layers]
    batch = Batch(inputs=(x,), named={}, target=y, has_loss=True)

    assert replay(model, batch, float32=True).loss is not None
    assert replay(model, batch, float32=False).loss is not None
    assert len(largest_gradients(model, batch)) == len(model.trainable_variables)

    after = [np.array(host(v)) for v in (*model.variables, *model.metrics_variables)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert [layer.compute_dtype for layer in model.layers] == dtypes
    assert keras.Layer.__call__.__qualname__.count("noting") == 0


def test_a_replay_in_float32_is_the_forward_pass_of_the_model_in_float32():
    x, y = data(1)
    model = model_of(policy="mixed_float16")
    model.compile("sgd", loss="mse")
    twin = model_of(policy="float32")
    twin.set_weights(model.get_weights())
    twin.compile("sgd", loss="mse")
    seen = replay(model, Batch(inputs=(x,), named={}, target=y, has_loss=True), float32=True)

    by_path = {output.path: output.largest for output in seen.outputs}
    expected = np.abs(host(twin.layers[0](x))).max()
    assert by_path["first"] == expected
    # Both in float32, in one compiled function and in none: sums of 4 terms in another order, 3 roundings each.
    assert seen.loss == pytest.approx(twin.evaluate(x, y, verbose=0), rel=8 * 2.0**-24)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (
            lambda x, y: (np.where(x == x[1, 2], np.nan, x), y),
            "the inputs hold NaN (1 of 16 values, the first at [1, 2])",
        ),
        (lambda x, y: (x, y + np.float32("inf")), "the targets hold an infinity (4 of 4 values"),
    ],
    ids=["inputs", "targets"],
)
def test_numbers_in_the_batch_that_are_not_finite_are_said(spoil, says):
    model = model_of()
    model.compile("sgd", loss="mse")
    x, y = spoil(*data(1))
    cause = find_cause(model, Batch(inputs=(x,), named={}, target=y, has_loss=True), scale=1.0)

    assert (cause.kind, cause.batch_finite) == ("batch", False)
    assert says in cause.detail


def test_inputs_beyond_the_range_of_float16_are_said():
    model = model_of()
    model.compile("sgd", loss="mse")
    x, y = data(1)
    cause = find_cause(model, Batch(inputs=(x * 1e6,), named={}, target=y, has_loss=True), scale=1.0)

    assert cause.kind == "input_range"
    assert cause.largest == np.abs(x * np.float32(1e6)).max()


def test_weights_that_are_not_finite_are_named():
    model = model_of(policy="float32")
    model.compile("sgd", loss="mse")
    weights = model.get_weights()
    weights[2][0, 0] = np.nan
    model.set_weights(weights)
    x, y = data(1)
    cause = find_cause(model, Batch(inputs=(x,), named={}, target=y, has_loss=True), scale=None)

    assert (cause.kind, cause.detail) == ("weights", model.trainable_variables[2].path)


def test_a_layer_that_fails_when_it_is_replayed_leaves_the_cause_unknown():
    class Fails(layers.Layer):
        def call(self, x):
            return x

    model = model_of(Fails())
    model.compile("sgd", loss="mse")
    x, y = data(1)
    cause = find_cause(model, Batch(inputs=(x, x, x), named={}, target=y, has_loss=True), scale=1.0)

    assert cause.kind == "unknown"
    assert "the replay failed (" in cause.detail


def test_a_fixed_scale_that_is_too_large_is_said_to_be_that():
    model, guard = model_of(), mk.NonFiniteGuard(stop_after=20)
    x, y = data()
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.0), FixedScale(2.0**100))

    with pytest.raises(mk.TrainingStoppedError, match=r"--loss-scale dynamic, or law=DynamicScale\(\)"):
        fit(model, x, y, guard=guard, optimizer=optimizer)

    assert guard.finding.reason == "skips"


def test_a_scale_at_its_floor_stops():
    class Steep(layers.Layer):
        def call(self, x):
            return x + ops.sqrt(ops.sum(ops.square(x * 0.0)))

    model, guard = model_of(Steep(name="steep")), mk.NonFiniteGuard()
    x, y = data()
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.01), DynamicScale(2.0**10, min_scale=1.0))

    with pytest.raises(mk.TrainingStoppedError, match="at its floor, 1: no lower one can help"):
        fit(model, x, y, guard=guard, optimizer=optimizer)

    assert (guard.finding.reason, guard.finding.cause) == ("floor", "derivative")


def test_float32_is_guarded_by_its_loss():
    model, guard = model_of(policy="float32"), mk.NonFiniteGuard(stop_after=20)
    x, y = data()

    with pytest.raises(mk.TrainingStoppedError, match="lower the learning rate"):
        fit(model, x, y, guard=guard, optimizer=keras.optimizers.SGD(1e4))

    assert (guard.finding.reason, guard.finding.cause) == ("loss", "weights")


def test_a_mean_loss_that_stays_infinite_after_one_batch_stops_nothing():
    def loss(y, y_pred):
        beyond = ops.where(y > 1e6, float("inf"), 0.0)  # infinite, and of no consequence for the gradients
        return ops.mean(ops.square(y_pred)) + ops.stop_gradient(ops.mean(beyond))

    model, guard = model_of(policy="float32"), mk.NonFiniteGuard(stop_after=5)
    x, y = data()
    y[1] = 2e6
    model.compile(keras.optimizers.SGD(0.0), loss=loss)
    history = model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[guard])

    assert history.history["loss"] == [np.inf]
    assert guard.finding is None


@pytest.mark.filterwarnings(
    "ignore:Your input ran out of data",  # of the batch that was to be replayed
    "ignore:__array__ implementation",  # of PyTorch; pytest.warns repeats it without its place
)
def test_a_guard_that_fails_leaves_the_training_alone(monkeypatch):
    def fails(*arguments, **options):
        raise ValueError("of the guard's own")

    monkeypatch.setattr("mixte.keras._guard.find_cause", fails)
    model, guard = model_of(), mk.NonFiniteGuard()
    x, y = data(60)

    with pytest.warns(MixteWarning, match="no longer guarded, and goes on"):
        fit(model, x * np.nan, y, guard=guard)

    assert guard.finding is None
    assert model.optimizer.read_state().counters["skipped"] >= 59  # on TensorFlow one batch was taken


def test_nothing_is_stopped_after_zero():
    model, guard = model_of(), mk.NonFiniteGuard(stop_after=0)
    x, y = data(40)
    fit(model, x * np.nan, y, guard=guard)

    assert guard.finding is None


@pytest.mark.parametrize("stop_after", [-1, 1.5])
def test_a_wrong_number_of_skips_is_refused(stop_after):
    with pytest.raises(InputError, match="Give a whole number"):
        mk.NonFiniteGuard(stop_after=stop_after)


def test_D12_a_loss_in_float16_is_warned_of_once():
    with mk.use("float32"):
        pass  # the checks of loops are put in place with it
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0))

    with pytest.warns(MixteWarning, match="the loss is computed in float16"):
        optimizer.scale_loss(ops.cast(3.0, "float16"))

    optimizer.scale_loss(ops.cast(3.0, "float16"))  # a second warning would be an error
    assert host(optimizer.scale_loss(ops.cast(3.0, "float32"))) == 98304.0


@pytest.mark.skipif(BACKEND == "jax", reason="JAX has no function of its own to clip gradients")
def test_F10_clipping_scaled_gradients_by_hand_is_warned_of_once():
    with mk.use("float32"):
        pass
    variable = keras.Variable(np.ones(2, "float32"))
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.0))

    def step(*, unscale_first):
        scaled = optimizer.scale_loss(ops.convert_to_tensor(1.0)) * ops.ones(2)
        gradients = optimizer.unscale([scaled]) if unscale_first else [scaled]
        apply = optimizer.apply_unscaled if unscale_first else optimizer.apply
        apply(clipped(gradients), [variable])

    step(unscale_first=True)
    with pytest.warns(MixteWarning, match=r"global_clipnorm=1\.0.*optimizer\.unscale\(gradients\)"):
        step(unscale_first=False)

    step(unscale_first=False)  # a second warning would be an error


def clipped(gradients):
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.clip_by_global_norm(gradients, 1.0)[0]
    import torch

    parameters = [torch.nn.Parameter(gradient.clone()) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    torch.nn.utils.clip_grad_norm_((parameter for parameter in parameters), 1.0)
    return [parameter.grad for parameter in parameters]


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX gives the memory of arrays away")
def test_weights_that_the_script_gave_away_are_not_looked_at():
    model, optimizer = model_of(policy="float32"), keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    model.trainable_variables[0].value.delete()
    guard = Guard(StopRule())
    guard.optimizer_used(optimizer)

    assert guard.conclude() is None
    assert not guard.failed


def test_weights_that_are_not_finite_at_the_end_are_told_of():
    model, optimizer = model_of(policy="float32"), keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    model.trainable_variables[1].assign(np.full(8, np.inf, "float32"))
    told = []
    guard = Guard(StopRule(), told.append)
    guard.optimizer_used(optimizer)

    finding = guard.conclude()
    assert told == [finding]
    assert (finding.reason, finding.optimizer) == ("weights", optimizer.name)
    assert "ended in vain: its weights are not finite." in finding.text

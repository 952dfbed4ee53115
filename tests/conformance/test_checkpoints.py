"""Saving, loading and resuming: every state finds its place, by name, whatever wrote the file and whatever reads it."""

import json
import warnings
from functools import cache

import keras
import numpy as np
import pytest
from keras import layers

import mixte.keras as mk
from mixte import InputError, MixteWarning
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale, FixedScale

from .steps import Steps, host

KerasScaler = keras.optimizers.LossScaleOptimizer
SCALE, GROWTH = 2.0**8, 3
LAW = DynamicScale(SCALE, growth_interval=GROWTH)
BATCH = 4


def data():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(24, 3)).astype("float32")
    return x, np.tanh(x[:, :2])


def adam():
    """Adam with all the state that Keras's optimizers can have.

    On JAX without moving averages: there a second ``fit`` with them fails, in Keras 3.15.1, with any optimizer.
    """
    return keras.optimizers.Adam(1e-2, amsgrad=True, use_ema=BACKEND != "jax", gradient_accumulation_steps=2)


def model(optimizer, precision="mixed_float16", *, name="of"):
    keras.utils.set_random_seed(2)
    built = keras.Sequential(
        [
            layers.Input((3,)),
            layers.Dense(4, activation="tanh", dtype=precision, name=f"hidden_{name}"),
            layers.Dense(2, dtype="float32", name=f"head_{name}"),
        ],
        name=name,
    )
    built.compile(optimizer, loss="mse", auto_scale_loss=False)
    return built


def fit(built, epochs=1, **options):
    x, y = data()
    built.fit(x, y, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0, **options)
    return built


KINDS = {
    "plain": (adam, "float32"),
    "keras": (lambda: KerasScaler(adam(), 64.0, dynamic_growth_steps=4), "mixed_float16"),
    "ours": (lambda: mk.LossScaleOptimizer(adam(), LAW), "mixed_float16"),
}


@cache
def trained(kind):
    """Return a model after an epoch: one for all tests, which only read it."""
    return fit(make(kind))


@cache
def trained_for_three_epochs():
    return fit(make("ours"), epochs=3)


def stepped(law, steps=3):
    """Return a model whose optimizer took steps on made-up gradients, one of them not finite."""
    built = model(mk.LossScaleOptimizer(adam(), law))
    rng = np.random.default_rng(9)
    taken = Steps(built.optimizer, built.trainable_variables)
    for step in range(steps):
        shapes = [tuple(variable.shape) for variable in built.trainable_variables]
        gradients = [rng.normal(size=shape).astype("float32") for shape in shapes]
        if step == 1:
            gradients[2][0] = np.inf
        taken.step(*gradients)
    return built


def make(kind, **options):
    optimizer, precision = KINDS[kind]
    return model(optimizer(), precision, **options)


def build(built):
    built.optimizer.build(built.trainable_variables)
    return built


def inner(built):
    return getattr(built.optimizer, "inner_optimizer", built.optimizer)


def values(variables):
    return [host(variable) for variable in variables]


def assert_equal(variables, others):
    for mine, other in zip(values(variables), values(others), strict=True):
        np.testing.assert_array_equal(mine, other)


def assert_same_training(one, other):
    assert_equal(one.weights, other.weights)
    assert_equal(inner(one).variables, inner(other).variables)
    assert int(host(inner(other)._iterations)) > 0


@pytest.fixture(params=["before the optimizer is built", "after the optimizer is built"])
def prepare(request):
    """How a script prepares the model that it loads weights into."""
    return build if request.param.startswith("after") else lambda built: built


def test_the_models_of_the_other_tests_have_every_kind_of_state():
    slots = {variable.name.rpartition("kernel_")[2] for variable in inner(build(make("ours"))).variables}

    assert {"momentum", "velocity", "velocity_hat", "gradient_accumulator"} <= slots


@pytest.mark.parametrize("law", ["dynamic:256", "logmax", "underflow", "log2:256"])
def test_weights_files_keep_all_state_of_any_law(law, tmp_path):
    original = stepped(law)
    original.save_weights(tmp_path / "of.weights.h5")
    restored = build(model(mk.LossScaleOptimizer(adam(), law)))

    restored.load_weights(tmp_path / "of.weights.h5")

    assert_equal(restored.weights, original.weights)
    assert_equal(restored.optimizer.variables, original.optimizer.variables)
    assert restored.optimizer.read_state() == original.optimizer.read_state()
    assert restored.optimizer.read_last_skip() == mk.LastSkip(step=2, variable="of/head_of/kernel")


def test_keras_files_keep_all_state(tmp_path):
    original = trained("ours")
    original.save(tmp_path / "of.keras")

    loaded = keras.saving.load_model(tmp_path / "of.keras")

    assert loaded.optimizer.law == LAW
    assert_equal(loaded.optimizer.variables, original.optimizer.variables)
    assert_same_training(original, loaded)


def test_moving_averages_are_kept(prepare, tmp_path):
    averaging = {"use_ema": True, "ema_momentum": 0.5}
    original = fit(model(mk.LossScaleOptimizer(keras.optimizers.SGD(0.1, **averaging), LAW)))
    original.save_weights(tmp_path / "of.weights.h5")
    restored = prepare(model(mk.LossScaleOptimizer(keras.optimizers.SGD(0.1, **averaging), LAW)))

    restored.load_weights(tmp_path / "of.weights.h5")

    build(restored)
    assert_same_training(original, restored)
    assert [variable.name for variable in inner(restored).variables][-1].endswith("average")


def test_D7_keras_loses_the_moments_between_float32_and_mixed(tmp_path):
    trained("plain").save_weights(tmp_path / "plain.weights.h5")
    restored = build(make("keras"))

    with pytest.warns(UserWarning, match="Skipping variable loading"):
        restored.load_weights(tmp_path / "plain.weights.h5")

    assert int(host(restored.optimizer.inner_optimizer._iterations)) == 0


def test_D7_a_float32_checkpoint_goes_on_in_mixed_precision(prepare, tmp_path):
    original = trained("plain")
    original.save_weights(tmp_path / "plain.weights.h5")
    restored = prepare(make("ours"))

    restored.load_weights(tmp_path / "plain.weights.h5")

    build(restored)
    assert_same_training(original, restored)
    assert restored.optimizer.read_state() == make("ours").optimizer.read_state(), "the scaler starts anew"


def test_D7_a_mixed_checkpoint_goes_on_in_float32(tmp_path):
    """The optimizer that reads it is Keras's own: nothing of ours is asked."""
    original = trained("ours")
    original.save_weights(tmp_path / "mixed.weights.h5")
    restored = build(make("plain"))

    restored.load_weights(tmp_path / "mixed.weights.h5")

    assert_same_training(original, restored)


def test_D7_there_and_back_again_changes_nothing(tmp_path):
    original = trained("ours")
    original.save_weights(tmp_path / "there.weights.h5")
    plain = build(make("plain"))
    plain.load_weights(tmp_path / "there.weights.h5")
    plain.save_weights(tmp_path / "back.weights.h5")
    restored = make("ours")

    restored.load_weights(tmp_path / "back.weights.h5")

    assert_same_training(original, build(restored))


def test_D3_a_checkpoint_of_keras_own_scaler_goes_on_with_its_scale(prepare, tmp_path):
    original = trained("keras")
    original.save_weights(tmp_path / "keras.weights.h5")
    restored = prepare(make("ours"))

    restored.load_weights(tmp_path / "keras.weights.h5")

    build(restored)
    assert_same_training(original, restored)
    assert restored.optimizer.read_state().scale == 128.0 == float(host(original.optimizer.dynamic_scale))


def test_D3_keras_own_scaler_finds_the_moments_in_our_checkpoint(tmp_path):
    original = trained("ours")
    original.save_weights(tmp_path / "ours.weights.h5")
    restored = build(make("keras"))

    with pytest.warns(UserWarning, match="Skipping variable loading for optimizer 'loss_scale"):
        restored.load_weights(tmp_path / "ours.weights.h5")

    assert_same_training(original, restored)


@pytest.mark.parametrize(
    ("law", "scale"),
    [
        (DynamicScale(2.0, growth_interval=7), SCALE * 4),
        (DynamicScale(2.0, max_scale=64.0), 64.0),
        (DynamicScale(2.0**20, min_scale=2.0**12), 2.0**12),
        ("hysteresis", SCALE * 4),
        ("logmax", SCALE * 4),
        (FixedScale(16.0), 16.0),
        (FixedScale(1.0), 1.0),
    ],
    ids=str,
)
def test_another_law_keeps_the_scale_within_its_bounds_and_the_counters(law, scale, tmp_path):
    original = trained("ours")
    assert original.optimizer.read_state().scale == SCALE * 4, "six clean steps, a growth every three"
    original.save_weights(tmp_path / "of.weights.h5")
    restored = build(model(mk.LossScaleOptimizer(adam(), law)))

    restored.load_weights(tmp_path / "of.weights.h5")

    assert_same_training(original, restored)
    state = restored.optimizer.read_state()
    assert state.scale == scale
    assert state.counters == original.optimizer.read_state().counters
    assert state.history == original.optimizer.read_state().history


def test_a_law_that_is_another_one_starts_its_own_counts_anew():
    one, other = mk.LossScaler(LAW), mk.LossScaler(DynamicScale(SCALE, growth_interval=GROWTH + 1))
    plain = one.to_plain()
    plain["state"]["clean_steps"] = 2
    for scaler in (one, other):
        scaler.from_plain(plain)

    assert one.to_plain()["state"]["clean_steps"] == 2
    assert other.to_plain()["state"]["clean_steps"] == 0


def test_the_history_survives_when_it_is_longer_than_what_is_kept():
    scaler = mk.LossScaler(DynamicScale(1.0, growth_interval=1, max_scale=2.0))
    plain = scaler.to_plain() | {"history": [[step, 2.0**step] for step in range(10, 74)], "changes": 70}
    scaler.from_plain(plain)

    assert scaler.to_plain() == plain
    assert scaler.read().history[0] == (10, 2.0**10)


def test_what_is_saved_is_the_same_on_every_backend():
    """The state as text, so that a file goes from one backend to another: this one was written by hand."""
    scaler = mk.LossScaler(LAW)
    scaler.from_plain(
        json.loads(
            '{"law": {"law": "dynamic", "initial_scale": 256.0, "growth_interval": 3, "growth_factor": 2.0, '
            '"backoff_factor": 0.5, "min_scale": 6.103515625e-05, "max_scale": 16777216.0}, '
            '"state": {"scale": 512.0, "clean_steps": 1}, "counters": {"steps": 4, "applied": 4}, '
            '"history": [[3, 512.0]], "changes": 1}'
        )
    )

    state = scaler.read()
    assert (state.scale, state.counters["applied"], state.history) == (512.0, 4, ((3, 512.0),))
    assert scaler.to_plain()["state"] == {"scale": 512.0, "clean_steps": 1}


def test_moments_are_found_by_name_when_fewer_layers_train(tmp_path):
    original = trained("ours")
    original.save_weights(tmp_path / "of.weights.h5")
    restored = make("ours")
    restored.layers[0].trainable = False
    build(restored)

    restored.load_weights(tmp_path / "of.weights.h5")

    wanted = {variable.name: host(variable) for variable in inner(original).variables}
    found = {variable.name: host(variable) for variable in inner(restored).variables}
    assert found.keys() == {name for name in wanted if "hidden" not in name}
    for name, value in found.items():
        np.testing.assert_array_equal(value, wanted[name])


def test_moments_are_found_in_order_when_the_layers_have_other_names(tmp_path):
    original = trained("ours")
    original.save_weights(tmp_path / "of.weights.h5")
    restored = build(make("ours", name="other"))

    restored.load_weights(tmp_path / "of.weights.h5")

    assert_same_training(original, restored)


def test_state_that_the_checkpoint_lacks_is_warned_of_and_the_rest_is_restored(tmp_path):
    original = fit(model(mk.LossScaleOptimizer(keras.optimizers.Adam(1e-2), LAW)))
    original.save_weights(tmp_path / "of.weights.h5")
    restored = build(model(mk.LossScaleOptimizer(keras.optimizers.Adam(1e-2, use_ema=True), LAW)))

    with pytest.warns(MixteWarning, match=r"10 of the 14 variables .* missing: average of of/hidden_of/kernel"):
        restored.load_weights(tmp_path / "of.weights.h5")

    found = {variable.name: host(variable) for variable in inner(restored).variables}
    for variable in inner(original).variables:
        np.testing.assert_array_equal(found[variable.name], host(variable))


def test_a_checkpoint_of_another_optimizer_is_warned_of(tmp_path):
    fit(model(keras.optimizers.SGD(0.1))).save_weights(tmp_path / "sgd.weights.h5")
    restored = build(make("ours"))

    with pytest.warns(
        MixteWarning, match=r"holds, in their shapes, 0 of the \d+ variables of the optimizer 'adam"
    ):
        restored.load_weights(tmp_path / "sgd.weights.h5")


def test_D6_keras_set_weights_leaves_the_moments_out():
    original, restored = trained("keras"), build(make("keras"))

    restored.optimizer.set_weights(values(original.optimizer.variables))

    assert int(host(restored.optimizer.inner_optimizer._iterations)) == 0


def test_D6_set_weights_sets_all_variables():
    original, restored = trained("ours"), build(make("ours"))

    restored.optimizer.set_weights(values(original.optimizer.variables))

    assert_equal(restored.optimizer.variables, original.optimizer.variables)
    assert int(host(restored.optimizer.inner_optimizer._iterations)) == 6


def test_D6_set_weights_refuses_another_number_and_other_shapes():
    optimizer = build(make("ours")).optimizer
    given = values(optimizer.variables)

    with pytest.raises(InputError, match=rf"given {len(given) - 1} values for the {len(given)} variables"):
        optimizer.set_weights(given[:-1])
    with pytest.raises(InputError, match=r"shape \(3,\) for .*load_weights"):
        optimizer.set_weights([*given[:-1], np.zeros(3, "float32")])
    assert int(host(optimizer.inner_optimizer._iterations)) == 0


def test_P4_a_configuration_and_the_saved_state_hold_every_parameter_of_the_law():
    law = DynamicScale(2.0**7, growth_interval=11, growth_factor=4.0, min_scale=2.0**-3, max_scale=2.0**9)
    optimizer = mk.LossScaleOptimizer(adam(), law, iterations_on_skip="advance", name="mine")

    for again in (
        mk.LossScaleOptimizer.from_config(optimizer.get_config()),
        keras.saving.deserialize_keras_object(
            json.loads(json.dumps(keras.saving.serialize_keras_object(optimizer)))
        ),
        keras.optimizers.get(keras.optimizers.serialize(optimizer)),
    ):
        assert (again.law, again.iterations_on_skip, again.name) == (law, "advance", "mine")
        assert again.inner_optimizer.get_config() == optimizer.inner_optimizer.get_config()


def test_reading_a_configuration_leaves_it_as_it_was():
    """Keras's own takes the inner optimizer out of it."""
    config = mk.LossScaleOptimizer(adam(), LAW).get_config()
    before = json.dumps(config)

    mk.LossScaleOptimizer.from_config(config)

    assert json.dumps(config) == before


def test_the_configuration_of_keras_own_scaler_makes_a_dynamic_scale():
    theirs = KerasScaler(adam(), initial_scale=2.0**5, dynamic_growth_steps=77)

    optimizer = mk.LossScaleOptimizer.from_config(theirs.get_config())

    assert optimizer.law == DynamicScale(2.0**5, growth_interval=77)


OLD = {
    "inner_optimizer": {
        "class_name": "Adam",
        "config": {
            "name": "Adam",
            "learning_rate": 0.25,
            "decay": 0.0,
            "beta_1": 0.5,
            "is_legacy_optimizer": False,
            "jit_compile": True,
        },
    },
    "initial_scale": 512.0,
}


@pytest.mark.parametrize(
    ("dynamic", "law"),
    [
        ({"dynamic": True, "dynamic_growth_steps": 9}, DynamicScale(512.0, growth_interval=9)),
        ({"dynamic": False, "dynamic_growth_steps": None}, FixedScale(512.0)),
    ],
    ids=["dynamic", "fixed"],
)
def test_L13b_configurations_of_tf_keras_are_read(dynamic, law):
    with pytest.raises((TypeError, ValueError)):
        KerasScaler.from_config({**OLD, **dynamic, "inner_optimizer": dict(OLD["inner_optimizer"])})

    optimizer = mk.LossScaleOptimizer.from_config({**OLD, **dynamic})

    assert optimizer.law == law
    assert float(host(optimizer.inner_optimizer.learning_rate)) == 0.25
    assert optimizer.inner_optimizer.beta_1 == 0.5


def test_a_configuration_with_options_that_belong_to_the_inner_optimizer_is_refused():
    config = KerasScaler(adam()).get_config()

    assert mk.LossScaleOptimizer.from_config({**config, "clipnorm": None}).scaler.scales
    with pytest.raises(InputError, match=r"clipnorm=1\.0.*inner_optimizer"):
        mk.LossScaleOptimizer.from_config({**config, "clipnorm": 1.0})


def test_D3_keras_drops_loss_scaling_when_the_global_policy_is_another(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    original = fit(of_the_global_policy())
    original.save(tmp_path / "of.keras")
    keras.config.set_dtype_policy("float32")

    with pytest.warns(UserWarning, match="Skipping variable loading"):
        loaded = keras.saving.load_model(tmp_path / "of.keras")

    assert not isinstance(loaded.optimizer, KerasScaler)
    assert loaded.get_layer("a").compute_dtype == "float16"


def test_D3_a_model_of_keras_loaded_under_a_policy_has_its_loss_scaling_and_its_moments(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    original = fit(of_the_global_policy())
    original.save(tmp_path / "of.keras")
    keras.config.set_dtype_policy("float32")

    with mk.use("mixed_float16"):
        loaded = keras.saving.load_model(tmp_path / "of.keras")

    assert isinstance(loaded.optimizer, mk.LossScaleOptimizer)
    assert_same_training(original, loaded)


def test_D3_a_float32_model_loaded_under_a_policy_keeps_its_moments(tmp_path):
    original = fit(of_the_global_policy())
    original.save(tmp_path / "of.keras")

    with mk.use("mixed_float16"):
        loaded = keras.saving.load_model(tmp_path / "of.keras")

    assert isinstance(loaded.optimizer, mk.LossScaleOptimizer)
    assert loaded.get_layer("a").compute_dtype == "float16"
    assert_same_training(original, loaded)


def of_the_global_policy():
    keras.utils.set_random_seed(2)
    x = layers.Input((3,))
    built = keras.Model(x, layers.Dense(2, name="b")(layers.Dense(4, name="a")(x)), name="of")
    built.compile(keras.optimizers.Adam(1e-2), loss="mse")
    return built


class InterruptedTrainingError(Exception):
    """What ends a training of these tests."""


class InterruptAt(keras.callbacks.Callback):
    """Ends the training after a number of batches, as a signal would."""

    def __init__(self, batches):
        super().__init__()
        self._left = batches

    def on_train_batch_end(self, batch, logs=None):
        self._left -= 1
        if not self._left:
            raise InterruptedTrainingError


def test_backup_and_restore_gives_the_weights_of_the_training_that_was_not_interrupted(tmp_path):
    uninterrupted = trained_for_three_epochs()
    backup = keras.callbacks.BackupAndRestore(tmp_path / "backup")
    with pytest.raises(InterruptedTrainingError):
        fit(make("ours"), epochs=3, callbacks=[backup, InterruptAt(9)])

    resumed = fit(make("ours"), epochs=3, callbacks=[keras.callbacks.BackupAndRestore(tmp_path / "backup")])

    assert_same_training(uninterrupted, resumed)
    assert resumed.optimizer.read_state() == uninterrupted.optimizer.read_state()


def test_model_checkpoint_writes_what_the_training_goes_on_from(tmp_path):
    uninterrupted = trained_for_three_epochs()
    whole, weights = str(tmp_path / "of.keras"), str(tmp_path / "of.weights.h5")
    writing = [
        keras.callbacks.ModelCheckpoint(whole),
        keras.callbacks.ModelCheckpoint(weights, save_weights_only=True),
    ]
    fit(make("ours"), epochs=2, callbacks=writing)
    with_weights = make("ours")
    with_weights.load_weights(weights)

    for resumed in (keras.saving.load_model(whole), with_weights):
        fit(resumed)
        assert_same_training(uninterrupted, resumed)
        assert resumed.optimizer.read_state() == uninterrupted.optimizer.read_state()


def test_a_clone_is_compiled_anew_with_a_scaler_of_its_own():
    original = trained("ours")

    cloned = keras.models.clone_model(original)
    cloned.compile_from_config(original.get_compile_config())

    assert cloned.optimizer is not original.optimizer
    assert cloned.optimizer.law == LAW
    assert cloned.optimizer.read_state().counters["steps"] == 0


def test_loading_and_saving_draw_no_warning(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for kind in ("plain", "ours"):
            trained(kind).save_weights(tmp_path / f"{kind}.weights.h5")
            build(make("ours")).load_weights(tmp_path / f"{kind}.weights.h5")
        build(make("plain")).load_weights(tmp_path / "ours.weights.h5")


def test_the_inner_optimizer_is_an_attribute_like_any_other_after_loading(tmp_path):
    trained("ours").save_weights(tmp_path / "of.weights.h5")
    restored = make("ours")
    restored.load_weights(tmp_path / "of.weights.h5")

    assert "inner_optimizer" in dir(restored.optimizer)


only_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.train.Checkpoint is TensorFlow's")


@only_tensorflow
@pytest.mark.parametrize("law", [LAW, "logmax"], ids=str)
def test_tensorflow_checkpoints_keep_all_state_by_name(law, prepare, tmp_path):
    import tensorflow as tf

    original = trained("ours")
    path = tf.train.Checkpoint(model=original, optimizer=original.optimizer).save(tmp_path / "of")
    restored = prepare(model(mk.LossScaleOptimizer(adam(), law)))

    status = tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore(path)

    build(restored)
    status.assert_existing_objects_matched()
    assert_same_training(original, restored)
    assert restored.optimizer.read_state() == original.optimizer.read_state()


@only_tensorflow
def test_tensorflow_checkpoints_go_on_without_loss_scaling(prepare, tmp_path):
    import tensorflow as tf

    original = trained("ours")
    path = tf.train.Checkpoint(model=original, optimizer=original.optimizer).save(tmp_path / "of")
    restored = prepare(make("plain"))

    tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore(path).expect_partial()

    assert_same_training(original, build(restored))


@only_tensorflow
def test_tensorflow_checkpoints_of_keras_own_scaler_give_their_moments(tmp_path):
    import tensorflow as tf

    original = trained("keras")
    path = tf.train.Checkpoint(model=original, optimizer=original.optimizer).save(tmp_path / "of")
    restored = build(make("ours"))

    tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore(path).expect_partial()

    assert_same_training(original, restored)


@only_tensorflow
def test_tensorflow_checkpoints_without_loss_scaling_are_refused_with_the_remedy(tmp_path):
    import tensorflow as tf

    original = trained("plain")
    path = tf.train.Checkpoint(model=original, optimizer=original.optimizer).save(tmp_path / "of")
    restored = build(make("ours"))

    with pytest.warns(MixteWarning, match=r"tf\.train\.Checkpoint\(optimizer=optimizer\.inner_optimizer\)"):
        tf.train.Checkpoint(model=restored, optimizer=restored.optimizer).restore(path).expect_partial()
    assert int(host(restored.optimizer.inner_optimizer._iterations)) == 0
    inside = restored.optimizer.inner_optimizer
    tf.train.Checkpoint(model=restored, optimizer=inside).restore(path).expect_partial()

    assert_same_training(original, restored)

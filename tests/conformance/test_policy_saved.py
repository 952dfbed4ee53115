"""A model with a policy, saved and loaded, cloned, and made from its configuration: precisions, state, training."""

import keras
import numpy as np
import pytest
from keras import layers

import mixte.keras as mk
from mixte import Policy
from mixte.policy import ByPath, Rule
from mixte.scaling import DynamicScale

from .policy_models import CASES, attention, call_and_look, layers_of
from .steps import host

LAW = DynamicScale(2.0**8, growth_interval=2)


def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 4, 6)).astype("float32")
    return x, x[:, :, :2] * 0.5


def model():
    """A model with layers inside layers, and a precision for one of them that the script did not give."""
    keras.utils.set_random_seed(1)
    encoder = keras.Sequential(
        [layers.Input((4, 6)), layers.TimeDistributed(layers.Dense(5, name="each"), name="timed")],
        name="encoder",
    )
    x = layers.Input((4, 6))
    y = layers.Bidirectional(layers.SimpleRNN(3, name="rnn"), merge_mode="sum", name="both")(encoder(x))
    y = layers.Dense(4, activation="tanh", name="wide")(y)
    y = layers.RepeatVector(4, name="repeat")(y)
    return keras.Model(x, layers.Dense(2, name="out")(y), name="saved")


POLICY = Policy.mixed("float16").with_rules(Rule(ByPath("wide"), "float32", "by a rule, not by the script"))


def precisions(of):
    return {path: layer.dtype_policy.name for path, layer in layers_of(of).items()}


def trained():
    """Return a model with the policy after one epoch, and its optimizer."""
    built = model()
    mk.apply(built, POLICY)
    built.compile(mk.LossScaleOptimizer(keras.optimizers.Adam(1e-2), LAW), loss="mse")
    fit(built)
    return built


def fit(built):
    x, y = data()
    built.fit(x, y, batch_size=4, epochs=1, shuffle=False, verbose=0)


def test_a_saved_model_is_loaded_with_the_precision_of_each_layer_and_trains_on_as_if_nothing_had_been(
    tmp_path,
):
    original = trained()
    original.save(tmp_path / "model.keras")

    loaded = keras.saving.load_model(tmp_path / "model.keras")

    assert precisions(loaded) == precisions(original)
    assert precisions(loaded)["wide"] == "float32"
    assert isinstance(loaded.optimizer, mk.LossScaleOptimizer)
    assert loaded.optimizer.law == LAW
    assert loaded.optimizer.read_state() == original.optimizer.read_state()
    x, _ = data()
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), original.predict(x, verbose=0))
    for each in (original, loaded):
        fit(each)
    assert loaded.optimizer.read_state() == original.optimizer.read_state()
    assert loaded.optimizer.read_state().counters["applied"] == 4
    variables = [[*each.weights, *each.optimizer.variables] for each in (original, loaded)]
    for mine, other in zip(*variables, strict=True):
        np.testing.assert_array_equal(host(mine), host(other))


def test_a_saved_model_is_loaded_without_its_optimizer_and_can_be_compiled(tmp_path):
    original = trained()
    original.save(tmp_path / "model.keras")

    loaded = keras.saving.load_model(tmp_path / "model.keras", compile=False)

    assert precisions(loaded) == precisions(original)
    assert not loaded.compiled
    for mine, other in zip(
        loaded.weights, original.weights, strict=True
    ):  # without seeds, which Keras saves not
        np.testing.assert_array_equal(host(mine), host(other))
    loaded.compile(mk.LossScaleOptimizer(keras.optimizers.Adam(1e-2), LAW), loss="mse")
    fit(loaded)
    assert loaded.optimizer.read_state().counters["applied"] == 2


def test_an_optimizer_that_was_wrapped_by_applying_is_saved_and_loaded(tmp_path):
    original = model()
    original.compile(keras.optimizers.Adam(1e-2), loss="mse")
    mk.apply(original, POLICY, law=LAW)
    fit(original)
    original.save(tmp_path / "model.keras")

    loaded = keras.saving.load_model(tmp_path / "model.keras")

    assert isinstance(loaded.optimizer, mk.LossScaleOptimizer)
    assert loaded.optimizer.read_state() == original.optimizer.read_state()
    assert int(host(loaded.optimizer.iterations)) == 2


def test_weights_go_from_a_model_with_a_policy_to_one_without_and_back(tmp_path):
    mixed, plain = model(), model()
    mk.apply(mixed, POLICY)
    for variable in mixed.trainable_variables:
        variable.assign(variable + 2.0**-20)  # which float16 would not hold

    mixed.save_weights(tmp_path / "mixed.weights.h5")
    plain.load_weights(tmp_path / "mixed.weights.h5")

    for mine, other in zip(plain.weights, mixed.weights, strict=True):
        np.testing.assert_array_equal(host(mine), host(other))


COPIES = {
    "clone_model": keras.models.clone_model,
    "from_config": lambda of: type(of).from_config(of.get_config()),
    "to_json": lambda of: keras.models.model_from_json(of.to_json()),
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES.keys())
def test_a_copy_has_the_precision_of_each_layer(copy):
    original = model()
    mk.apply(original, POLICY)

    copied = copy(original)

    assert precisions(copied) == precisions(original)
    x, _ = data()
    assert call_and_look(copied, x)[1] == call_and_look(original, x)[1]


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES.keys())
def test_a_layer_of_a_copy_keeps_its_precision_in_a_configuration_of_its_own(copy):
    original = model()
    mk.apply(original, POLICY)
    wide = copy(original).get_layer("wide")

    again = layers.Dense.from_config(wide.get_config())

    assert again.dtype_policy.name == "float32"


class Custom(keras.Model):
    def __init__(self, **named):
        super().__init__(**named)
        self.hidden = layers.Dense(4, name="hidden")
        self.head = layers.Dense(2, name="head")

    def call(self, x):
        return self.head(self.hidden(x))


@pytest.mark.parametrize(
    "name", ["functional", "normalisations", "TimeDistributed", "Bidirectional", "convolutions"]
)
def test_a_policy_is_applied_to_a_model_that_was_loaded_or_cloned_in_float32(name):
    """Keras hands the dtype of a configuration on as if the script had written it."""
    case = CASES[name]
    cloned = keras.models.clone_model(case.build())

    applied = mk.apply(cloned, "mixed_float16")

    assert {path: layer.compute_dtype for path, layer in layers_of(cloned).items()} == case.computes_in
    assert "script" not in {decision.origin for decision in applied.decisions}


def test_a_dtype_that_the_script_gives_to_a_layer_with_its_initializer_counts_as_the_scripts():
    given = layers.Dense(2, dtype="float32", trainable=False, name="given")
    built = keras.Sequential([layers.Input((2,)), given, layers.Dense(2, name="free"), layers.Dense(1)])

    mk.apply(built, "mixed_float16")

    assert [layer.compute_dtype for layer in built.layers] == ["float32", "float16", "float32"]


WITH_PARTS = {"parts that Keras makes": attention, "a class of the script": lambda: Custom(name="custom")}


@pytest.mark.parametrize("build", WITH_PARTS.values(), ids=WITH_PARTS.keys())
def test_parts_that_no_configuration_names_get_their_precision_by_applying_again(build, tmp_path):
    """Keras does not save what a layer, or a class of the script, makes inside itself: it is made anew."""
    original = build()
    x, _ = data()
    original(x)
    mk.apply(original, "mixed_float16")
    original.save(tmp_path / "model.keras")

    loaded = keras.saving.load_model(tmp_path / "model.keras", custom_objects={"Custom": Custom})
    assert precisions(loaded) != precisions(original), "Keras saves this now: say so in the documentation"

    mk.apply(loaded, "mixed_float16")
    assert precisions(loaded) == precisions(original)
    np.testing.assert_array_equal(host(loaded(x)), host(original(x)))


@pytest.mark.parametrize("build", WITH_PARTS.values(), ids=WITH_PARTS.keys())
def test_a_model_loaded_under_a_policy_has_its_precisions(build, tmp_path):
    original = build()
    x, _ = data()
    original(x)
    original.save(tmp_path / "model.keras")  # in float32

    with mk.use("mixed_float16"):
        loaded = keras.saving.load_model(tmp_path / "model.keras", custom_objects={"Custom": Custom})

    mk.apply(original, "mixed_float16")
    assert precisions(loaded)["head" if "head" in precisions(loaded) else "out"] == "float32"
    np.testing.assert_array_equal(host(loaded(x)), host(original(x)))


def test_a_sequential_model_loaded_under_a_policy_has_one_output(tmp_path):
    """Keras makes a functional model of its layers at each layer that it adds: the last one of each is no output."""
    keras.utils.set_random_seed(1)
    layers_ = [
        layers.Input((3,)),
        layers.Dense(4, name="first"),
        layers.Dense(4, name="second"),
        layers.Dense(2),
    ]
    original = keras.Sequential(layers_, name="sequence")
    original.save(tmp_path / "sequence.keras")

    with mk.use("mixed_float16"):
        loaded = keras.saving.load_model(tmp_path / "sequence.keras")

    assert [layer.compute_dtype for layer in loaded.layers] == ["float16", "float16", "float32"]


def test_precisions_of_the_other_tests_are_not_all_the_same():
    built = model()
    mk.apply(built, POLICY)

    assert set(precisions(built).values()) == {"float32", "mixed_float16"}
    assert CASES["functional"].computes_in["left"] == "float16"

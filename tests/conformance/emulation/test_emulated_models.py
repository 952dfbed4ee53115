"""Emulating whole models: what is refused, what is left behind, and that a real scaler works on top."""

import numpy as np
import pytest

import mixte.keras
from mixte.cli._emulate import FLOAT8_BASES
from mixte.keras._emulation import FLOAT8_POLICIES
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale

keras = pytest.importorskip("keras")
layers = keras.layers


def classifier():
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, activation="relu", name="hidden"), layers.Dense(3, name="out")]
    )


def data(size=16):
    rng = np.random.default_rng(0)
    return rng.standard_normal((size, 6)).astype(np.float32), rng.integers(0, 3, size)


def compiled(model):
    model.compile("sgd", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def everything():
    """Return a model with most kinds of layers that compute."""
    inputs = keras.Input((12, 12, 2))
    x = layers.Conv2D(4, 3, activation="relu")(inputs)
    x = layers.DepthwiseConv2D(2)(x)
    x = layers.SeparableConv2D(4, 2)(x)
    x = layers.BatchNormalization()(x)
    x = layers.Conv2DTranspose(4, 3, strides=2)(x)
    x = layers.MaxPooling2D(2)(x)
    x = layers.Reshape((-1, 4))(x)
    x = layers.Conv1D(4, 2)(x)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.GRU(4, return_sequences=True)(x)
    x = x + layers.MultiHeadAttention(2, 4)(x, x)
    x = layers.TimeDistributed(layers.Dense(4, activation="gelu"))(layers.LayerNormalization()(x))
    return keras.Model(inputs, layers.Dense(3)(layers.GlobalAveragePooling1D()(x)))


@pytest.mark.parametrize(
    ("policy", "arch"), [("mixed_float16", "volta"), ("mixed_bfloat16", "ada"), ("float8", "ada")]
)
def test_a_model_of_many_kinds_of_layers_trains(policy, arch):
    with mixte.keras.use(policy, emulate=arch, law=256.0 if policy == "mixed_float16" else None):
        model = compiled(everything())
    x = np.random.default_rng(0).standard_normal((4, 12, 12, 2)).astype(np.float32)

    history = model.fit(x, np.arange(4) % 3, epochs=2, verbose=0)

    assert np.isfinite(history.history["loss"]).all()
    if policy == "mixed_float16":
        assert model.optimizer.read_state().counters["applied"] == 2


class Block(layers.Layer):
    """A layer of a user's own, with a layer inside."""

    def __init__(self):
        super().__init__()
        self.inner = layers.Dense(6, activation="relu")

    def call(self, x):
        return x + self.inner(x)


class Subclassed(keras.Model):
    """A model of a user's own, of layers of their own."""

    def __init__(self):
        super().__init__()
        self.blocks = [Block(), Block()]
        self.out = layers.Dense(3)

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def test_a_subclassed_model_is_emulated_when_it_is_built_by_fit_and_undone():
    with mixte.keras.use("mixed_float16", emulate="volta"):
        model = compiled(Subclassed())

    model.fit(*data(), verbose=0)
    emulated = mixte.keras.emulate(model, arch="volta")
    assert sorted(emulated.formats) == ["block", "block/dense", "block_1", "block_1/dense_1"]
    emulated.undo()

    assert not any("call" in vars(layer) for layer in model._flatten_layers())


def test_decisions_are_those_without_emulation():
    plain = mixte.keras.apply(everything(), "mixed_float16")
    keras.utils.clear_session(free_memory=False)
    emulated = mixte.keras.emulate(everything(), "mixed_float16", arch="volta")

    assert emulated.applied is not None
    assert [d.precision for d in emulated.applied.decisions] == [d.precision for d in plain.decisions]


def test_undo_gives_layers_their_arithmetic_and_precision_back():
    x, _ = data()
    model = classifier()
    before = model.predict_on_batch(x)
    attributes = [sorted(vars(layer)) for layer in model.layers]

    emulated = mixte.keras.emulate(model, "mixed_float16", arch="volta")
    between = model.predict_on_batch(x)
    emulated.undo()

    assert not np.array_equal(between, before)
    np.testing.assert_array_equal(model.predict_on_batch(x), before)
    assert [sorted(vars(layer)) for layer in model.layers] == attributes


def test_a_saved_model_has_nothing_of_the_emulation(tmp_path):
    def config(*, emulated):
        keras.utils.clear_session(free_memory=False)
        model = classifier()
        if emulated:
            mixte.keras.emulate(model, "mixed_float16", arch="volta", exact=["hidden"])
        else:
            mixte.keras.apply(model, "mixed_float16")
        model.save(tmp_path / "model.keras")
        return keras.models.load_model(tmp_path / "model.keras")

    plain, loaded = config(emulated=False), config(emulated=True)

    assert loaded.get_config() == plain.get_config()
    assert not any("_mixte_products" in vars(layer) for layer in loaded.layers)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="exports of the other backends need packages of their own")
def test_an_exported_model_multiplies_in_its_own_dtype(tmp_path):
    import tensorflow as tf

    model = classifier()
    mixte.keras.emulate(model, "mixed_float16", arch="volta")
    model.predict_on_batch(data()[0])
    model.export(tmp_path / "exported", verbose=False)

    graph = tf.saved_model.load(str(tmp_path / "exported")).signatures["serving_default"].graph
    operations = [op for function in graph._functions.values() for op in function.graph.get_operations()]
    operations += graph.get_operations()
    assert "float16" in {op.outputs[0].dtype.name for op in operations if op.type == "MatMul"}


def test_overflows_are_skipped_and_the_scale_falls_by_the_real_scaler():
    with mixte.keras.use("mixed_float16", emulate="volta", law=DynamicScale(2.0**24)):
        model = compiled(classifier())
    x, y = data()
    before = [w.copy() for w in model.get_weights()]

    model.train_on_batch(x, y)

    state = model.optimizer.read_state()
    assert (state.counters["skipped"], state.scale) == (1, 2.0**23)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    ("policy", "arch", "said"),
    [
        ("mixed_bfloat16", "volta", r"volta do not multiply bfloat16 .* They multiply: float16"),
        ("mixed_bfloat16", "turing", "turing do not multiply bfloat16"),
        ("float8", "ampere", "ampere do not multiply float8_e4m3fn .*ada, hopper, blackwell can"),
        ("mixed_float16", "pascal", "unknown architecture 'pascal'"),
    ],
)
def test_what_an_architecture_lacks_is_refused_with_what_it_has(policy, arch, said):
    model = classifier()
    with pytest.raises(mixte.InputError, match=said):
        mixte.keras.emulate(model, policy, arch=arch)
    with pytest.raises(mixte.InputError, match=said), mixte.keras.use(policy, emulate=arch):
        pass
    assert model.layers[0].dtype_policy.name == "float32"


def test_a_single_layer_in_a_format_that_is_lacking_is_named():
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8, dtype="mixed_bfloat16", name="hidden"), layers.Dense(3)]
    )
    with pytest.raises(mixte.InputError, match=r"layer 'hidden': .*bfloat16"):
        mixte.keras.emulate(model, arch="volta")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [("nothing", "'nothing' selects no layer; .*hidden"), ("out", "only layers .* float32")],
)
def test_an_exact_pattern_that_selects_nothing_is_refused_with_what_there_is(pattern, said):
    with pytest.raises(mixte.InputError, match=said):
        mixte.keras.emulate(classifier(), "mixed_float16", arch="volta", exact=[pattern])


def test_float16_weights_lose_small_updates_and_float32_master_weights_do_not():
    moved = {}
    for policy in ("float16", "mixed_float16"):
        with mixte.keras.use(policy, emulate="volta", law=1.0):
            inputs = keras.Input((1,))
            hidden = layers.Dense(1, use_bias=False, kernel_initializer="ones", name=f"w_{policy}")(inputs)
            model = keras.Model(inputs, layers.Activation("linear", dtype="float32")(hidden))
        # Each step would lower the weight by 2^-12, a quarter of a unit of float16 below 1.
        model.compile(keras.optimizers.SGD(2.0**-12), loss=lambda t, y: y * t)
        for _ in range(16):
            model.train_on_batch(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32))
        moved[policy] = 1 - float(np.asarray(model.get_weights()[0], np.float32)[0, 0])

    assert moved == {"float16": 0.0, "mixed_float16": 2.0**-8}


def test_gradients_that_underflow_need_loss_scaling():
    moved = {}
    for law in (1.0, 4096.0):
        with mixte.keras.use("mixed_float16", emulate="volta", law=mixte.FixedScale(law)):
            inputs = keras.Input((1,))
            hidden = layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs)
            model = keras.Model(inputs, layers.Activation("linear", dtype="float32")(hidden))
        model.compile(keras.optimizers.SGD(1.0), loss=lambda t, y: y * t)
        model.train_on_batch(np.ones((1, 1), np.float32), np.full((1, 1), 2.0**-26, np.float32))
        moved[law] = -float(model.get_weights()[0][0, 0])

    assert moved == {1.0: 0.0, 4096.0: 2.0**-26}


def test_the_command_line_and_the_library_know_the_same_float8_policies():
    assert FLOAT8_BASES == FLOAT8_POLICIES

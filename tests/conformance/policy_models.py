"""Small models of every kind, each with the dtypes that its layers compute in under ``mixed_float16``."""

import re
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from mixte.keras._describe import describe_layers

from .steps import host

BATCH = 4
FLOAT16, FLOAT32 = "float16", "float32"


@dataclass(frozen=True)
class Case:
    """A model, the shape of its input, and what each of its layers computes in under ``mixed_float16``.

    Written out by hand from the page on policies, not computed: float16, but for outputs and softmax layers.
    """

    build: Any
    shape: tuple[int, ...]
    computes_in: dict[str, str]
    indices: int | None = None  # the input holds integers below this number

    def inputs(self):
        rng = np.random.default_rng(11)
        if self.indices is not None:
            return rng.integers(0, self.indices, (BATCH, *self.shape)).astype("int32")
        return rng.normal(size=(BATCH, *self.shape)).astype("float32")

    def built(self):
        """Return the model with seed 1, called once: the weights are always the same."""
        keras.utils.set_random_seed(1)
        model = self.build()
        model(self.inputs())
        return model


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__(name="subclassed")
        self.hidden = layers.Dense(8, activation="tanh", name="hidden")
        self.head = layers.Dense(2, name="head")

    def call(self, x):
        return self.head(self.hidden(x))


def sequential(*, with_input=True):
    first = [layers.Input((6,))] if with_input else []
    hidden = layers.Dense(8, activation="relu", name="hidden")
    return keras.Sequential([*first, hidden, layers.Dense(3, activation="softmax", name="out")])


def functional():
    x = layers.Input((6,))
    added = layers.Add(name="add")([layers.Dense(8, name="left")(x), layers.Dense(8, name="right")(x)])
    return keras.Model(x, layers.Dense(2, name="out")(added))


def nested():
    encoder = keras.Sequential([layers.Input((6,)), layers.Dense(8, name="inner")], name="encoder")
    x = layers.Input((6,))
    return keras.Model(x, layers.Dense(2, name="out")(encoder(x)))


def nested_subclassed():
    x = layers.Input((6,))
    return keras.Model(x, Subclassed()(x))


def shared():
    x, dense = layers.Input((6,)), layers.Dense(6, name="shared")
    return keras.Model(x, layers.Dense(2, name="out")(dense(dense(x))))


def one_layer(shape, *middle, dtype="float32"):
    """Return a functional model of some layers with a Dense output."""
    x = y = layers.Input(shape, dtype=dtype)
    for layer in middle:
        y = layer(y)
    return keras.Model(x, layers.Dense(2, name="out")(y))


def time_distributed():
    return one_layer((4, 6), layers.TimeDistributed(layers.Dense(5, name="each"), name="timed"))


def bidirectional():
    return one_layer((4, 6), layers.Bidirectional(layers.LSTM(3, name="lstm"), name="both"))


def attention():
    # With a dropout: without, Keras calls JAX's fused attention, which has no float16 on a CPU.
    x = layers.Input((4, 6))
    y = layers.MultiHeadAttention(2, 3, dropout=0.25, name="attention")(x, x)
    return keras.Model(x, layers.Dense(2, name="out")(y))


def embedding():
    return one_layer((4,), layers.Embedding(10, 6, name="table"), layers.Flatten(name="flat"), dtype="int32")


def normalisations():
    return one_layer(
        (6,),
        layers.Dense(8, name="hidden"),
        layers.LayerNormalization(name="layer_norm"),
        layers.BatchNormalization(name="batch_norm"),
    )


def operations():
    x = layers.Input((6,))
    y = ops.tanh(layers.Dense(8, name="first")(x)) * 2.0
    y = layers.Dense(8, name="second")(ops.concatenate([y, y]))
    left, right = layers.Dense(2, name="left")(y), layers.Dense(2, name="right")(y)
    return keras.Model(x, ops.add(left, right))


def convolutions():
    return one_layer(
        (6, 6, 2),
        layers.SeparableConv2D(4, 3, name="separable"),
        layers.DepthwiseConv2D(3, name="depthwise"),
        layers.GlobalAveragePooling2D(name="pool"),
    )


def _all(dtype, *paths, **others):
    return dict.fromkeys(paths, dtype) | {"out": FLOAT32} | others


CASES = {
    "sequential": Case(sequential, (6,), _all(FLOAT16, "hidden")),
    "sequential without Input": Case(lambda: sequential(with_input=False), (6,), _all(FLOAT16, "hidden")),
    "functional": Case(functional, (6,), _all(FLOAT16, "left", "right", "add")),
    "nested": Case(nested, (6,), _all(FLOAT16, "encoder/inner")),
    "nested subclassed": Case(
        nested_subclassed, (6,), {"subclassed/hidden": FLOAT16, "subclassed/head": FLOAT32}
    ),
    "shared layer": Case(shared, (6,), _all(FLOAT16, "shared")),
    "subclassed": Case(Subclassed, (6,), {"hidden": FLOAT16, "head": FLOAT32}),
    "TimeDistributed": Case(time_distributed, (4, 6), _all(FLOAT16, "timed", "timed/each")),
    "Bidirectional": Case(
        bidirectional,
        (4, 6),
        _all(
            FLOAT16,
            "both",
            *("both/forward_lstm", "both/forward_lstm/lstm_cell"),
            *("both/backward_lstm", "both/backward_lstm/lstm_cell"),
        ),
    ),
    "MultiHeadAttention": Case(
        attention,
        (4, 6),
        _all(
            FLOAT16,
            "attention",
            *("attention/query", "attention/key", "attention/value", "attention/attention_output"),
            "attention/dropout",
            **{"attention/softmax": FLOAT32},
        ),
    ),
    "Embedding": Case(embedding, (4,), _all(FLOAT16, "table", "flat"), indices=10),
    "normalisations": Case(normalisations, (6,), _all(FLOAT16, "hidden", "layer_norm", "batch_norm")),
    "keras.ops": Case(
        operations, (6,), {"first": FLOAT16, "second": FLOAT16, "left": FLOAT32, "right": FLOAT32}
    ),
    "convolutions": Case(convolutions, (6, 6, 2), _all(FLOAT16, "separable", "depthwise", "pool")),
}


def stable(path):
    """Return a path without the numbers that Keras gives to the parts of a layer: ``softmax_1`` is the second."""
    return re.sub(r"_\d+(?=/|$)", "", path)


def layers_of(model):
    """Return the layers by path, without the models, which compute nothing themselves."""
    described = describe_layers(model)
    return {stable(each.path): each.layer for each in described if not isinstance(each.layer, keras.Model)}


def policies_of(model):
    """Return the names of the dtype policies of all layers, and of the models."""
    return {stable(each.path): each.layer.dtype_policy.name for each in describe_layers(model)}


def call_and_look(model, x):
    """Call a model.

    Returns:
        The output, and for each layer the dtype of what its ``call`` returned: what it really computed in.
    """
    seen = {}

    def listening(path, call):
        def listen(*args, **kwargs):
            result = call(*args, **kwargs)
            seen[path] = {keras.backend.standardize_dtype(each.dtype) for each in keras.tree.flatten(result)}
            return result

        return listen

    found = layers_of(model)
    for path, layer in found.items():
        object.__setattr__(layer, "call", listening(path, layer.call))
    try:
        output = model(x)
    finally:
        for layer in found.values():
            object.__delattr__(layer, "call")
    return output, {path: "/".join(sorted(dtypes)) for path, dtypes in seen.items()}


def values_of(model):
    return [host(variable) for variable in model.variables]


def symbols_of(model):
    """Return the dtypes of a model's symbolic tensors; of a subclassed model there are none."""
    if not getattr(model, "outputs", None):
        return []
    inner = [tensor for layer in model.layers for tensor in keras.tree.flatten(layer.output)]
    return [tensor.dtype for tensor in (*model.inputs, *model.outputs, *inner)]

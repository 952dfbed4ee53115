"""The layer of an operation is found in the scopes that each framework writes; the scopes are of real profiles."""

from __future__ import annotations

import pytest

from mixte.profiles._layer_names import LayerNames

MODELS = [
    ("sequential", ["dense", "dense_1", "conv"]),
    ("gan", ["encoder/dense", "encoder/dense_3", "encoder", "head"]),
]


@pytest.mark.parametrize(
    ("scope", "layer"),
    [
        ("sequential/dense", "dense"),
        ("StatefulPartitionedCall/sequential/dense_1", "dense_1"),
        # TensorFlow numbers names that come twice: the model's own name tells.
        ("StatefulPartitionedCall/sequential_1/dense_1", "dense"),
        ("StatefulPartitionedCall/gradient_tape/sequential_1/dense_1_1/MatMul", "dense_1"),
        ("gradient_tape/gan_2/encoder_2/dense_3_2/MatMul/MatMul_1", "encoder/dense_3"),
        ("gan/encoder/unknown", "encoder"),
        # JAX wraps names in transformations, and leaves the outermost model's out.
        ("jit(train_step)/jvp(conv)/jit(relu)", "conv"),
        ("jit(train_step)/transpose(jvp(dense_1))", "dense_1"),
        ("jit(train_step)/transpose(jvp(encoder))/dense_3", "encoder/dense_3"),
        # What belongs to no layer is called what the scope says, without what is put around all of them.
        ("StatefulPartitionedCall/adam", "adam"),
        ("jit(train_step)/transpose(jvp(compile_loss))/mse", "compile_loss/mse"),
        ("jit(train_step)", None),
    ],
)
def test_the_innermost_layer_is_found(scope: str, layer: str | None) -> None:
    assert LayerNames(MODELS).layer_of(scope) == layer


def test_without_known_layers_the_scope_speaks_for_itself() -> None:
    assert LayerNames([]).layer_of("jit(step)/jvp(block)/attention") == "block/attention"

"""Compute the forward pass of a batch once more, and see what every layer gives.

Eagerly, and without a trace: the model's variables, statistics and random states stay as they are.
"""

from __future__ import annotations

import functools
import math
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from mixte.keras._describe import describe_layers
from mixte.keras._emulation_scope import entered
from mixte.keras._framework import BACKEND, keras, to_host

if TYPE_CHECKING:
    from collections.abc import Generator

    from mixte.keras._guard_batch import Batch


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What one layer gave.

    Attributes:
        path: The layer's path in the model.
        layer: The layer, or an operation of a functional model.
        largest: The largest magnitude in its outputs; infinite or NaN if one of them is.
        dtype: The narrowest floating format among its outputs.
    """

    path: str
    layer: Any
    largest: float
    dtype: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """What a forward pass gave.

    Attributes:
        outputs: Of every layer, in the order in which they were computed; of a layer within another, before the
            other's.
        loss: The loss; None if it is not known how to compute it.
    """

    outputs: tuple[Output, ...]
    loss: float | None


def replay(model: Any, batch: Batch, *, float32: bool) -> Forward:
    """Compute a batch's forward pass and loss.

    Args:
        model: A built model.
        batch: What to call it with.
        float32: Whether every layer computes in float32; otherwise each does as it is set.
    """
    seen: list[Output] = []
    with ExitStack() as stack:
        stack.enter_context(quietly())
        if BACKEND == "torch":
            import torch

            stack.enter_context(torch.no_grad())
        if float32:
            stack.enter_context(in_float32(model))
        stack.enter_context(_outputs_noted(model, seen))
        trainable, others = values_of(model)
        loss = forward(model, batch, trainable, others)
    return Forward(outputs=tuple(seen), loss=None if loss is None else float(to_host(loss)))


def largest_gradients(model: Any, batch: Batch) -> list[tuple[Any, float]]:
    """Return each trainable variable of a model with its largest gradient, in float32; none without a loss."""
    if not batch.has_loss:
        return []
    with quietly(), in_float32(model):
        trainable, others = values_of(model)
        gradients = _gradients(lambda values: forward(model, batch, values, others), trainable)
    pairs = zip(model.trainable_variables, gradients, strict=True)
    return [(variable, largest_of(gradient)) for variable, gradient in pairs if gradient is not None]


def forward(model: Any, batch: Batch, trainable: list[Any], others: list[Any]) -> Any:
    """Return the loss of a forward pass on values; None where it is not known how to compute it."""
    named = dict(batch.named)
    if batch.has_loss and model._call_has_training_arg:  # noqa: SLF001 - as Keras's own train_step
        named["training"] = True
    mapping = list(zip(model.trainable_variables, trainable, strict=True))
    mapping += zip(model.non_trainable_variables, others, strict=True)
    with keras.StatelessScope(state_mapping=mapping, collect_losses=True):
        inputs = keras.tree.map_structure(_tensor, batch.inputs)
        y_pred = model(*inputs, **named)
        if not batch.has_loss or (batch.target is None and not model.losses):
            return None
        target, weight = keras.tree.map_structure(_tensor, (batch.target, batch.weight))
        return model.compute_loss(x=inputs[0], y=target, y_pred=y_pred, sample_weight=weight)


def values_of(model: Any) -> tuple[list[Any], list[Any]]:
    """Return the present values of a model's variables: the trainable ones, and the others."""
    groups = (model.trainable_variables, model.non_trainable_variables)
    trainable, others = ([variable.value for variable in group] for group in groups)
    return trainable, others


@contextmanager
def in_float32(model: Any) -> Generator[None]:
    """Let every layer of a model compute in float32, and without an emulated arithmetic."""
    before = [(layer, layer._dtype_policy) for layer in model._flatten_layers()]  # noqa: SLF001 - see _apply
    try:
        for layer, policy in before:
            if policy.compute_dtype in ("float16", "bfloat16"):
                layer._dtype_policy = keras.dtype_policies.DTypePolicy("float32")  # noqa: SLF001 - as above
        with entered(None):
            yield
    finally:
        for layer, policy in before:
            layer._dtype_policy = policy  # noqa: SLF001 - as above


@contextmanager
def quietly() -> Generator[None]:
    """Let overflows happen without warnings: it is known that they do."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _outputs_noted(model: Any, seen: list[Output]) -> Generator[None]:
    """Note what is given by every layer, and every operation of a functional model, that is called meanwhile."""
    paths = {id(each.layer): each.path for each in describe_layers(model)}
    kinds = (keras.Layer, keras.Operation)
    originals = [kind.__call__ for kind in kinds]

    def noting(original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(self, *args, **kwargs)
            largest = largest_of(result)
            if not isinstance(self, (keras.layers.InputLayer, keras.losses.Loss)):
                path = paths.get(id(self)) or self.name
                seen.append(Output(path=path, layer=self, largest=largest, dtype=_narrowest(result)))
            return result

        return call

    try:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__call__ = noting(original)
        yield
    finally:
        for kind, original in zip(kinds, originals, strict=True):
            kind.__call__ = original


def _narrowest(tensors: Any) -> str:
    dtypes = {
        keras.backend.standardize_dtype(tensor.dtype)
        for tensor in keras.tree.flatten(tensors)
        if hasattr(tensor, "dtype")
    }
    return next((dtype for dtype in ("float16", "bfloat16") if dtype in dtypes), "float32")


def largest_of(tensors: Any) -> float:
    """Return the largest magnitude in tensors; NaN if one is NaN, 0 of none."""
    known = [value for value in map(magnitude, keras.tree.flatten(tensors)) if value is not None]
    if any(math.isnan(value) for value in known):
        return math.nan
    return max(known, default=0.0)


def magnitude(tensor: Any) -> float | None:
    """Return the largest magnitude in a tensor or array; NaN if there is one; None of what holds no such numbers."""
    if BACKEND == "tensorflow" and type(tensor).__name__ == "IndexedSlices":
        tensor = tensor.values
    if not hasattr(tensor, "dtype") or isinstance(tensor, keras.KerasTensor):
        return None
    if not keras.backend.is_float_dtype(keras.backend.standardize_dtype(tensor.dtype)):
        return None
    values = keras.ops.abs(keras.ops.cast(tensor, "float32"))
    if 0 in values.shape:
        return None
    # Not max() alone: whether it passes a NaN on differs between backends.
    largest = keras.ops.where(keras.ops.any(keras.ops.isnan(values)), math.nan, keras.ops.max(values))
    return float(to_host(largest))


def _tensor(value: Any) -> Any:
    """Return what Keras would make of an element of a batch."""
    if isinstance(value, (np.ndarray, np.generic, float)):
        array = np.asarray(value)
        wide = array.dtype == np.float64
        return keras.ops.convert_to_tensor(array.astype(keras.config.floatx()) if wide else array)
    if BACKEND == "torch" and hasattr(value, "device"):
        return keras.ops.convert_to_tensor(value)  # moves it to the device that Keras computes on
    return value


def _gradients(loss_of: Any, values: list[Any]) -> list[Any]:
    if BACKEND == "tensorflow":
        import tensorflow as tf

        tensors = [tf.convert_to_tensor(value) for value in values]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = loss_of(tensors)
        return tape.gradient(loss, tensors)
    if BACKEND == "jax":
        import jax

        return jax.grad(loss_of)(values)
    import torch

    with torch.enable_grad():
        leaves = [value.detach().clone().requires_grad_() for value in values]
        return list(torch.autograd.grad(loss_of(leaves), leaves, allow_unused=True))

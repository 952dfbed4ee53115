"""Divide gradients by the loss scale, in float32, in few operations; and lay them out to be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from mixte.keras._conditional import compiles_with_xla
from mixte.keras._framework import BACKEND, keras

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Up to this many elements, gradients are handled together: two hundred small ones then cost a few operations, not
# hundreds. Larger ones would cost more to copy than an operation costs to start.
SMALL_ELEMENTS = 1 << 14


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Unscaled:
    """Gradients divided by the scale, and what to look at to know them.

    XLA computes the division wherever its result is read, as part of what reads it. What is only looked at had
    better be what lies in memory already: the gradients as they were given.

    Attributes:
        gradients: One for each that was given: None stays None, and sparse ones stay sparse.
        in_memory: The same, perhaps before they were divided.
        blocks: Float32 tensors that hold each value of ``in_memory`` once: fewer than the gradients.
        divide: Makes of a value of ``in_memory`` the unscaled one; it rounds monotonically.
    """

    gradients: list[Any]
    in_memory: list[Any]
    blocks: list[Any]
    divide: Callable[[Any], Any]


def unscale(gradients: Sequence[Any], scale: Any, *, untouched: Sequence[bool]) -> Unscaled:
    """Divide gradients by the scale, in float32 at least. None stays None; sparse ones stay sparse.

    Under XLA they are multiplied by the reciprocal: XLA computes a division that several operations read, the check
    and the update, once and apart, which takes a kernel for each gradient; a product it computes wherever it is
    read. For a power of two, as nearly all laws give, the result is the same; for another scale it may differ
    in the last bit.

    Args:
        gradients: What differentiating the scaled loss gave.
        scale: float32 scalar tensor.
        untouched: For each gradient, whether it is no derivative but the new value of a float8 scale, which
            Keras hands on as a gradient.
    """
    if BACKEND == "torch":
        return looked_at(_unscale_torch(gradients, scale, untouched))
    if compiles_with_xla(scale):
        divide = _by_multiplying(scale)
        return Unscaled(
            gradients=_divided_each(gradients, scale, divide, untouched),
            in_memory=list(gradients),
            blocks=_blocks(gradients),
            divide=divide,
        )
    if BACKEND == "tensorflow":
        return _unscale_stacked(gradients, scale, untouched)
    return looked_at(_divided_each(gradients, scale, lambda gradient: gradient / scale, untouched))


def looked_at(unscaled: Sequence[Any]) -> Unscaled:
    """Return gradients that were unscaled before, to be looked at."""
    gradients = list(unscaled)
    return Unscaled(gradients=gradients, in_memory=gradients, blocks=_blocks(gradients), divide=_unchanged)


def _unchanged(value: Any) -> Any:
    return value


def _blocks(gradients: Sequence[Any]) -> list[Any]:
    values = [stored_values(gradient) for gradient in gradients if gradient is not None]
    if BACKEND == "torch" or not values:
        return values
    if BACKEND == "tensorflow" and not compiles_with_xla(values[0]):
        alike, others = _alike(values)
        return [_stack([values[place] for place in places]) for places in alike] + [values[i] for i in others]
    ops = keras.ops
    small = [value for value in values if _is_small(value)]
    # The zero keeps a maximum defined where every gradient is empty.
    joined = ops.concatenate([ops.zeros((1,), "float32"), *(ops.reshape(value, (-1,)) for value in small)])
    return [joined, *(value for value in values if not _is_small(value))]


def stored_values(gradient: Any) -> Any:
    """Return the stored values of a sparse gradient, or the gradient itself, in float32; float64 clipped to that."""
    if _is_indexed_slices(gradient):
        gradient = gradient.values
    elif BACKEND == "torch" and gradient.is_sparse:
        gradient = gradient.coalesce().values()
    if gradient.dtype == _FLOAT32:
        return gradient
    if keras.backend.standardize_dtype(gradient.dtype) == "float64":
        limit = 3.4028234663852886e38  # the largest float32: a larger float64 is no overflow
        within = keras.ops.clip(gradient, -limit, limit)
        gradient = keras.ops.where(keras.ops.isfinite(gradient), within, gradient)
    return keras.ops.cast(gradient, "float32")


def _unscale_stacked(gradients: Sequence[Any], scale: Any, untouched: Sequence[bool]) -> Unscaled:
    """Divide small gradients of the same shape as one: a graph costs by the number of its operations.

    TensorFlow takes the stack apart without a copy.
    """
    import tensorflow as tf

    result = list(gradients)
    places = [
        place
        for place, gradient in enumerate(gradients)
        if gradient is not None and not untouched[place] and not _is_indexed_slices(gradient)
    ]
    alike, _ = _alike([gradients[place] for place in places])
    blocks: list[Any] = []
    stacked: set[int] = set()
    for group in alike:
        members = [places[index] for index in group]
        block = _stack([gradients[place] for place in members]) / scale
        blocks.append(block)
        stacked.update(members)
        for place, part in zip(members, tf.unstack(block, num=len(members)), strict=True):
            result[place] = part
    for place, gradient in enumerate(gradients):
        if gradient is None or place in stacked:
            continue
        if not untouched[place]:
            result[place] = _divided(gradient, scale, lambda values: values / scale)
        blocks.append(stored_values(result[place]))
    return Unscaled(gradients=result, in_memory=result, blocks=blocks, divide=_unchanged)


def _alike(tensors: Sequence[Any]) -> tuple[list[list[int]], list[int]]:
    """Return the places of small float32 tensors of the same shape, two at least, and all other places."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, tensor in enumerate(tensors):
        if tensor.dtype == _FLOAT32 and tensor.shape.is_fully_defined() and _is_small(tensor):
            groups.setdefault(tuple(tensor.shape), []).append(place)
    alike = [places for places in groups.values() if len(places) > 1]
    taken = {place for places in alike for place in places}
    return alike, [place for place in range(len(tensors)) if place not in taken]


def _stack(tensors: list[Any]) -> Any:
    import tensorflow as tf

    return tf.stack(tensors)


def _by_multiplying(scale: Any) -> Callable[[Any], Any]:
    """Return a division by the scale made of products only, right for every normal float32 scale.

    The reciprocal of a scale beyond 2**126 is subnormal, and XLA's kernels take that as 0: such a scale is divided in
    two steps.
    """
    ops = keras.ops
    # XLA computes a division once, and what is cheaper wherever it is read.
    second = 1.0 / ops.where(scale > 2.0**64, 2.0**64, 1.0)
    first = 1.0 / (scale * second)
    return lambda gradient: (gradient * first) * second


def _divided_each(
    gradients: Sequence[Any], scale: Any, divide: Callable[[Any], Any], untouched: Sequence[bool]
) -> list[Any]:
    return [
        gradient if gradient is None or untouched[place] else _divided(gradient, scale, divide)
        for place, gradient in enumerate(gradients)
    ]


def _divided(gradient: Any, scale: Any, divide: Callable[[Any], Any]) -> Any:
    if _is_indexed_slices(gradient):
        values = _divided(gradient.values, scale, divide)
        return type(gradient)(values, gradient.indices, gradient.dense_shape)
    if gradient.dtype == scale.dtype:  # nearly always: float32 variables have float32 gradients
        return divide(gradient)
    if keras.backend.standardize_dtype(gradient.dtype) == "float64":
        return gradient / keras.ops.cast(scale, "float64")
    return divide(keras.ops.cast(gradient, "float32"))


def _unscale_torch(gradients: Sequence[Any], scale: Any, untouched: Sequence[bool]) -> list[Any]:
    import torch

    result = list(gradients)
    places = [i for i, g in enumerate(gradients) if g is not None and not untouched[i] and not g.is_sparse]
    wide = [
        g if g.dtype in (torch.float32, torch.float64) else g.float() for g in (gradients[i] for i in places)
    ]
    with torch.no_grad():
        if wide:
            divided = torch._foreach_div(wide, float(scale))  # noqa: SLF001 - PyTorch's own optimizers use it
            for place, value in zip(places, divided, strict=True):
                result[place] = value
        for place, gradient in enumerate(gradients):
            if gradient is not None and gradient.is_sparse and not untouched[place]:
                # A float16 sum over repeated rows may overflow: coalesce in float32.
                result[place] = (gradient.float().coalesce()) / float(scale)
    return result


def _is_indexed_slices(gradient: Any) -> bool:
    return BACKEND == "tensorflow" and type(gradient).__name__ == "IndexedSlices"


def _is_small(value: Any) -> bool:
    elements = 1
    for size in value.shape:
        if size is None:  # the values of a sparse gradient, whose number is known only when it runs
            return True
        elements *= size
    return elements <= SMALL_ELEMENTS


def _float32() -> Any:
    if BACKEND == "torch":
        import torch

        return torch.float32
    return "float32"  # the dtypes of TensorFlow and JAX compare equal to their names


_FLOAT32 = _float32()

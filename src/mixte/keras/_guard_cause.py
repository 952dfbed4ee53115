"""Find out why numbers are not finite: from a batch, the weights, and the batch's replay in two precisions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from mixte.keras._framework import keras, to_host
from mixte.keras._replay import Forward, Output, largest_gradients, largest_of, replay

if TYPE_CHECKING:
    from mixte.keras._guard_batch import Batch
    from mixte.records import StopCause

LIMITS = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38, "float32": 3.4028234663852886e38}
"""The largest finite number of each format (IEEE 754 binary16 and binary32; bfloat16 is the upper half of binary32)."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why numbers are not finite.

    Attributes:
        kind: What was found; see ``mixte.records.StopCause``.
        layer: The layer at fault, or None.
        path: Its path in the model.
        dtype: The format that it computes in.
        largest: The largest magnitude there; see ``mixte.records.Stopped``.
        detail: More of it in words: which numbers of the batch, which weight; or why nothing could be replayed.
        batch_finite: Whether the batch is finite; None if there is none.
    """

    kind: StopCause
    layer: Any = None
    path: str | None = None
    dtype: str | None = None
    largest: float | None = None
    detail: str | None = None
    batch_finite: bool | None = None


def find_cause(model: Any, batch: Batch | None, *, scale: float | None) -> Cause:
    """Find out why a model's numbers are not finite. Reads weights and activations; the model stays as it is.

    Args:
        model: The model, built; None if it is not known.
        batch: A batch of its training, or None.
        scale: The loss scale of the step, or None.
    """
    try:
        weight = None if model is None else first_bad_weight(model.trainable_variables)
        bad, largest_input = (None, 0.0) if batch is None else _look_at(batch)
        if bad is not None:
            return Cause(kind="batch", detail=bad, batch_finite=False)
        if weight is not None:
            return Cause(kind="weights", detail=weight, batch_finite=None if batch is None else True)
        if model is None or batch is None:
            return Cause(kind="unknown")
        return _by_replay(model, batch, largest_input, 1.0 if scale is None else scale)
    except Exception as error:  # noqa: BLE001 - whatever the script's layers raise; the training is being stopped anyway
        first_line = (str(error).strip().splitlines() or [""])[0][:200]
        return Cause(kind="unknown", detail=f"the replay failed ({type(error).__name__}: {first_line})")


def first_bad_weight(variables: Any) -> str | None:
    """Return the path of the first variable that is not finite, or None. Waits for the device."""
    for variable in variables:
        if not math.isfinite(largest_of(variable.value if hasattr(variable, "path") else variable)):
            return getattr(variable, "path", None) or variable.name
    return None


def _by_replay(model: Any, batch: Batch, largest_input: float, scale: float) -> Cause:
    wide = replay(model, batch, float32=True)
    own = replay(model, batch, float32=False)
    dtypes = {each.dtype for each in own.outputs} | {compute_dtype(each.layer) for each in own.outputs}
    narrow = "float16" if "float16" in dtypes else "bfloat16" if "bfloat16" in dtypes else "float32"
    if narrow == "float16" and largest_input > LIMITS[narrow]:
        return Cause(kind="input_range", dtype=narrow, largest=largest_input, batch_finite=True)
    cause = _in_outputs(wide, own) or _in_loss(wide, own, narrow) or _in_gradients(model, batch, narrow, scale)
    return cause or Cause(kind="not_reproduced", dtype=narrow, batch_finite=True)


def _in_outputs(wide: Forward, own: Forward) -> Cause | None:
    """Look for the first layer whose output is not finite, in float32 or as the run computes it."""
    in_float32 = {(each.path, id(each.layer)): each.largest for each in reversed(wide.outputs)}
    for each in own.outputs:
        largest = in_float32.get((each.path, id(each.layer)))
        if largest is not None and not math.isfinite(largest):
            return _at(each, "not_precision", compute_dtype(each.layer), largest)
        if largest is not None and largest > LIMITS.get(each.dtype, math.inf):
            return _at(each, "range", each.dtype, largest)
        if not math.isfinite(each.largest):
            return _at(each, "inside_layer", compute_dtype(each.layer), largest)
    return None


def _in_loss(wide: Forward, own: Forward, narrow: str) -> Cause | None:
    if wide.loss is not None and not math.isfinite(wide.loss):
        return Cause(kind="loss", dtype=narrow, largest=wide.loss, batch_finite=True)
    if own.loss is not None and not math.isfinite(own.loss):
        return Cause(kind="loss_precision", dtype=narrow, largest=wide.loss, batch_finite=True)
    return None


def _in_gradients(model: Any, batch: Batch, narrow: str, scale: float) -> Cause | None:
    gradients = largest_gradients(model, batch)
    for variable, largest in gradients:
        if not math.isfinite(largest):
            return Cause(
                kind="derivative", dtype=narrow, detail=variable.path, largest=largest, batch_finite=True
            )
    variable, largest = max(gradients, key=lambda pair: pair[1], default=(None, 0.0))
    # The gradients of outputs that lead to it may be larger still, so this finds only some of the cases.
    if variable is not None and largest * scale > LIMITS[narrow]:
        return Cause(
            kind="gradient_range", dtype=narrow, detail=variable.path, largest=largest, batch_finite=True
        )
    return None


def _at(output: Output, kind: StopCause, dtype: str, largest: float | None) -> Cause:
    return Cause(
        kind=kind, layer=output.layer, path=output.path, dtype=dtype, largest=largest, batch_finite=True
    )


def compute_dtype(layer: Any) -> str:
    """Return the format that a layer computes in; of an operation of a functional model, that of what it gives."""
    return getattr(layer, "compute_dtype", None) or "float32"


def _look_at(batch: Batch) -> tuple[str | None, float]:
    """Return what is not finite in a batch, in words, or None; and the largest magnitude of its inputs."""
    parts: tuple[tuple[Literal["inputs", "targets", "sample weights"], Any], ...] = (
        ("inputs", (batch.inputs, batch.named)),
        ("targets", batch.target),
        ("sample weights", batch.weight),
    )
    for name, part in parts:
        for array in keras.tree.flatten(part):
            told = _bad_values(array)
            if told is not None:
                return f"the {name} hold {told}", math.inf
    return None, largest_of((batch.inputs, batch.named))


def _bad_values(array: Any) -> str | None:
    if not hasattr(array, "dtype") or isinstance(array, keras.KerasTensor):
        return None
    values = to_host(array) if keras.ops.is_tensor(array) else np.asarray(array)
    if values.dtype.kind not in "fV":  # a V is a format of ml_dtypes
        return None
    values = values.astype(np.float64)
    bad = ~np.isfinite(values)
    if not bad.any():
        return None
    kind = "NaN" if np.isnan(values).any() else "an infinity"
    first = tuple(int(place[0]) for place in np.nonzero(bad)) if values.ndim else ()
    return f"{kind} ({int(bad.sum())} of {values.size} values, the first at {list(first)})"

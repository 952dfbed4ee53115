"""Say in one paragraph why a training was stopped, and what to do."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from mixte.keras._framework import keras
from mixte.keras._guard_cause import LIMITS
from mixte.policy import ByPath

if TYPE_CHECKING:
    from mixte.keras._guard_cause import Cause

_WHICH = {"first batch": "first batch of a new pass over the data"}
_SMALLEST_FLOAT16 = 2.0**-24


def what_was_found(cause: Cause, which: str) -> str:  # noqa: C901 - a sentence for each cause
    """Return the sentences on what the replay found.

    Args:
        cause: What it found.
        which: Which batch was replayed: ``"last batch"`` ...
    """
    which = _WHICH.get(which, which)
    clean = f"The {which} is finite, and was replayed in float32:"
    limit = f"{cause.dtype}'s largest number, {number(LIMITS.get(cause.dtype or '', math.inf))}"
    layer = _layer(cause)
    match cause.kind:
        case "batch":
            return f"The {which} itself is bad: {cause.detail}."
        case "weights":
            batch = f"The {which} is finite, but the " if cause.batch_finite else "The "
            return f"{batch}weights are not: {cause.detail} is the first. No loss scale mends that."
        case "input_range":
            return f"The {which} is finite, but its inputs reach {number(cause.largest)}, beyond {limit}."
        case "not_precision":
            return (
                f"{clean} the output of {layer} is not finite there either, so the cause is not the precision "
                "but what the layer computes, or weights that have grown without bound."
            )
        case "range":
            return f"{clean} the output of {layer} reaches {number(cause.largest)}, beyond {limit}."
        case "inside_layer":
            return f"{clean} the output of {layer}{_inside(cause)}."
        case "loss_precision":
            return (
                f"{clean} every output is finite, and the loss, {number(cause.largest)} in float32, is not finite as "
                f"the run computes it: the loss function works on {cause.dtype} outputs."
            )
        case "loss":
            return (
                f"{clean} every output is finite, and the loss is not, in float32 either: the cause is the loss "
                "function, such as a logarithm or a division of 0, or targets that it does not allow."
            )
        case "derivative":
            return (
                f"{clean} outputs and loss are finite, and the gradient of {cause.detail} is not, in float32 either: "
                "a derivative is infinite, such as that of a square root or a norm at 0."
            )
        case "gradient_range":
            return (
                f"{clean} outputs and loss are finite; the gradient of {cause.detail} reaches "
                f"{number(cause.largest)}, and times the loss scale it is beyond {limit}."
            )
        case "not_reproduced":
            return f"{clean} outputs, loss and gradients are finite, in the run's own precision too."
        case "unknown":
            return f"No batch could be replayed: {cause.detail or 'none passed through Python, as in a compiled loop'}."


def what_to_do(cause: Cause, *, gradient_layer: str | None, fixed: bool) -> str:  # noqa: C901 - as above
    """Return the sentences on what to do.

    Args:
        cause: What the replay found.
        gradient_layer: Path of the layer that had the first bad gradient, or None.
        fixed: Whether the loss scale is fixed above 1.
    """
    match cause.kind:
        case "batch":
            return "Clean the data: numpy.isfinite finds such values; drop or repair their samples."
        case "weights":
            return (
                "Go back to a checkpoint from before; lower the learning rate, limit the gradients (clipnorm=1.0 in "
                "the optimizer), or look for a bad batch before that step."
            )
        case "input_range":
            return f"Scale the inputs down before the model, by a Normalization layer for one, {_or_bfloat16(cause)}."
        case "not_precision":
            return (
                "Another precision does not help: guard logarithms, divisions and roots in that layer by an epsilon, "
                "limit what goes into an exponential, and lower the learning rate if the weights grew."
            )
        case "range" | "inside_layer":
            return f"{_keep(cause.path, cause.layer)}, {_or_bfloat16(cause)}."
        case "loss_precision":
            return (
                'Let the model give float32 outputs: a rule with outputs = true and precision = "float32", or '
                "keras.ops.cast(y_pred, 'float32') in the loss function; with from_logits=True, no saturated "
                "probability goes into a logarithm."
            )
        case "loss":
            return (
                "Check the targets and the loss function: from_logits=True in place of a softmax or sigmoid in the "
                "model, an epsilon in a logarithm of its own. Another precision does not help."
            )
        case "derivative":
            return "Another precision does not help: add an epsilon under the square root or the norm."
        case "gradient_range" if fixed:
            return "Use a scale that finds its place by itself: --loss-scale dynamic, or law=DynamicScale()."
        case "gradient_range" | "not_reproduced" | "unknown":
            named = (
                "To have the layer at fault named, let the script run some steps without its tf.function or jit. "
                if cause.kind == "unknown" and cause.detail is None
                else ""
            )
            if cause.dtype == "float32":
                return (
                    f"{named}Lower the learning rate, or limit the gradients (clipnorm=1.0 in the optimizer)."
                )
            keep = _keep(gradient_layer) if gradient_layer else "Keep the layers with large values in float32"
            return f"{named}{keep}, lower the learning rate, {_or_bfloat16(cause)}."


def number(value: float | None) -> str:
    """Write a magnitude so that it is short, and that those near a limit can be told from it."""
    if value is None:
        return "unknown"
    if math.isfinite(value) and value != 0 and (value >= 1e6 or value < 1e-3):
        return f"{value:.3g}"
    return f"{value:g}" if not math.isfinite(value) or value != int(value) else f"{int(value)}"


def scale_text(scale: float) -> str:
    """Write a loss scale: below 1 as a power of two, if it is one."""
    exponent = math.log2(scale) if scale > 0 else 0.5
    return f"2**{exponent:.0f}" if exponent < 0 and exponent.is_integer() else number(scale)


def _layer(cause: Cause) -> str:
    return f"{type(cause.layer).__name__} {cause.path!r}"


def _keep(path: str | None, layer: Any = None) -> str:
    if layer is not None and not isinstance(layer, keras.Layer):
        return (
            "Compute it in float32: give it keras.ops.cast(x, 'float32'), or put it into a layer with "
            'dtype="float32"'
        )
    if path is None or isinstance(layer, keras.Model):
        return 'Compute that part of the model\'s call() in a layer with dtype="float32"'
    pattern = ByPath.exactly(path).pattern
    return f'Keep {path!r} in float32 by a rule of the policy (path = "{pattern}", precision = "float32")'


def _or_bfloat16(cause: Cause) -> str:
    if cause.dtype == "bfloat16":
        return "or train in float32"
    return "or use bfloat16 (mixed_bfloat16), which has float32's range"


def _inside(cause: Cause) -> str:
    """Say what is known of a layer that fails inside, though what it gives is small."""
    fine = "" if cause.largest is None else f", at most {number(cause.largest)} in float32,"
    text = f"{fine} is not finite in {cause.dtype}"
    epsilon = _epsilon(cause.layer)
    if cause.dtype == "float16" and epsilon is not None and epsilon <= _SMALLEST_FLOAT16 / 2:
        return f"{text}: its epsilon, {epsilon:g}, rounds to 0 in float16, whose smallest number is 5.96e-8"
    return (
        f"{text}: something inside is beyond {cause.dtype}'s range, such as a sum, a square, an exponential, "
        "a mask constant like -1e9, or an epsilon below 6e-8"
    )


def _epsilon(layer: Any) -> float | None:
    for name in ("epsilon", "eps"):
        value = getattr(layer, name, None)
        if isinstance(value, float) and value > 0:
            return value
    return None

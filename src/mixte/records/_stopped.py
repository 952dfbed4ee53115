"""Why a run was stopped before its end, as ``run.json`` holds it. Annotations are no strings; see ``_schema``."""

from typing import Literal

import msgspec

StopReason = Literal["skips", "floor", "loss", "weights"]
"""What was seen: see ``mixte.scaling.StopReason``."""

StopCause = Literal[
    "batch",
    "input_range",
    "weights",
    "not_precision",
    "range",
    "inside_layer",
    "loss_precision",
    "loss",
    "derivative",
    "gradient_range",
    "not_reproduced",
    "unknown",
]
"""What the replay found.

- ``batch``: the batch itself holds NaN or an infinity.
- ``input_range``: the batch holds a number beyond the range of the format that the model computes in.
- ``weights``: weights are not finite.
- ``not_precision``: a layer's output is not finite in float32 either.
- ``range``: a layer's output, finite in float32, is beyond the range of the format that the layer computes in.
- ``inside_layer``: a layer's output is small in float32, and not finite in the format that the layer computes in.
- ``loss_precision``: the loss is finite where it is computed in float32, and is not as the run computes it.
- ``loss``: the loss of finite outputs is not finite in float32 either.
- ``derivative``: a gradient is not finite in float32 either, though the loss is.
- ``gradient_range``: forward pass and loss are finite; a gradient, times the loss scale, is beyond the range.
- ``not_reproduced``: the replay of the batch shows none of this.
- ``unknown``: there was nothing to replay, or the replay failed.
"""


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run was stopped. None means unknown.

    Attributes:
        reason: What was seen that stopped it.
        cause: What the replay found.
        text: All of this as one paragraph.
        remedy: The part of the paragraph that says what to do.
        step: The step after which it was seen, as counted in ``steps.jsonl``.
        optimizer: The optimizer whose updates were skipped, as named in ``steps.jsonl``.
        consecutive_skips: Updates skipped in a row, or steps in a row whose loss was not finite.
        loss_scale: The scale of the last of them.
        model: The model's name.
        gradient: Path of the variable that had the first gradient that was not finite.
        gradient_layer: Path of that variable's layer in its model.
        layer: Path of the layer at fault, as found by the replay.
        layer_class: Its class.
        layer_dtype: The format that it computes in.
        largest: The largest magnitude that the replay found there in float32: in the layer's output, the inputs
            or the gradient, as the cause says.
        batch_finite: Whether the batch that was replayed is finite.
        replayed: Whether a batch was replayed in float32, and which.
    """

    reason: StopReason
    cause: StopCause
    text: str
    remedy: str
    step: int | None = None
    optimizer: str | None = None
    consecutive_skips: int | None = None
    loss_scale: float | None = None
    model: str | None = None
    gradient: str | None = None
    gradient_layer: str | None = None
    layer: str | None = None
    layer_class: str | None = None
    layer_dtype: str | None = None
    largest: float | None = None
    batch_finite: bool | None = None
    replayed: Literal["last batch", "next batch", "first batch", "none"] = "none"

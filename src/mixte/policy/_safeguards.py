"""The safe defaults of the 16-bit presets: which layers leave 16 bits, and why each.

Every rule below was checked by running the layer in 16 bits and in float32 on Keras 3.15.1 with its three
backends, on a CPU. The page "Policies" of the documentation lists these measurements beside what two
established op lists say (TensorFlow's graph rewrite, ``auto_mixed_precision_lists.h``, and PyTorch's autocast,
``autocast_mode.h``), and what stays in 16 bits on purpose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mixte.policy._rule import Rule
from mixte.policy._selectors import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPredicate,
    Outputs,
    Selector,
)

if TYPE_CHECKING:
    from mixte.policy._layer import LayerDescription
    from mixte.policy._precision import Precision


def is_interpolating_upsampling(layer: LayerDescription) -> bool:
    """Whether a layer is an ``UpSampling2D`` that does more than repeat its input.

    One whose interpolation is not known counts as interpolating.
    """
    return "UpSampling2D" in layer.class_names and getattr(layer.layer, "interpolation", "unknown") != "nearest"


# Both 16-bit dtypes. Sources: torch autocast runs the softmax family, every loss and every upsample_* in
# float32; the TensorFlow graph rewrite keeps Exp, Sum, Mean and SoftmaxCrossEntropyWithLogits in float32.
_IN_16_BITS: Final[tuple[tuple[Selector, str], ...]] = (
    (Outputs(), "the loss and the metrics are computed from the model's outputs"),
    (ByClass("Softmax"), "16 bits round probabilities, and the sum over many classes overflows or stalls"),
    (ByActivation("softmax"), "16 bits round probabilities, and the sum over many classes overflows or stalls"),
    (ByActivation("log_softmax"), "16 bits round log-probabilities, which a loss sums up"),
    (
        ByClass("AveragePooling1D"),
        "TensorFlow and JAX can sum the window in 16 bits, which overflows or stalls",
    ),
    (
        ByClass("AveragePooling2D"),
        "TensorFlow and JAX can sum the window in 16 bits, which overflows or stalls",
    ),
    (
        ByClass("AveragePooling3D"),
        "TensorFlow and JAX can sum the window in 16 bits, which overflows or stalls",
    ),
    (ByClass("Normalization"), "it subtracts a mean from raw features, and 16 bits lose the difference"),
    (ByClass("BaseImagePreprocessingLayer"), "some image operations have no 16-bit kernel, or none under XLA"),
    (
        ByPredicate(is_interpolating_upsampling, "UpSampling2D that interpolates"),
        "XLA fails on its 16-bit gradient (keras-team/keras#20931)",
    ),
    (
        ByClass("TorchModuleWrapper"),
        "the PyTorch module inside keeps float32 parameters, and refuses 16-bit inputs",
    ),
    (ByClass("STFTSpectrogram"), "Fourier transforms need float32"),
    (ByClass("SpectralNormalization"), "the power iteration belongs on the float32 weight"),
)

# float16 alone, whose range ends at 65504 and whose smallest number is 2**-24: bfloat16 has float32's range.
_IN_FLOAT16: Final[tuple[tuple[Selector, str], ...]] = (
    (ActivityRegularized(), "the penalty sums over all activations: inf above 65504"),
    (ByClass("ActivityRegularization"), "the penalty sums over all activations: inf above 65504"),
    (
        ByClass("UnitNormalization"),
        "it sums squares: 0 from |x| = 256, and its epsilon of 1e-12 is 0 in float16",
    ),
    (ByClass("Dot"), "a dot product of long vectors exceeds 65504"),
    (ByClass("GlobalAveragePooling1D"), "with a mask it sums over time in float16: inf above 65504"),
    (ByClass("Rescaling"), "raw inputs from 65520 are inf, and scales below 6e-5 lose bits"),
    (ByActivation("exponential"), "exp(x) is inf from x = 11.1"),
    (ByActivation("squareplus"), "it squares its input: inf from |x| = 256"),
)


def safeguards(default: Precision) -> tuple[Rule, ...]:
    """Return the safe defaults that go with a default precision.

    Args:
        default: The precision of the layers that no rule selects.

    Returns:
        The rules, in order; none for a default that computes in float32 or float64.
    """
    match default.compute_dtype:
        case "float16":
            entries = (*_IN_16_BITS, *_IN_FLOAT16)
        case "bfloat16":
            entries = _IN_16_BITS
        case _:
            return ()
    rules = tuple(Rule(select, "float32", reason) for select, reason in entries)
    if default.variable_dtype == "float32":
        return rules
    # Without master weights a moving average stops short: a change of 1 % of the distance to its goal soon
    # falls below half a unit in the last place. Measured: 97 for a mean of 100 in float16, 75 in bfloat16.
    average = Rule(
        ByClass("BatchNormalization"),
        f"mixed_{default.compute_dtype}",
        "moving averages of 16 bits stop short of the true mean and variance",
    )
    return (*rules, average)

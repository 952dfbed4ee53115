"""The faults that users of mixed precision meet: each run ends, and says where, why, and what to do.

The expected numbers are those of the scripts' own arithmetic, derived there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Ended

FROM_2_16_TO_1 = "dynamic:initial=65536,min_scale=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A script with a fault, and what is to be found.

    Attributes:
        script: The script.
        backend: The backend to run it on.
        options: Further options.
        reason: What was seen.
        cause: What the replay found.
        at: The layer, or the variable, that is named as being at fault.
        says: What else the paragraph says: the cause, and the remedy.
    """

    script: str
    backend: str
    reason: str
    cause: str
    at: str | None
    says: tuple[str, ...]
    options: tuple[str, ...] = ("--policy", "mixed_float16")


FAULTS = [
    Fault(
        script="f1_gradients_beyond_the_range",
        backend="jax",
        options=("--policy", "mixed_float16", "--loss-scale", FROM_2_16_TO_1),
        reason="floor",
        cause="gradient_range",
        at="head",
        # From 2**16 to 1 it takes 16 halvings: the 17th skip in a row is at a scale of 1, and none can follow.
        says=(
            "17 in a row up to step 17",
            "at its floor, 1",
            "net/head/kernel reaches 1e+08",
            "beyond float16",
        ),
    ),
    Fault(
        script="f1_nan_in_the_data",
        backend="torch",
        reason="loss",
        cause="batch",
        at="first",
        says=(
            "The last batch itself is bad: the inputs hold NaN (1 of 32 values, the first at [2, 5])",
            "Clean",
        ),
    ),
    Fault(
        script="f3_sum_of_squares",
        backend="tensorflow",
        reason="loss",
        cause="inside_layer",
        at="shares",
        says=("Shares 'shares', at most 0.12", "not finite in float16", "a square", 'path = "/shares"'),
    ),
    Fault(
        script="f4_mask_constant",
        backend="jax",
        reason="loss",
        cause="inside_layer",
        at="attention",
        says=("MaskedAttention 'attention'", "a mask constant like -1e9", "or use bfloat16"),
    ),
    Fault(
        script="f5_epsilon",
        backend="torch",
        reason="loss",
        cause="inside_layer",
        at="norm",
        says=("RootMeanSquare 'norm'", "its epsilon, 1e-08, rounds to 0 in float16", 'path = "/norm"'),
    ),
    Fault(
        script="f13_norm_at_zero",
        backend="tensorflow",
        reason="floor",
        cause="derivative",
        at="critic",
        says=(
            "the gradient of net/critic/kernel is not, in float32 either",
            "square root or a norm at 0",
            "epsilon",
        ),
    ),
    Fault(
        script="f17_bfloat16",
        backend="jax",
        options=("--policy", "mixed_bfloat16"),
        reason="loss",
        cause="batch",
        at="first",
        says=("the targets hold an infinity (1 of 4 values, the first at [3, 0])", "Clean the data"),
    ),
    Fault(
        script="f18_sparse_gradients",
        backend="tensorflow",
        options=("--policy", "mixed_float16", "--loss-scale", FROM_2_16_TO_1),
        reason="floor",
        cause="gradient_range",
        at="words",
        says=("net/words/embeddings reaches 5.0", "beyond float16", 'path = "/words"'),
    ),
    Fault(
        script="f24_saturated_sigmoid",
        backend="torch",
        reason="loss",
        cause="loss_precision",
        at="probability",
        says=("the loss, 11.99", "works on float16 outputs", "outputs = true", "from_logits=True"),
    ),
    Fault(
        script="learning_rate",
        backend="jax",
        options=("--policy", "float32"),
        reason="loss",
        cause="weights",
        at=None,
        says=("net/first/kernel is the first", "checkpoint", "lower the learning rate"),
    ),
]


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.script}-{fault.backend}" for fault in FAULTS])
def test_a_run_that_gets_nowhere_ends_with_place_cause_and_remedy(
    run_fault: Callable[..., Ended], fault: Fault
) -> None:
    ended = run_fault(fault.script, fault.backend, *fault.options)
    finding = ended.finding
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
    assert (finding.reason, finding.cause) == (fault.reason, fault.cause)
    assert finding.model == "net"
    assert fault.at in (finding.layer, finding.gradient_layer)
    for words in fault.says:
        assert words in finding.text
    assert finding.text.endswith(finding.remedy)
    assert f"mixte: {finding.text}\n" in ended.stderr
    assert ended.record.run.status == "failed"
    assert ended.record.run.exit_code == 3
    assert (ended.record.run.exception or "").startswith(
        "TrainingStoppedError: the training of the model 'net' was"
    )

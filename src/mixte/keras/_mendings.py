"""Mend what Keras's own code does wrongly in float16, where no precision of a layer could.

Each patch replaces one method by one that gives the same result wherever Keras's is right.
"""

from __future__ import annotations

import copy
import functools
from typing import Any, Final

from mixte.keras._framework import get_keras_mask, keras, set_keras_mask

_INSTALLED: list[bool] = []
_LOWEST_FLOAT16: Final = -65504.0
_SIXTEEN_BIT: Final = ("float16", "bfloat16")


def mend_keras() -> None:
    """Patch Keras, once per process: on the explicit acts that put a policy in force, or apply one."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    _mend_attention_mask()
    _mend_metrics()
    _mend_policy_map()


def _mend_attention_mask() -> None:
    """Hide what an attention layer's mask hides by a score that float16 holds.

    Keras subtracts 1e9 on PyTorch, where it compares a dtype with a string, and 65504 elsewhere, which overflows too
    where the score is below -16. A row of which all is hidden is then NaN; in float32 it averages the values.
    """
    attention = keras.layers.Attention
    original = attention._apply_scores  # noqa: SLF001 - documented for subclasses, which all pass it

    @functools.wraps(original)
    def apply_scores(
        self: Any, scores: Any, value: Any, scores_mask: Any = None, training: bool = False
    ) -> Any:
        if scores_mask is not None and keras.backend.standardize_dtype(scores.dtype) == "float16":
            shown = keras.ops.expand_dims(scores_mask, -2) if len(scores_mask.shape) == 2 else scores_mask
            lowest = keras.ops.convert_to_tensor(_LOWEST_FLOAT16, "float16")
            scores, scores_mask = keras.ops.where(shown, scores, lowest), None
        return original(self, scores, value, scores_mask=scores_mask, training=training)

    attention._apply_scores = apply_scores  # noqa: SLF001 - as above


def _mend_metrics() -> None:
    """Give the metrics of ``compile`` predictions in float32, as Keras gives them to the loss.

    A metric function that mixes them with float32 targets is an error on TensorFlow, and sums in 16 bits elsewhere.
    """
    # Where it is defined: Keras looks there whether a model has a method of its own.
    trainer: Any = next(base for base in keras.Model.__mro__ if "compute_metrics" in vars(base))
    original = trainer.compute_metrics

    @functools.wraps(original)
    def compute_metrics(self: Any, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return original(self, x, y, keras.tree.map_structure(_widened, y_pred), sample_weight)

    trainer.compute_metrics = compute_metrics


def _widened(value: Any) -> Any:
    dtype = getattr(value, "dtype", None)
    if dtype is None or keras.backend.standardize_dtype(dtype) not in _SIXTEEN_BIT:
        return value
    wide = keras.ops.cast(value, "float32")
    mask = get_keras_mask(value)
    if mask is not None:
        set_keras_mask(wide, mask)
    return wide


def _mend_policy_map() -> None:
    """Keep ``DTypePolicyMap.get_config`` from taking the names off the policies in it, which layers are using."""
    policy_map = keras.dtype_policies.DTypePolicyMap
    original = policy_map.get_config

    @functools.wraps(original)
    def get_config(self: Any) -> dict[str, Any]:
        copied = copy.copy(self)
        copied._policy_map = {key: copy.copy(self._policy_map[key]) for key in self}  # noqa: SLF001 - no public way to its own
        return original(copied)

    policy_map.get_config = get_config

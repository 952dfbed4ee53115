"""Read the configuration of a loss-scaling optimizer: ours, Keras's, or that of ``tf.keras`` before Keras 3."""

from __future__ import annotations

from typing import Any, Final

from mixte._errors import InputError
from mixte.keras._framework import keras
from mixte.scaling import FixedScale, law_from_config

_OF_THE_INNER: Final = {
    "weight_decay": None,
    "clipnorm": None,
    "global_clipnorm": None,
    "clipvalue": None,
    "use_ema": False,
    "ema_momentum": 0.99,
    "ema_overwrite_frequency": None,
    "loss_scale_factor": None,
    "gradient_accumulation_steps": None,
}
"""What early Keras 3 wrote into the scaler's configuration, always with these values, and without effect."""


def arguments_of(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments for a ``LossScaleOptimizer`` from a configuration.

    Args:
        config: What ``get_config`` returned: ours, or of ``keras.optimizers.LossScaleOptimizer``, or of
            ``tf.keras.mixed_precision.LossScaleOptimizer``, whose ``dynamic=False`` is a ``FixedScale``.
        custom_objects: As for ``keras.saving.deserialize_keras_object``.

    Raises:
        InputError: If the configuration asks for what a loss-scaling optimizer has not.
    """
    arguments = dict(config)
    for name, without_effect in _OF_THE_INNER.items():
        value = arguments.pop(name, without_effect)
        if value != without_effect:
            raise InputError(
                f"the configuration of a loss-scaling optimizer has {name}={value!r}, which does nothing there. "
                f"Set {name} on its inner_optimizer."
            )
    inner = arguments.pop("inner_optimizer")
    if isinstance(inner, dict) and "module" not in inner:
        inner = keras.optimizers.deserialize(_without_legacy(inner), custom_objects=custom_objects)
    elif isinstance(inner, dict):
        inner = keras.saving.deserialize_keras_object(inner, custom_objects=custom_objects)
    law = arguments.pop("law", None)
    arguments |= {"inner_optimizer": inner, "law": None if law is None else law_from_config(law)}
    if not arguments.pop("dynamic", True):
        arguments.pop("dynamic_growth_steps", None)
        arguments["law"] = FixedScale(float(arguments.pop("initial_scale")))
    return arguments


def _without_legacy(config: dict[str, Any]) -> dict[str, Any]:
    """Return an optimizer's configuration without what ``tf.keras`` wrote and Keras 3 refuses."""
    options = dict(config["config"])
    for name in ("is_legacy_optimizer", "jit_compile"):
        options.pop(name, None)
    if not options.get("decay"):
        options.pop("decay", None)
    return {**config, "config": options}

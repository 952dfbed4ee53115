"""Copy the state of what scales a loss on the device, without waiting, and tell from copies what the steps did.

A *scaler* here is a ``LossScaler`` of ours, or Keras's own ``LossScaleOptimizer``, which a script may bring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from mixte.keras._framework import BACKEND, keras, to_host
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._scaler import LossScaler
from mixte.keras._variables import read
from mixte.records import OptimizerState, OptimizerStep
from mixte.scaling import COUNTER_NAMES, format_law

Sample = tuple[Any, ...]
"""Copies of a scaler's variables, still on the device."""

_CAUSES = ("loss", "nan", "inf")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A scaler's state, on the host.

    Attributes:
        scale: The factor for the loss of the next step.
        counters: See ``mixte.scaling.initial_counters``; None for Keras's own optimizer, which has none.
    """

    scale: float
    counters: dict[str, int] | None


def scaler_of(optimizer: Any) -> Any:
    """Return what scales the loss of an optimizer; None if nothing does."""
    if isinstance(optimizer, LossScaleOptimizer):
        return optimizer.scaler
    return optimizer if isinstance(optimizer, keras.optimizers.LossScaleOptimizer) else None


def law_text(scaler: Any) -> str:
    """Return a scaler's law with its parameters as text."""
    if isinstance(scaler, LossScaler):
        return format_law(scaler.law)
    initial = float(scaler.initial_scale)
    shown = f"{initial:.0f}" if initial.is_integer() else f"{initial:g}"
    return f"keras:initial_scale={shown},growth_interval={scaler.dynamic_growth_steps}"


def sample(scaler: Any, model: Any = None) -> Sample:
    """Copy a scaler's state as it is after the steps that were started so far.

    A copy, because the next step overwrites the variables, or gives their memory to its own results.

    Args:
        scaler: The scaler.
        model: The model in whose ``fit`` it works, if there is one: on JAX the state is there meanwhile.
    """
    variables = _variables_of(scaler)
    if BACKEND == "jax":
        from jax import numpy as jnp

        return tuple(jnp.copy(value) for value in _jax_values(variables, model))
    if BACKEND == "torch":
        return tuple(variable.value.detach().clone() for variable in variables)
    return tuple(read(variable) for variable in variables)


def decode(scaler: Any, copies: Sample) -> Reading | None:
    """Bring a sample to the host. Waits for the steps before it. None if the scaler had no state yet."""
    if not copies:
        return None
    if isinstance(scaler, LossScaler):
        state = scaler.decode(*(to_host(copy) for copy in copies))
        return Reading(scale=state.scale, counters=state.counters)
    return Reading(scale=float(to_host(copies[0])), counters=None)


def what_happened(scaler: Any, before: Reading | None, after: Reading, *, steps: int) -> OptimizerStep:
    """Tell what the one step between two readings did; what several steps did cannot be told apart.

    Args:
        scaler: The scaler.
        before: The reading before; None if there was none.
        after: The reading after.
        steps: How many steps lie between them, by what was seen of the loop.
    """
    if isinstance(scaler, LossScaler):
        return _by_counters(before or _initial(scaler), after, steps)
    if before is None:
        return OptimizerStep()
    if steps != 1 or before.scale == 0:
        return OptimizerStep(loss_scale=before.scale)
    # Keras halves the scale with every skipped step, and with no other.
    return OptimizerStep(loss_scale=before.scale, skipped=after.scale < before.scale)


def totals(reading: Reading) -> OptimizerState:
    """Return a scaler's counters as the record keeps them."""
    counters = reading.counters
    if counters is None:
        return OptimizerState(loss_scale=reading.scale)
    causes = {cause: counters[f"skipped_{cause}"] for cause in _CAUSES}
    return OptimizerState(
        loss_scale=reading.scale,
        steps=counters["steps"],
        applied=counters["applied"],
        skipped=counters["skipped"],
        skipped_in_calibration=counters["calibration_skips"],
        skipped_by_cause={cause: count for cause, count in causes.items() if count},
    )


def is_executing(tensors: Any) -> bool:
    """Tell whether a step is executed now, and not traced to be executed later."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.executing_eagerly()
    if BACKEND == "jax":
        import jax

        return not any(isinstance(tensor, jax.core.Tracer) for tensor in keras.tree.flatten(tensors))
    import torch

    return not torch.compiler.is_compiling()


def _by_counters(before: Reading, after: Reading, steps: int) -> OptimizerStep:
    earlier, later = before.counters or {}, after.counters or {}
    counted = later["steps"] - earlier["steps"]
    if counted != 1 or steps != 1:
        return OptimizerStep(loss_scale=before.scale if counted == steps else None)
    skipped = later["skipped"] > earlier["skipped"]
    causes = [cause for cause in _CAUSES if later[f"skipped_{cause}"] > earlier[f"skipped_{cause}"]]
    return OptimizerStep(loss_scale=before.scale, skipped=skipped, cause=causes[0] if causes else None)


def _initial(scaler: LossScaler) -> Reading:
    """Return a scaler's state before its first step."""
    scale = scaler.law.initial_state()["scale"]
    return Reading(scale=float(scale), counters=dict.fromkeys(COUNTER_NAMES, 0))


def _variables_of(scaler: Any) -> list[Any]:
    if isinstance(scaler, LossScaler):
        return scaler.variables
    return [scaler.dynamic_scale] if scaler.built else []


def _jax_values(variables: list[Any], model: Any) -> list[Any]:
    """Return the variables' values, which ``fit`` holds outside of them while it runs."""
    state = getattr(model, "_jax_state", None)
    if not state or model._jax_state_synced:  # noqa: SLF001 - Keras offers a full synchronisation only
        return [variable.value for variable in variables]
    held = state.get("optimizer_variables") or ()
    wanted = {id(variable): None for variable in variables}
    for variable, value in zip(model.optimizer.variables, held, strict=False):
        if id(variable) in wanted:
            wanted[id(variable)] = value
    return [variable.value if wanted[id(variable)] is None else wanted[id(variable)] for variable in variables]

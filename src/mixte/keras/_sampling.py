"""Copy a scaler's state on the device, without waiting, and turn such copies into what the steps did."""

from __future__ import annotations

import sys
from typing import Any

from mixte.keras._framework import BACKEND, keras, to_host
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._scaler import ScalerState
from mixte.records import OptimizerState, OptimizerStep
from mixte.scaling import COUNTER_NAMES

Sample = tuple[Any, Any]
"""Copies of a scaler's two variables, still on the device."""


def sample(optimizer: LossScaleOptimizer, model: Any = None) -> Sample:
    """Copy the state of an optimizer's scaler as it is after the steps that were started so far.

    A copy, because the next step overwrites the variables, or gives their memory to its own results.

    Args:
        optimizer: The optimizer.
        model: The model in whose ``fit`` it works, if there is one: on JAX the state is there meanwhile.
    """
    values = [variable.value for variable in optimizer.scaler.variables]
    if BACKEND == "jax":
        from jax import numpy as jnp

        return tuple(jnp.copy(value) for value in _jax_values(optimizer, model) or values)  # type: ignore[return-value]
    if BACKEND == "torch":
        return values[0].detach().clone(), values[1].detach().clone()
    return values[0].read_value(), values[1].read_value()


def decode(optimizer: LossScaleOptimizer, copies: Sample) -> ScalerState:
    """Bring a sample to the host. Waits for the steps before it."""
    floats, integers = copies
    return optimizer.scaler.decode(to_host(floats), to_host(integers))


def initial_state(optimizer: LossScaleOptimizer) -> ScalerState:
    """Return the state of a scaler before its first step."""
    scale = optimizer.law.initial_state()["scale"]
    return ScalerState(scale=float(scale), counters=dict.fromkeys(COUNTER_NAMES, 0), history=())


def what_happened(before: ScalerState, after: ScalerState) -> OptimizerStep:
    """Tell what the one step between two states did; what several steps did cannot be told apart."""
    steps = after.counters["steps"] - before.counters["steps"]
    if steps != 1:
        return OptimizerStep(loss_scale=before.scale)
    skipped = after.counters["skipped"] > before.counters["skipped"]
    causes = [
        cause
        for cause in ("loss", "nan", "inf")
        if after.counters[f"skipped_{cause}"] > before.counters[f"skipped_{cause}"]
    ]
    return OptimizerStep(loss_scale=before.scale, skipped=skipped, cause=causes[0] if causes else None)


def totals(state: ScalerState) -> OptimizerState:
    """Return a scaler's counters as the record keeps them."""
    counters = state.counters
    causes = {cause: counters[f"skipped_{cause}"] for cause in ("loss", "nan", "inf")}
    return OptimizerState(
        loss_scale=state.scale,
        steps=counters["steps"],
        applied=counters["applied"],
        skipped=counters["skipped"],
        skipped_in_calibration=counters["calibration_skips"],
        skipped_by_cause={cause: count for cause, count in causes.items() if count},
    )


def runs_ahead_of_device() -> bool:
    """Tell whether the host starts steps before the ones before them have ended: on JAX, and on accelerators."""
    return BACKEND == "jax" or device_memory_peak_bytes() is not None


def host_memory_peak_bytes() -> int | None:
    """Return the largest resident size of this process so far; None where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # Linux counts kibibytes


def device_memory_peak_bytes() -> int | None:
    """Return the largest use of accelerator memory so far, summed over devices; None without an accelerator."""
    peaks = {"tensorflow": _peak_tensorflow, "jax": _peak_jax, "torch": _peak_torch}[BACKEND]()
    return sum(peaks) if peaks else None


def _peak_tensorflow() -> list[int]:
    import tensorflow as tf

    names = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices("GPU")]
    return [tf.config.experimental.get_memory_info(name)["peak"] for name in names]


def _peak_jax() -> list[int]:
    import jax

    statistics = [device.memory_stats() for device in jax.local_devices() if device.platform != "cpu"]
    return [entry["peak_bytes_in_use"] for entry in statistics if entry and "peak_bytes_in_use" in entry]


def _peak_torch() -> list[int]:
    import torch

    return [torch.cuda.max_memory_allocated(index) for index in range(torch.cuda.device_count())]


def _jax_values(optimizer: LossScaleOptimizer, model: Any) -> list[Any] | None:
    """Return the values that ``fit`` holds outside the variables while it runs, or None."""
    state = getattr(model, "_jax_state", None)
    if not state or model._jax_state_synced:  # noqa: SLF001 - Keras offers a full synchronisation only
        return None
    held = state.get("optimizer_variables")
    if held is None or model.optimizer is not optimizer:
        return None
    ours = {id(variable) for variable in optimizer.scaler.variables}
    return [value for variable, value in zip(optimizer.variables, held, strict=True) if id(variable) in ours]


def is_loss_scaling(optimizer: Any) -> bool:
    """Tell whether an optimizer is ours."""
    return isinstance(optimizer, LossScaleOptimizer)


def is_executing(tensors: Any) -> bool:
    """Tell whether a step is executed now, and not traced to be executed later."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.executing_eagerly()
    if BACKEND == "jax":
        import jax

        return not any(isinstance(tensor, jax.core.Tracer) for tensor in keras.tree.flatten(tensors))
    return True

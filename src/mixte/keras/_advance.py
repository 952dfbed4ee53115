"""Take one step of a scaler's state, in the way that costs least: traced, compiled in one piece, or on the host."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from mixte.keras._array_ops import ARRAY_OPS
from mixte.keras._framework import BACKEND, keras
from mixte.keras._observing import on_host
from mixte.keras._state import HOST, vectors_of
from mixte.keras._tracing import compiled_once, here
from mixte.scaling import NUMPY, LossScaleLaw, Observation

if TYPE_CHECKING:
    from collections.abc import Callable


def advance(
    law: LossScaleLaw, floats: Any, integers: Any, *, observation: Observation, counted: Observation
) -> tuple[Any, Any]:
    """Return the two state vectors after one more step.

    - Where a graph or a JAX trace is being made, the operations become part of it.
    - Eagerly on TensorFlow and JAX, they run as one compiled function, which all scalers of this law share: one by
      one, a hundred operations on scalars take milliseconds.
    - On PyTorch, where the observation is on the host already, they run in numpy.

    Args:
        law: The law.
        floats: The float32 vector.
        integers: The integer vector.
        observation: What the law sees.
        counted: What the counters see.
    """
    if BACKEND == "torch":
        return _on_host(law, floats, integers, on_host(observation), on_host(counted))
    step = _compiled(law) if here() is None else _step(law)
    return step(floats, integers, _flat(observation), _flat(counted))


def _step(law: LossScaleLaw) -> Callable[..., tuple[Any, Any]]:
    vectors = vectors_of(law)

    def step(floats: Any, integers: Any, observation: Any, counted: Any) -> tuple[Any, Any]:
        seen, decided = Observation(**observation), Observation(**counted)
        return vectors.next(floats, integers, seen, decided, ops=ARRAY_OPS, arrays=keras.ops)

    return step


@lru_cache(maxsize=64)
def _compiled(law: LossScaleLaw) -> Callable[..., tuple[Any, Any]]:
    return compiled_once(_step(law))


def _on_host(
    law: LossScaleLaw, floats: Any, integers: Any, observation: Observation, counted: Observation
) -> tuple[Any, Any]:
    import torch

    new_floats, new_integers = vectors_of(law).next(
        floats.detach().cpu().numpy(),
        integers.detach().cpu().numpy(),
        observation,
        counted,
        ops=NUMPY,
        arrays=HOST,
    )
    return torch.from_numpy(new_floats), torch.from_numpy(new_integers)


def _flat(observation: Observation) -> dict[str, Any]:
    return {name: getattr(observation, name) for name in Observation.__slots__}

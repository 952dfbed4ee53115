"""A loss-scaling law, its counters and its history in variables of the current backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from mixte._errors import InputError
from mixte.keras._array_ops import ARRAY_OPS
from mixte.keras._framework import keras, to_host
from mixte.keras._history import LENGTH, in_order, record_change
from mixte.scaling import COUNTER_NAMES, DynamicScale, FixedScale, LossScaleLaw, count, parse_law

if TYPE_CHECKING:
    from mixte.scaling import Observation


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerState:
    """What a scaler's state was when it was read from the device.

    Attributes:
        scale: The factor for the loss of the next step.
        counters: Steps, applied, skipped, and skips by cause; see ``mixte.scaling.initial_counters``.
        history: The last changes of the scale, oldest first: (number of the step after which it changed,
            counted from 1; the scale from then on). At most 64.
    """

    scale: float
    counters: dict[str, int]
    history: tuple[tuple[int, float], ...]


@final
class LossScaler:
    """Scales losses, unscales gradients and adjusts the scale by a law.

    ``LossScaleOptimizer`` makes one for itself. Make one yourself to let several optimizers share one scale:
    every update of any of them is then one step of the law.

    All state is in two small variables, a float32 and an integer vector, so that it costs one assignment each,
    whatever the law. Everything stays on the device until ``read``.

    Args:
        law: A law of ``mixte.scaling``; or its text, as in ``"dynamic:initial=1024"``; or a number, the initial
            scale of a ``DynamicScale``.
        name: Prefix of the variables' names.

    Raises:
        InputError: If ``law`` is none of these.
    """

    def __init__(self, law: LossScaleLaw | str | float = DynamicScale(), *, name: str = "loss_scale") -> None:  # noqa: B008 - immutable
        self.law = as_law(law)
        self.name = name
        initial = self.law.initial_state()
        self._float_names = [key for key, value in initial.items() if value.dtype == np.float32]
        self._integer_names = [key for key in initial if key not in self._float_names] + list(COUNTER_NAMES)
        floats = [float(initial[key]) for key in self._float_names] + [0.0] * LENGTH
        integers = [int(initial.get(key, 0)) for key in self._integer_names] + [0] * (LENGTH + 1)
        self._floats = _vector(floats, "float32", f"{name}_state")
        # "int" is int64 on TensorFlow and PyTorch: TensorFlow has no kernels for int32 variables on a GPU.
        self._integers = _vector(integers, "int", f"{name}_counters")

    @property
    def variables(self) -> list[Any]:
        """The two variables that hold the state."""
        return [self._floats, self._integers]

    @property
    def scale(self) -> Any:
        """The scale for the next loss: a float32 scalar tensor on the device."""
        return keras.ops.convert_to_tensor(self._floats)[self._float_names.index("scale")]

    @property
    def scales(self) -> bool:
        """Whether the scale can ever differ from 1."""
        return self.law != FixedScale(1.0)

    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the scale, in float32 at least: a float16 loss of 2 overflows at scale 2**15."""
        loss = keras.ops.convert_to_tensor(loss)
        dtype = keras.backend.standardize_dtype(loss.dtype)
        wide = "float64" if dtype == "float64" else "float32"
        return keras.ops.multiply(keras.ops.cast(loss, wide), keras.ops.cast(self.scale, wide))

    def update(self, observation: Observation) -> None:
        """Advance the law, the counters and the history by one step that showed ``observation``."""
        floats = keras.ops.convert_to_tensor(self._floats)
        integers = keras.ops.convert_to_tensor(self._integers)
        state = {name: floats[index] for index, name in enumerate(self._float_names)}
        counts = {name: ARRAY_OPS.int32(integers[index]) for index, name in enumerate(self._integer_names)}
        old = state | {name: value for name, value in counts.items() if name not in COUNTER_NAMES}
        new = self.law.next(old, observation, ARRAY_OPS)
        new |= count({name: counts[name] for name in COUNTER_NAMES}, observation, ARRAY_OPS)
        kept_floats, kept_integers = len(self._float_names), len(self._integer_names)
        steps, scales, changes = record_change(
            steps=integers[kept_integers : kept_integers + LENGTH],
            scales=floats[kept_floats:],
            count=integers[kept_integers + LENGTH],
            step=keras.ops.cast(new["steps"], integers.dtype),
            before=old["scale"],
            after=new["scale"],
            ops=keras.ops,
        )
        ops = keras.ops
        new_integers = ops.stack([ops.cast(new[name], integers.dtype) for name in self._integer_names])
        self._floats.assign(ops.concatenate([ops.stack([new[name] for name in self._float_names]), scales]))
        self._integers.assign(ops.concatenate([new_integers, steps, ops.reshape(changes, (1,))]))

    def read(self) -> ScalerState:
        """Copy the state to the host. Waits for the device: not for every step."""
        return self.decode(to_host(self._floats), to_host(self._integers))

    def decode(self, floats: Any, integers: Any) -> ScalerState:
        """Make a ``ScalerState`` of the two variables' values, for stateless code that holds them itself."""
        floats, integers = np.asarray(floats), np.asarray(integers)
        named = dict(zip(self._integer_names, integers.tolist(), strict=False))
        kept = len(self._integer_names)
        changes = in_order(
            integers[kept : kept + LENGTH], floats[len(self._float_names) :], int(integers[kept + LENGTH])
        )
        return ScalerState(
            scale=float(floats[self._float_names.index("scale")]),
            counters={name: int(named[name]) for name in COUNTER_NAMES},
            history=tuple(changes),
        )


def as_law(law: LossScaleLaw | str | float) -> LossScaleLaw:
    """Make a law of what a user may give for one.

    Raises:
        InputError: If it is neither a law, nor a law's text, nor a number.
    """
    if isinstance(law, LossScaleLaw):
        return law
    if isinstance(law, str):
        return parse_law(law)
    if isinstance(law, int | float) and not isinstance(law, bool):
        return DynamicScale(float(law))
    raise InputError(
        f"a loss-scaling law is needed, received {law!r} ({type(law).__name__}). Give a law of mixte.scaling, "
        "for example DynamicScale(), its text ('dynamic:initial=1024'), or a number, the initial scale."
    )


def _vector(values: list[float] | list[int], dtype: str, name: str) -> Any:
    return keras.Variable(
        np.asarray(values, dtype="float32" if dtype == "float32" else "int64"),
        dtype=dtype,
        trainable=False,
        aggregation="only_first_replica",
        name=name,
    )

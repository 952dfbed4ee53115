"""A loss-scaling law, its counters and its history in variables of the current backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from mixte._errors import InputError, LossScaleError
from mixte.keras._array_ops import ARRAY_OPS
from mixte.keras._framework import keras, to_host
from mixte.keras._history import LENGTH, in_order, record_change
from mixte.keras._step_memory import StepMemory
from mixte.keras._survey import survey, unscale
from mixte.keras._tracing import stale_trace
from mixte.keras._variables import read
from mixte.scaling import COUNTER_NAMES, DynamicScale, FixedScale, LossScaleLaw, count, parse_law

if TYPE_CHECKING:
    from collections.abc import Sequence

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

    ``LossScaleOptimizer`` makes one for itself. Make one yourself

    - to let several optimizers share one scale: pass it to each of them as its law. Every update of any of them
      is then one step of the law; ``apply_together`` makes one step of several updates.
    - to give each of several losses its own scale: see ``apply_losses``.

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
        self._memory = StepMemory()

    @property
    def variables(self) -> list[Any]:
        """The two variables that hold the state."""
        return [self._floats, self._integers]

    @property
    def scale(self) -> Any:
        """The scale for the next loss: a float32 scalar tensor on the device."""
        return read(self._floats)[self._float_names.index("scale")]

    @property
    def scales(self) -> bool:
        """Whether the scale can ever differ from 1."""
        return self.law != FixedScale(1.0)

    def scale_for_loss(self) -> Any:
        """Return ``scale``, for a loss that is multiplied by hand: the gradients that follow are divided by it."""
        return self._memory.remember_scale(self.scale)

    def scale_loss(self, loss: Any) -> Any:
        """Multiply a loss by the scale, in float32 at least: a float16 loss of 2 overflows at scale 2**15.

        Args:
            loss: Floating tensor of any shape.

        Returns:
            The scaled loss: float32, or float64 for a float64 loss.

        Raises:
            LossScaleError: In a compiled JAX function outside a ``StatelessScope``: the scale of that moment
                would be baked into the program and never change.
        """
        loss = keras.ops.convert_to_tensor(loss)
        finite = keras.ops.all(keras.ops.isfinite(loss))
        # No derivative flows through this flag: under jax.grad alone it has a value, and only under jit it has not.
        if stale_trace(finite):
            raise LossScaleError(_BAKED_SCALE)
        self._memory.remember_loss(finite)
        wide = "float64" if keras.backend.standardize_dtype(loss.dtype) == "float64" else "float32"
        return keras.ops.multiply(keras.ops.cast(loss, wide), keras.ops.cast(self.scale_for_loss(), wide))

    def unscale(self, gradients: Sequence[Any], *, untouched: Sequence[bool] | None = None) -> list[Any]:
        """Divide gradients by the scale that multiplied their loss, in float32 at least.

        Args:
            gradients: Tensors; None stays None, and sparse ones stay sparse.
            untouched: For each, whether it is no derivative but the new value of a float8 scale. By default none.

        Raises:
            LossScaleError: If no loss was ever scaled: the gradients would become smaller by the scale.
        """
        self.require_scaled()
        untouched = [False] * len(gradients) if untouched is None else untouched
        return unscale(gradients, self._divisor(), untouched=untouched)

    def observe(self, unscaled: Sequence[Any]) -> Observation:
        """Look at the unscaled gradients of a step, and take note of its losses. Once per step.

        Raises:
            LossScaleError: If all gradients are None.
        """
        losses_finite = self._memory.take_losses_finite()
        return survey(unscaled, scale=self._divisor(), loss_finite=losses_finite, needs=self.law.needs)

    def require_scaled(self) -> None:
        """Raise ``LossScaleError`` if no loss was ever scaled, though this scaler divides gradients."""
        if self.scales and not self._memory.has_scaled:
            raise LossScaleError(_NEVER_SCALED)

    def _divisor(self) -> Any:
        known = self._memory.scale()
        return self.scale if known is None else known

    def update(self, observation: Observation, *, counted: Observation | None = None) -> None:
        """Advance the law, the counters and the history by one step.

        Args:
            observation: What the step showed: what the law sees.
            counted: What decided whether the step was applied, if that was more than ``observation``.
        """
        floats, integers = read(self._floats), read(self._integers)
        state = {name: floats[index] for index, name in enumerate(self._float_names)}
        counts = {name: ARRAY_OPS.int32(integers[index]) for index, name in enumerate(self._integer_names)}
        old = state | {name: value for name, value in counts.items() if name not in COUNTER_NAMES}
        new = self.law.next(old, observation, ARRAY_OPS)
        counters = {name: counts[name] for name in COUNTER_NAMES}
        new |= count(counters, observation if counted is None else counted, ARRAY_OPS)
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
    if isinstance(law, int | float) and not isinstance(law, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's input
        return DynamicScale(float(law))
    raise InputError(
        f"a loss-scaling law is needed, received {law!r} ({type(law).__name__}). Give a law of mixte.scaling, "
        "for example DynamicScale(), its text ('dynamic:initial=1024'), or a number, the initial scale."
    )


_NEVER_SCALED: Final = (
    "this optimizer divides the gradients by the loss scale, but the loss was never multiplied by it: the model "
    "would train at a tiny fraction of its learning rate. In the train_step or the loop, before the gradients "
    "are taken, write: loss = optimizer.scale_loss(loss). To train without loss scaling instead, use "
    "FixedScale(1) (on the command line: --loss-scale none)."
)
_BAKED_SCALE: Final = (
    "scale_loss() was called in a function that JAX compiles, outside a StatelessScope: the scale of this moment "
    "would be baked into the program, while the gradients are divided by the live one. Use "
    "optimizer.stateless_scale_loss(optimizer_variables, loss) with the variables that you pass to "
    "stateless_apply(), or mixte.keras.stateless_minimize(), which does both."
)


def _vector(values: list[float] | list[int], dtype: str, name: str) -> Any:
    return keras.Variable(
        np.asarray(values, dtype="float32" if dtype == "float32" else "int64"),
        dtype=dtype,
        trainable=False,
        aggregation="only_first_replica",
        name=name,
    )

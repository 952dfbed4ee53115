"""A loss-scaling law, its counters and its history in variables of the current backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from mixte._errors import InputError, LossScaleError
from mixte.keras._advance import advance
from mixte.keras._checkpoint_state import from_plain, to_plain
from mixte.keras._framework import BACKEND, keras, to_host
from mixte.keras._replicas import in_one_of_several, require_replicated, sum_over_replicas
from mixte.keras._state import ScalerState, vectors_of
from mixte.keras._step_memory import StepMemory
from mixte.keras._survey import survey
from mixte.keras._tracing import not_converted, stale_trace
from mixte.keras._unscaling import Unscaled, unscale
from mixte.keras._variables import read
from mixte.scaling import DynamicScale, FixedScale, LossScaleLaw, parse_law

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.scaling import Observation


@final
class LossScaler:
    """Scales losses, unscales gradients and adjusts the scale by a law.

    ``LossScaleOptimizer`` makes one for itself. Make one yourself

    - to let several optimizers share one scale: pass it to each of them as its law. Every update of any of them
      is then one step of the law; ``apply_together`` makes one step of several updates.
    - to give each of several losses its own scale: see ``apply_losses``.

    All state is in two small variables, a float32 and an integer vector. On TensorFlow and JAX everything stays on
    the device until ``read``. On PyTorch, which learns once in each step whether to apply it, the law runs on the
    host, and so these two variables are there.

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
        self._vectors = vectors_of(self.law)
        floats, integers = self._vectors.initial()
        self._floats = state_variable(floats, "float32", f"{name}_state")
        # "int" is int64 on TensorFlow, which has no kernels for int32 variables on a GPU.
        self._integers = state_variable(integers, "int", f"{name}_counters")
        self._memory = StepMemory()

    @property
    def variables(self) -> list[Any]:
        """The two variables that hold the state."""
        return [self._floats, self._integers]

    @property
    def scale(self) -> Any:
        """The scale for the next loss: a float32 scalar tensor."""
        scale = read(self._floats)[self._vectors.scale_index]
        return scale.clone() if BACKEND == "torch" else scale  # there it would change with the variable

    @property
    def steps(self) -> Any:
        """The number of steps so far: an integer scalar tensor."""
        return read(self._integers)[self._vectors.steps_index]

    @property
    def scales(self) -> bool:
        """Whether the scale can ever differ from 1."""
        return self.law != FixedScale(1.0)

    @not_converted
    def scale_for_loss(self) -> Any:
        """Return ``scale``, for a loss that is multiplied by hand: the gradients that follow are divided by it."""
        return self._memory.remember_scale(self.scale)

    @not_converted
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
        scale = self.scale_for_loss()
        if BACKEND == "torch":  # the scale is on the host, and the loss need not be
            return keras.ops.cast(loss, wide) * float(scale)
        return keras.ops.multiply(keras.ops.cast(loss, wide), keras.ops.cast(scale, wide))

    @not_converted
    def unscale(self, gradients: Sequence[Any]) -> list[Any]:
        """Divide gradients by the scale that multiplied their loss, in float32 at least.

        Under a ``tf.distribute`` strategy they are summed over all replicas first.

        Args:
            gradients: Tensors; None stays None, and sparse ones stay sparse.

        Raises:
            LossScaleError: If no loss was ever scaled: the gradients would become smaller by the scale.
        """
        return self.unscaled(gradients).gradients

    def unscaled(self, gradients: Sequence[Any], *, untouched: Sequence[bool] | None = None) -> Unscaled:
        """As ``unscale``, with what ``observe`` is to look at.

        Args:
            gradients: As for ``unscale``.
            untouched: For each, whether it is no derivative but the new value of a float8 scale. By default none.
        """
        self.require_scaled()
        untouched = [False] * len(gradients) if untouched is None else untouched
        divisor = self._divisor()
        if in_one_of_several():
            gradients = self._summed(gradients, untouched)
        return unscale(gradients, divisor, untouched=untouched)

    def _summed(self, gradients: Sequence[Any], untouched: Sequence[bool]) -> list[Any]:
        """Return the gradients of all replicas together, and note whether the losses of all were finite."""
        require_replicated(self._floats)
        summed, finite = sum_over_replicas(gradients, self._memory.take_losses_finite(), untouched=untouched)
        self._memory.remember_loss(finite)
        return summed

    def observe(self, unscaled: Unscaled) -> Observation:
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

    @not_converted
    def update(self, observation: Observation, *, counted: Observation | None = None) -> None:
        """Advance the law, the counters and the history by one step.

        Args:
            observation: What the step showed: what the law sees.
            counted: What decided whether the step was applied, if that was more than ``observation``.
        """
        counted = observation if counted is None else counted
        floats, integers = advance(
            self.law, read(self._floats), read(self._integers), observation=observation, counted=counted
        )
        self._floats.assign(floats)
        self._integers.assign(integers)

    def read(self) -> ScalerState:
        """Copy the state to the host. Waits for the device: not for every step."""
        return self.decode(to_host(self._floats), to_host(self._integers))

    def decode(self, floats: Any, integers: Any) -> ScalerState:
        """Make a ``ScalerState`` of the two variables' values, for stateless code that holds them itself."""
        return self._vectors.decode(floats, integers)

    def to_plain(self) -> dict[str, Any]:
        """Return the state by name, as JSON can hold it. Waits for the device."""
        return to_plain(self.law, to_host(self._floats), to_host(self._integers))

    def from_plain(self, saved: dict[str, Any]) -> None:
        """Restore what ``to_plain`` returned, on any backend.

        Under another law, or other parameters of it, the scale is kept within the bounds of this scaler's law, which
        starts anew from there; counters and history are kept.
        """
        floats, integers = from_plain(self.law, saved)
        self._floats.assign(floats)
        self._integers.assign(integers)


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


def state_variable(value: Any, dtype: str, name: str) -> Any:
    """Make a variable for state of loss scaling: not trainable, and on PyTorch on the host."""
    options = {"dtype": dtype, "trainable": False, "aggregation": "only_first_replica", "name": name}
    if BACKEND != "torch":
        return keras.Variable(value, **options)
    with keras.device("cpu:0"):
        return keras.Variable(value, **options)

"""One update of one optimizer: checked beforehand, made if a flag on the device says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, final

from mixte._errors import InputError, LossScaleError
from mixte.keras._conditional import apply_if
from mixte.keras._framework import keras
from mixte.keras._replicas import hand_over_sums, in_one_of_several
from mixte.keras._tracing import stale_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.keras._conditional import Note

OnSkip = Literal["hold", "advance"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """True gradients, and the optimizer that is to apply them.

    Attributes:
        optimizer: The optimizer without loss scaling.
        gradients: Unscaled; None where a variable has none.
        variables: The variables to update, one for each gradient.
        iterations_on_skip: See ``LossScaleOptimizer``.
        note: What to write, and into which variable, if the update is not made; or None.
    """

    optimizer: Any
    gradients: Sequence[Any]
    variables: Sequence[Any]
    iterations_on_skip: OnSkip = "hold"
    note: Note | None = None

    def make(self) -> None:
        """Apply the gradients."""
        if in_one_of_several():
            hand_over_sums(self.optimizer)
        self.optimizer.apply(self.gradients, self.variables)

    def affected(self) -> list[Any]:
        """Return every variable that ``make`` may change: a moving average may overwrite others than these."""
        return [*self.optimizer._trainable_variables, *self.optimizer.variables]  # noqa: SLF001 - not public

    def count_skip(self, made: Any) -> None:
        """Advance ``iterations`` over an update that was not made, if it is to be."""
        if self.iterations_on_skip == "advance":
            for each in (self.optimizer, *getattr(self.optimizer, "optimizers", ())):  # of a MultiOptimizer
                iterations = each._iterations  # noqa: SLF001 - `iterations` is divided by the accumulation steps
                iterations.assign_add(keras.ops.cast(keras.ops.logical_not(made), iterations.dtype))


def make_if(finite: Any, updates: Sequence[Update]) -> None:
    """Make updates together, if ``finite`` holds; otherwise all variables keep their values to the last bit."""

    def make() -> None:
        for update in updates:
            update.make()

    apply_if(
        finite,
        make,
        affected=lambda: [variable for update in updates for variable in update.affected()],
        notes=[update.note for update in updates if update.note is not None],
    )
    for update in updates:
        update.count_skip(finite)


def resolve_variables(
    optimizer: Any, gradients: Sequence[Any], trainable_variables: Sequence[Any] | None
) -> list[Any]:
    """Check the arguments of an update, build the optimizer if needed, and return the variables to update.

    Raises:
        InputError: If there are no variables, or not one for each gradient.
        LossScaleError: If JAX traces the gradients outside a ``StatelessScope``.
    """
    if any(stale_trace(gradient) for gradient in gradients[:1]):
        raise LossScaleError(_STATEFUL_IN_TRACE)
    if trainable_variables is not None:
        variables = list(trainable_variables)
        if not optimizer.built:
            with keras.name_scope(optimizer.name):
                optimizer.build(variables)
    elif optimizer.built:
        variables = list(optimizer._trainable_variables)  # noqa: SLF001 - Keras's own default
    else:
        raise InputError(
            "apply() was given no variables, and the optimizer is not built. Pass the variables, or call "
            "optimizer.build(model.trainable_variables) first."
        )
    if len(gradients) != len(variables):
        raise InputError(
            f"apply() was given {len(gradients)} gradients for {len(variables)} variables. Give one for each, "
            "in the same order; None for a variable that has no part in the loss."
        )
    return variables


_STATEFUL_IN_TRACE: Final = (
    "apply() was called with gradients that JAX is tracing: its updates would be lost, or leak tracers. Inside "
    "jit use optimizer.stateless_apply(optimizer_variables, gradients, trainable_variables), or "
    "mixte.keras.stateless_minimize(), which also scales the loss."
)

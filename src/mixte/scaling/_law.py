"""What a loss-scaling law is: a pure state machine, the same on numpy and on every framework.

A law maps (state, observation) to the next state. Its state is a flat dictionary of named scalars, so that
any framework can keep it in variables and trace through it; the arithmetic goes through ``ArrayOps``, the few
operations that numpy and the frameworks have in common. All floating-point state is float32 and all integer
state int32, on numpy too: a law then gives the same values everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

from mixte.scaling._numpy_ops import NUMPY

Scalar: TypeAlias = Any  # np.float32, np.int32, or a framework's scalar tensor of that dtype
ScaleState: TypeAlias = "dict[str, Scalar]"


class ArrayOps(Protocol):
    """The operations that a law may use, besides ``+ - * /`` and comparisons between scalars of one dtype."""

    def where(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar: ...
    def minimum(self, x: Scalar, y: Scalar) -> Scalar: ...
    def maximum(self, x: Scalar, y: Scalar) -> Scalar: ...
    def isfinite(self, x: Scalar) -> Scalar: ...
    def logical_and(self, x: Scalar, y: Scalar) -> Scalar: ...
    def logical_or(self, x: Scalar, y: Scalar) -> Scalar: ...
    def logical_not(self, x: Scalar) -> Scalar: ...
    def log2(self, x: Scalar) -> Scalar: ...
    def exp2(self, x: Scalar) -> Scalar: ...
    def sqrt(self, x: Scalar) -> Scalar: ...
    def float32(self, x: Scalar) -> Scalar: ...
    def int32(self, x: Scalar) -> Scalar: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What one step showed of its gradients, after they were unscaled and reduced over all replicas.

    Attributes:
        finite: bool. Every gradient value is finite: the update is applied. A loss that is not finite may have
            true, finite gradients, as a float16 sum that overflowed has.
        has_nan: bool. At least one gradient value is NaN.
        loss_finite: bool. The loss is finite; True where the loss is not known. It tells the cause of a step that
            is not ``finite``, and decides nothing.
        largest_gradient: float32. max |g| over the unscaled gradients; meaningful only when ``finite``, and for
            a law that needs it.
        underflow_fraction: float32 in [0, 1]. Share of the non-zero gradient values whose scaled magnitude
            is below the smallest normal number of float16 (2**-14). Computed only for a law that needs it,
            else 0.
    """

    finite: Scalar
    has_nan: Scalar
    loss_finite: Scalar
    largest_gradient: Scalar
    underflow_fraction: Scalar


class LossScaleLaw(ABC):
    """A loss-scaling law. Concrete laws are frozen dataclasses whose fields are their parameters.

    Every state has the entry ``"scale"``: float32, the factor for the loss of the next step.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # every concrete law is a dataclass

    needs: ClassVar[frozenset[str]] = frozenset()
    """Names of the costly ``Observation`` fields that the law reads: ``largest_gradient``, ``underflow_fraction``."""

    @abstractmethod
    def initial_state(self) -> ScaleState:
        """Return the state before the first step: numpy scalars, float32 or int32, by name."""

    @abstractmethod
    def next(self, state: ScaleState, observation: Observation, ops: ArrayOps = NUMPY) -> ScaleState:
        """Return the state for the next step.

        Args:
            state: The state that multiplied the loss of this step.
            observation: What the step showed.
            ops: The operations of the framework that the scalars belong to; numpy's by default.
        """

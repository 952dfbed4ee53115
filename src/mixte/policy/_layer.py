"""What a rule may look at: a layer as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field

from mixte._errors import PolicyError


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerDescription:
    """A layer as the rules of a policy see it, without a framework.

    Attributes:
        path: The names from the model's root to the layer, joined by ``/``, the root's own name left out:
            ``"encoder/block_2/attention/query"``. The root itself has the empty path.
        class_names: The names of the layer's class and of its bases, from most to least derived (its method
            resolution order), so that a rule for ``BatchNormalization`` selects subclasses too. At least one.
        is_output: Whether the layer's value is an output of the root model.
        activation: The name of the activation function inside the layer (``"softmax"``), or None.
        has_activity_regularizer: Whether a penalty is computed from the layer's output.
        dtype_set_by_user: The name of the dtype policy that the script itself gave to this layer
            (``Dense(10, dtype="float32")``), or None where it gave none.
        owner: The layer that this one is a part of the implementation of: the RNN layer of a cell, the
            wrapper of a wrapped layer, the attention layer of a projection. None for a layer that the
            script's author put there, even inside a block or a nested model.
        layer: The layer itself, for predicates. It takes no part in comparisons.
    """

    path: str
    class_names: tuple[str, ...]
    is_output: bool = False
    activation: str | None = None
    has_activity_regularizer: bool = False
    dtype_set_by_user: str | None = None
    owner: LayerDescription | None = None
    layer: object | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.class_names:
            raise PolicyError(f"the description of layer {self.path!r} has no class name; give at least one")

    @property
    def name(self) -> str:
        """The layer's own name: the last segment of its path."""
        return self.path.rpartition("/")[2]

    @property
    def class_name(self) -> str:
        """The name of the layer's own class."""
        return self.class_names[0]

    @property
    def segments(self) -> tuple[str, ...]:
        """The path as a tuple of names; empty for the root."""
        return tuple(self.path.split("/")) if self.path else ()

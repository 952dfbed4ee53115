"""What ``tf.train.Checkpoint`` sees of a loss-scaling optimizer.

It follows named edges from object to object. Those of a loss-scaling optimizer are ``inner_optimizer``, where Keras's
own scaler has it too; ``loss_scaling``, which holds the scaler's state by name; and, for an optimizer without
loss scaling that a checkpoint is restored into, the edges by which that looks for its state.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from mixte._errors import MixteWarning
from mixte.keras._framework import BACKEND

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    _TensorflowTrackable = object
elif BACKEND == "tensorflow":
    import tensorflow as tf

    _TensorflowTrackable = tf.__internal__.tracking.AutoTrackable
else:
    _TensorflowTrackable = object

_OF_BOTH = {"_iterations", "_learning_rate", "_trainable_variables", "_trainable_variables_indices"}
"""Edges that an optimizer without loss scaling has, and Keras's own scaler, for unused variables, too."""


class Checkpointed(_TensorflowTrackable):
    """A leaf of a TensorFlow checkpoint that holds its state as a text, by name."""

    def to_plain(self) -> dict[str, Any]:
        """Return the state."""
        raise NotImplementedError

    def from_plain(self, saved: dict[str, Any]) -> None:
        """Restore the state."""
        raise NotImplementedError

    def _serialize_to_tensors(self) -> dict[str, Any]:
        import tensorflow as tf

        with tf.init_scope():
            return {"json": tf.constant(json.dumps(self.to_plain()))}

    def _restore_from_tensors(self, restored_tensors: Mapping[str, Any]) -> None:
        self.from_plain(json.loads(restored_tensors["json"].numpy()))


def outside_of_graphs(act: Callable[[], None]) -> None:
    """Do something at once, though TensorFlow is making a graph: in the graph, every step would do it anew."""
    if BACKEND != "tensorflow":
        act()
        return
    import tensorflow as tf

    with tf.init_scope():
        act()


class TensorflowEdges:
    """The edges of a loss-scaling optimizer, as TensorFlow asks for them; no other backend does."""

    _seen_inner = False

    if TYPE_CHECKING:

        def __init__(self, *arguments: Any, **named: Any) -> None: ...  # Keras's, which comes after this class

    def _trackable_children(self, save_type: str = "checkpoint", **options: Any) -> dict[str, Any]:
        if save_type != "checkpoint":
            base: Any = super()
            return base._trackable_children(save_type, **options)  # noqa: SLF001 - TensorFlow's protocol
        object.__setattr__(self, "_seen_inner", False)
        me: Any = self
        children = {"inner_optimizer": me.inner_optimizer, "loss_scaling": me._loss_scaling}  # noqa: SLF001 - its own
        inner = me.inner_optimizer._trackable_children(save_type, **options)  # noqa: SLF001 - TensorFlow's protocol
        # Not the list of all variables: Keras's own scaler has one, of other variables.
        return children | {name: child for name, child in inner.items() if name != "_variables"}

    def _lookup_dependency(self, name: str, cached_dependencies: Any = None) -> Any:
        if cached_dependencies is None:  # asked while attributes are set, not while a checkpoint is restored
            base: Any = super()
            return base._lookup_dependency(name)  # noqa: SLF001 - TensorFlow's protocol
        children = cached_dependencies
        if name in {"inner_optimizer", "loss_scaling"}:
            object.__setattr__(self, "_seen_inner", True)
            return children[name]
        if name in children and name not in _OF_BOTH and not self._seen_inner:
            object.__setattr__(self, "_seen_inner", True)
            warnings.warn(
                "the TensorFlow checkpoint holds the state of an optimizer without loss scaling, which is not "
                "restored into this one. Restore it into the optimizer inside: "
                "tf.train.Checkpoint(optimizer=optimizer.inner_optimizer).",
                category=MixteWarning,
                stacklevel=2,
            )
        return None

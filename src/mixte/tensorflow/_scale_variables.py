"""The state of a law and the counters as TensorFlow variables."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from mixte._errors import InputError, LossScaleError
from mixte.scaling import LossScaleLaw, count, initial_counters
from mixte.tensorflow._array_ops import TENSORFLOW
from mixte.tensorflow._framework import tf

if TYPE_CHECKING:
    from mixte.scaling import Observation


class ScaleVariables(tf.Module):
    """A law with its state and counters, scalar variables that are not trainable and that checkpoints save.

    Attributes:
        law: The law.
        state: The law's state by name; ``state["scale"]`` is the loss scale.
        counters: The counters by name, int32.
    """

    def __init__(self, law: LossScaleLaw) -> None:
        if not isinstance(law, LossScaleLaw):  # pyright: ignore[reportUnnecessaryIsInstance] - the user's input
            raise InputError(
                f"the loss-scaling law is {law!r}. It must be a law of mixte.scaling, such as DynamicScale() "
                "or FixedScale(128)."
            )
        super().__init__(name="loss_scale")
        self.law = law
        with self.name_scope:
            self.state = {name: _variable(name, value) for name, value in law.initial_state().items()}
            self.counters = {name: _variable(name, value) for name, value in initial_counters().items()}

    @property
    def scale(self) -> Any:
        """The variable of the loss scale, float32."""
        return self.state["scale"]

    def update(self, observation: Observation) -> Any:
        """Advance the law and the counters by one step; return the operation that does so (None, eagerly)."""
        _refuse_replicas()
        state = {name: variable.read_value() for name, variable in self.state.items()}
        counters = {name: variable.read_value() for name, variable in self.counters.items()}
        next_state = self.law.next(state, observation, TENSORFLOW)
        next_counters = count(counters, observation, TENSORFLOW)
        # In a TensorFlow 1 graph nothing else keeps an assignment from running before a read of its variable.
        with tf.control_dependencies([*next_state.values(), *next_counters.values()]):
            return tf.group(
                *(variable.assign(next_state[name], read_value=False) for name, variable in self.state.items()),
                *(
                    variable.assign(next_counters[name], read_value=False)
                    for name, variable in self.counters.items()
                ),
            )


def _variable(name: str, value: Any) -> Any:
    # TensorFlow has no kernels for int32 variables on a GPU.
    with tf.device("CPU:0") if value.dtype == "int32" else nullcontext():
        return tf.Variable(value, trainable=False, name=name)


def _refuse_replicas() -> None:
    """Refuse to let each replica decide alone: their weights would drift apart."""
    if tf.distribute.get_strategy().num_replicas_in_sync > 1:
        raise LossScaleError(
            "this loss scale runs under a tf.distribute strategy of more than one replica. Each replica would "
            "decide alone whether to skip the step, which is not supported. Train on one replica."
        )

"""Keep hold of the last batch of a training, to replay it if the training has to be stopped.

Only references are kept: nothing is copied, and nothing is read from the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final
from weakref import WeakKeyDictionary

from mixte.keras._framework import BACKEND, keras

if TYPE_CHECKING:
    from collections.abc import Iterator

Which = Literal["last batch", "next batch", "first batch"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """What a model was called with.

    Attributes:
        inputs: The positional arguments of the model's call.
        named: Its keyword arguments.
        target: What the loss compares the outputs with, or None.
        weight: The weights of the samples, or None.
        has_loss: Whether the model itself knows how to compute the loss.
        which: Which batch of the training it is.
    """

    inputs: tuple[Any, ...]
    named: dict[str, Any]
    target: Any = None
    weight: Any = None
    has_loss: bool = False
    which: Which = "last batch"


class BatchMemory:
    """The last batch of every model, as far as it passed through Python."""

    def __init__(self) -> None:
        self._iterators: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self._batches: WeakKeyDictionary[Any, Batch] = WeakKeyDictionary()

    def watch_fit(self, model: Any) -> None:
        """See the batches that pass into a model's compiled step, from now on until ``forget``.

        On TensorFlow they pass inside the graph: there only the iterator is seen, whose next batch can be had.
        """
        function = model.train_function
        if function is None or getattr(function, "_mixte_original", None) is not None:
            return

        def watched(*arguments: Any) -> Any:
            *state, source = arguments
            if BACKEND == "torch":
                self._batches[model] = _of_fit(source[0], "last batch")
            elif BACKEND == "jax":
                source = _Watched(source, lambda data: self._note(model, data))
            else:
                self._iterators[model] = source
            return function(*state, source)

        watched._mixte_original = function  # type: ignore[attr-defined] # noqa: SLF001 - ours
        model.train_function = watched

    def unwatch_fit(self, model: Any) -> None:
        """Give the model its compiled step back as it was."""
        original = getattr(getattr(model, "train_function", None), "_mixte_original", None)
        if original is not None:
            model.train_function = original

    def note_arrays(self, model: Any, x: Any, y: Any, sample_weight: Any) -> None:
        """Take note of a batch given to ``train_on_batch``."""
        self._note(model, (x, y, sample_weight))

    def note_call(self, model: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Take note of what a model was called with, in a loop of the script's own."""
        self._batches[model] = Batch(inputs=inputs, named=named)

    def models(self) -> list[Any]:
        """Return the models of which a batch is known."""
        return list(self._batches)

    def batch_of(self, model: Any, *, may_take: bool) -> Batch | None:
        """Return a batch of a model's training: the last one, or as near to it as can be had.

        Args:
            model: The model.
            may_take: Whether the training may lose its next batch.
        """
        known = self._batches.get(model)
        if known is not None:
            return known
        iterator = self._iterators.get(model)
        if iterator is None:
            return None
        for data, which in _from_iterator(iterator, may_take=may_take):
            return _of_fit(data, which)
        return None

    def _note(self, model: Any, data: Any) -> None:
        self._batches[model] = _of_fit(data, "last batch")


@final
class _Watched:
    """An iterator that shows every element to somebody."""

    def __init__(self, source: Iterator[Any], show: Any) -> None:
        self._source = source
        self._show = show

    def __iter__(self) -> _Watched:
        return self

    def __next__(self) -> Any:
        data = next(self._source)
        self._show(data)
        return data


def _of_fit(data: Any, which: Which) -> Batch:
    x, y, weight = keras.utils.unpack_x_y_sample_weight(data)
    return Batch(inputs=(x,), named={}, target=y, weight=weight, has_loss=True, which=which)


def _from_iterator(iterator: Any, *, may_take: bool) -> Iterator[tuple[Any, Which]]:
    """Yield what a TensorFlow iterator can still give: its next batch; else the first of a new pass."""
    import tensorflow as tf

    if not isinstance(iterator, tf.data.Iterator):  # of several replicas, whose batches lie on several devices
        return
    following = iterator.get_next_as_optional() if may_take else None
    if following is not None and following.has_value():
        yield following.get_value(), "next batch"
    dataset = getattr(iterator, "_dataset", None)  # not public
    for data in () if dataset is None else dataset.take(1):
        yield data, "first batch"

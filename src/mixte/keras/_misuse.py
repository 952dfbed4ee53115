"""Say at the first step what a script's own loop does wrong with a scaled loss: once for each optimizer."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from mixte._errors import MixteWarning
from mixte.keras._framework import BACKEND, keras
from mixte.keras._optimizer import LossScaleOptimizer
from mixte.keras._scaler import LossScaler
from mixte.keras._tracing import not_converted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def install_misuse_checks() -> None:
    """Patch what the checks need to see. Once per process."""
    _patch_scale_loss()
    clipped: WeakValueDictionary[int, Any] = WeakValueDictionary()
    names: dict[int, str] = {}
    for home, name in _clipping_functions():
        _patch_clipping(home, name, clipped, names)
    _patch_apply(clipped, names)


def _patch_scale_loss() -> None:
    original = LossScaler.scale_loss
    warned: WeakSet[Any] = WeakSet()

    @functools.wraps(original)
    def scale_loss(self: Any, loss: Any) -> Any:
        dtype = getattr(loss, "dtype", None)
        if dtype is not None and self not in warned and keras.backend.standardize_dtype(dtype) == "float16":
            warned.add(self)
            warnings.warn(
                "the loss is computed in float16, which ends at 65504 and has 11 significant bits: it overflows, and "
                "small differences vanish. Compute it in float32: cast the model's outputs first, as in "
                "y_pred = keras.ops.cast(y_pred, 'float32').",
                category=MixteWarning,
                stacklevel=3,
            )
        return original(self, loss)

    LossScaler.scale_loss = scale_loss


def _clipping_functions() -> Iterable[tuple[Any, str]]:
    """Yield the functions by which scripts limit gradients, each with the module that offers it.

    JAX has none of its own: there gradients are clipped by plain arithmetic, which cannot be told from any other.
    """
    if BACKEND == "tensorflow":
        import tensorflow as tf

        yield from ((tf, name) for name in ("clip_by_value", "clip_by_norm", "clip_by_global_norm"))
    elif BACKEND == "torch":
        import torch

        yield from ((torch.nn.utils, name) for name in ("clip_grad_norm_", "clip_grad_value_"))


def _patch_clipping(
    home: Any, name: str, clipped: WeakValueDictionary[int, Any], names: dict[int, str]
) -> None:
    original: Callable[..., Any] = getattr(home, name)
    public = f"{home.__name__.removesuffix('._api.v2.v2')}.{name}"
    in_place = name.endswith("_")

    @functools.wraps(original)
    @not_converted
    def limited(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else next(iter(kwargs.values()), None)
        if in_place and not hasattr(given, "grad"):
            given = list(given or ())  # it may be a generator, to be read once
            args = (given, *args[1:]) if args else args
            kwargs = kwargs if args else {next(iter(kwargs)): given}
        result = original(*args, **kwargs)
        outcome = [getattr(each, "grad", None) for each in _flat(given)] if in_place else _flat(result)
        for tensor in outcome:
            if tensor is not None:
                clipped[id(tensor)] = tensor
                names[id(tensor)] = public
        if len(names) > _MOST_NAMES:
            for key in set(names) - set(clipped):
                del names[key]
        return result

    setattr(home, name, limited)


_MOST_NAMES = 10_000  # of tensors that are gone


def _flat(values: Any) -> list[Any]:
    return list(keras.tree.flatten(values))


def _patch_apply(clipped: WeakValueDictionary[int, Any], names: dict[int, str]) -> None:
    original = LossScaleOptimizer.apply
    warned: WeakSet[Any] = WeakSet()

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        gradients = list(grads)
        if self not in warned and self.scaler.scales:
            found = [
                names[id(each)] for each in gradients if each is not None and clipped.get(id(each)) is each
            ]
            if found:
                warned.add(self)
                _warn_of_clipping(self, found[0])
        return original(self, gradients, trainable_variables)

    LossScaleOptimizer.apply = apply


def _warn_of_clipping(optimizer: Any, function: str) -> None:
    inner = optimizer.inner_optimizer
    warnings.warn(
        f"the gradients given to {inner.name!r} were clipped by {function} while they were still multiplied by the "
        "loss scale: the limit is as many times too low. Let the optimizer clip true gradients "
        f"({type(inner).__name__}(..., global_clipnorm=1.0), or clipnorm, clipvalue); or clip between "
        "optimizer.unscale(gradients) and optimizer.apply_unscaled(gradients, variables).",
        category=MixteWarning,
        stacklevel=4,
    )

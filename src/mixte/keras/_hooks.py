"""Put mixte into the few places of Keras that every training passes, once per process.

Patching is what lets a script stay as it is. It is done only on the explicit acts ``mixte.keras.use`` and
``mixte run``, changes nothing for models that were not made under a policy, and touches eight public names. What
is wrong in Keras for any model that computes in float16 is mended besides: ``_mendings.py``.
"""

from __future__ import annotations

import functools
from typing import Any

from mixte.keras._framework import BaseOptimizer, keras
from mixte.keras._governor import GOVERNOR
from mixte.keras._mendings import mend_keras
from mixte.keras._misuse import install_misuse_checks

_INSTALLED: list[bool] = []
_CHECKED = "_mixte_checked"  # on an optimizer: whether its losses are scaled has been looked at
_AUTO_SCALE_LOSS = 8  # its place among the arguments of ``compile`` after the optimizer


def install() -> None:
    """Patch Keras, if that has not been done in this process."""
    if _INSTALLED:
        return
    _INSTALLED.append(True)
    _patch_layer_init()
    _patch_bidirectional_init()
    _patch_layer_call()
    _patch_model_new()
    _patch_sequential_build()
    _patch_compile()
    _patch_keras_scaler_init()
    _patch_optimizer_apply()
    install_misuse_checks()
    mend_keras()


def _patch_layer_init() -> None:
    """Keep what the script gave as ``dtype=``: Keras itself turns it into a policy object at once."""
    original = keras.Layer.__init__

    @functools.wraps(original)
    def init(
        self: Any, **kwargs: Any
    ) -> None:  # no *args: Keras reads this signature for layers without their own
        original(self, **kwargs)
        dtype = kwargs.get("dtype")
        object.__setattr__(self, "_mixte_dtype_argument", dtype if isinstance(dtype, str) else None)

    keras.Layer.__init__ = init


def _patch_bidirectional_init() -> None:
    """Keep it for the layer inside, too, which ``Bidirectional`` makes anew from its configuration."""
    original = keras.layers.Bidirectional.__init__

    @functools.wraps(original)
    def init(  # no *args, as above
        self: Any,
        layer: Any,
        merge_mode: Any = "concat",
        weights: Any = None,
        backward_layer: Any = None,
        **kwargs: Any,
    ) -> None:
        original(self, layer, merge_mode, weights, backward_layer, **kwargs)
        mark = getattr(layer, "_mixte_dtype_argument", None)
        for inner in (self.forward_layer, self.backward_layer):
            if inner is not backward_layer:  # which is used as it is
                object.__setattr__(inner, "_mixte_dtype_argument", mark)

    keras.layers.Bidirectional.__init__ = init


def _patch_layer_call() -> None:
    original = keras.Layer.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not (isinstance(self, keras.Model) and GOVERNOR.is_pending(self)):
            return original(self, *args, **kwargs)
        if any(isinstance(each, keras.KerasTensor) for each in keras.tree.flatten((args, kwargs))):
            return original(
                self, *args, **kwargs
            )  # it becomes a part of another model, and is governed with that
        GOVERNOR.build_then_govern(self, args, kwargs, original)
        result = original(self, *args, **kwargs)
        if GOVERNOR.is_pending(self):
            GOVERNOR.govern(self)
        return result

    keras.Layer.__call__ = call


def _patch_model_new() -> None:
    original = keras.Model.__new__

    @functools.wraps(original)
    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        model = original(cls, *args, **kwargs)
        GOVERNOR.model_made(model)
        return model

    keras.Model.__new__ = staticmethod(new)


def _patch_sequential_build() -> None:
    """Take the functional models that a sequential one makes of its layers, one at each layer, for parts of it."""
    original = keras.Sequential.build

    @functools.wraps(original)
    def build(self: Any, *args: Any, **kwargs: Any) -> Any:
        with GOVERNOR.making_parts():
            return original(self, *args, **kwargs)

    keras.Sequential.build = build


def defining_class(derived: Any, method: str) -> Any:
    """Return the class that defines a method, to patch it there.

    Keras compares the method of a model with that of its trainer, to see whether the model has its own.
    """
    return next(base for base in derived.__mro__ if method in vars(base))


def _patch_compile() -> None:
    trainer = defining_class(keras.Model, "compile")
    original = trainer.compile

    @functools.wraps(original)
    def compile_model(self: Any, optimizer: Any = "rmsprop", *args: Any, **kwargs: Any) -> Any:
        if GOVERNOR.is_pending(self):
            GOVERNOR.govern(self)  # what its layers compute in decides if its loss is to be scaled
        # A script that says auto_scale_loss=False has decided for itself.
        if kwargs.get("auto_scale_loss", True):
            optimizer = GOVERNOR.wrap_optimizer(self, optimizer)
            if GOVERNOR.decides_scaling_of(self) and len(args) < _AUTO_SCALE_LOSS:
                kwargs["auto_scale_loss"] = (
                    False  # else Keras decides again, by the name of the model's own policy
                )
        result = original(self, optimizer, *args, **kwargs)
        GOVERNOR.govern(self)
        return result

    trainer.compile = compile_model


def _patch_keras_scaler_init() -> None:
    """Know the optimizers that Keras's own scaler updates: their losses are scaled."""
    theirs = keras.optimizers.LossScaleOptimizer
    original = theirs.__init__

    @functools.wraps(original)
    def init(self: Any, inner_optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(self, inner_optimizer, *args, **kwargs)
        object.__setattr__(inner_optimizer, _CHECKED, True)

    theirs.__init__ = init


def _patch_optimizer_apply() -> None:
    """See every update that no loss scaler makes; what is compiled is seen once, when it is traced."""
    original = BaseOptimizer.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if not getattr(self, _CHECKED, False):
            object.__setattr__(self, _CHECKED, True)
            owner = getattr(self, "_mixte_wrapped_by", None)
            if owner is None or owner() is None:
                trainable_variables = None if trainable_variables is None else list(trainable_variables)
                GOVERNOR.check_optimizer(self, trainable_variables or self._trainable_variables)
        return original(self, grads, trainable_variables)

    BaseOptimizer.apply = apply

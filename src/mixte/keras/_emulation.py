"""Train as the Tensor Cores of an architecture would, on a machine without them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from mixte._errors import InputError, MixteWarning
from mixte.keras._apply import AppliedPolicy, apply, as_policy, forget_compiled
from mixte.keras._describe import describe_layers
from mixte.keras._emulation_layers import attach, detach, keep_out_of_exports
from mixte.keras._emulation_scope import Float32Products
from mixte.keras._framework import keras
from mixte.tensorcore import dot_unit, inputs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.keras._emulation_scope import Products
    from mixte.policy import LayerDescription, Policy
    from mixte.scaling import LossScaleLaw

_NARROW = ("float16", "bfloat16")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """What is to be emulated.

    Attributes:
        arch: ``"volta"``, ``"turing"``, ``"ampere"``, ``"ada"``, ``"hopper"`` or ``"blackwell"``: which formats
            there are.

    Raises:
        InputError: There is no such architecture.
    """

    arch: str

    def __post_init__(self) -> None:
        inputs_of(self.arch)  # raises for an architecture that does not exist

    def check_dtype(self, dtype: str | None) -> None:
        """Raise ``InputError`` if layers are to compute in a 16-bit dtype that the architecture lacks."""
        if dtype in _NARROW:
            dot_unit(self.arch, dtype)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedModel:
    """A model in emulated arithmetic.

    Attributes:
        emulation: What is emulated.
        formats: For every layer that computes in 16 bits, by its path, the format of its products' operands.
        applied: What applying the policy did; None where the model keeps its own precisions.
    """

    emulation: Emulation
    formats: dict[str, str]
    applied: AppliedPolicy | None
    _model: Any
    _layers: tuple[Any, ...]

    def undo(self) -> None:
        """Give the layers their own arithmetic back, and the precisions that they had."""
        for layer in self._layers:
            detach(layer)
        if self.applied is not None:
            self.applied.undo()
        forget_compiled(self._model)


def emulate(
    model: Any,
    policy: Policy | str | None = None,
    *,
    arch: str,
    law: LossScaleLaw | str | float | None = None,
) -> EmulatedModel:
    """Let a model compute as mixed precision does on an architecture's Tensor Cores, on any machine.

    The policy is applied as ``mixte.keras.apply`` does it, and decides the same. What changes is how the layers that
    compute in 16 bits compute: matrix products and convolutions take 16-bit operands, accumulate in float32 and
    round their result to 16 bits, in the forward and in the backward pass. Everything else runs in its own 16-bit
    dtype, with overflow to infinity; the loss is scaled by the real scaler. A saved or exported model has nothing
    of it.

    Args:
        model: A ``keras.Model`` or ``keras.Layer``; built, if its layers are created only then.
        policy: As for ``apply``. None to keep the precisions that the layers have.
        arch: ``"volta"`` (V100), ``"turing"`` (T4), ``"ampere"`` (A100), ``"ada"`` (L4, L40S), ``"hopper"`` (H100) or
            ``"blackwell"`` (B200).
        law: As for ``apply``.

    Returns:
        Which layers are emulated in which format, and ``undo()``.

    Raises:
        InputError: An architecture that does not exist, or a 16-bit dtype that its Tensor Cores do not multiply.
        PolicyError: As for ``apply``.

    Example:
        >>> emulated = mixte.keras.emulate(model, "mixed_float16", arch="volta")
        >>> model.fit(x, y)
        >>> emulated.undo()
    """
    emulation = Emulation(arch=arch)
    chosen = None if policy is None else as_policy(policy)
    if chosen is not None:
        emulation.check_dtype(chosen.default.compute_dtype)
    _name_present_gpus()
    applied = None if chosen is None else apply(model, chosen, law=law)
    try:
        emulated = start_emulating(model, emulation)
    except Exception:
        if applied is not None:
            applied.undo()
        raise
    forget_compiled(model)
    return replace(emulated, applied=applied)


def request(policy: Policy | str, emulate: Emulation | str | None) -> tuple[Policy, Emulation | None]:
    """Make a policy and an emulation of what a user may give for them, and see that they go together.

    Raises:
        InputError: An architecture that does not exist, or that lacks the policy's default format.
        PolicyError: There is no such policy.
    """
    chosen = as_policy(policy)
    if emulate is None:
        return chosen, None
    emulation = Emulation(arch=emulate) if isinstance(emulate, str) else emulate
    emulation.check_dtype(chosen.default.compute_dtype)
    _name_present_gpus()
    return chosen, emulation


def start_emulating(model: Any, emulation: Emulation) -> EmulatedModel:
    """As ``emulate``, for a model whose layers have their precisions, and that has compiled nothing yet."""
    descriptions = [d for d in describe_layers(model) if not isinstance(d.layer, keras.layers.InputLayer)]
    formats = _formats(descriptions, emulation)
    keep_out_of_exports()
    for description in descriptions:
        attach(description.layer, _products(description, emulation))
    layers = tuple(description.layer for description in descriptions)
    return EmulatedModel(emulation=emulation, formats=formats, applied=None, _model=model, _layers=layers)


def explain(applied: AppliedPolicy, emulated: EmulatedModel) -> AppliedPolicy:
    """Return what applying a policy did, with the emulation among the reasons of the layers emulated."""
    note = f"emulated: {{}} products as on {emulated.emulation.arch}"
    decisions = tuple(
        replace(decision, reason=f"{decision.reason}; {note.format(emulated.formats[decision.path])}")
        if decision.path in emulated.formats
        else decision
        for decision in applied.decisions
    )
    return replace(applied, decisions=decisions)


def _formats(descriptions: Sequence[LayerDescription], emulation: Emulation) -> dict[str, str]:
    """Return the operand format of every layer that computes in 16 bits; refuse what the architecture lacks."""
    formats: dict[str, str] = {}
    for description in descriptions:
        dtype = _layer(description).compute_dtype
        if dtype not in _NARROW:
            continue
        try:
            emulation.check_dtype(dtype)
        except InputError as error:
            raise InputError(f"layer {description.path or _layer(description).name!r}: {error}") from None
        if description.path:
            formats[description.path] = dtype
    return formats


def _layer(description: LayerDescription) -> Any:
    return description.layer


def _products(description: LayerDescription, emulation: Emulation) -> Products:  # noqa: ARG001
    return Float32Products()


def _name_present_gpus() -> None:
    from mixte.devices import inspect_machine

    for gpu in inspect_machine().visible_gpus:
        warnings.warn(
            f"this machine has a GPU, {gpu.device.name}: without emulation the model runs on its own arithmetic, "
            "faster. `mixte doctor` says what it can do.",
            category=MixteWarning,
            stacklevel=3,
        )

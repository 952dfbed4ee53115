"""Train as the Tensor Cores of an architecture would, on a machine without them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

from mixte._errors import InputError, MixteWarning
from mixte.keras._apply import AppliedPolicy, apply, as_policy, forget_compiled
from mixte.keras._describe import describe_layers
from mixte.keras._emulation_float8 import FORWARD, GRADIENT
from mixte.keras._emulation_layers import attach, detach, keep_out_of_exports
from mixte.keras._emulation_scope import ExactProducts, Float8Products, Float32Products
from mixte.keras._framework import keras
from mixte.policy import ByPath, Policy, Rule
from mixte.tensorcore import dot_unit, inputs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.keras._emulation_scope import Products
    from mixte.policy import LayerDescription
    from mixte.scaling import LossScaleLaw

_NARROW = ("float16", "bfloat16")

# What float8 recipes cover: the linear layers, those of attention among them, but not its scores.
_FLOAT8_CLASSES = frozenset({"Dense", "EinsumDense"})

FLOAT8_POLICIES = {
    "float8": "mixed_bfloat16",
    "float8_from_mixed_bfloat16": "mixed_bfloat16",
    "float8_from_mixed_float16": "mixed_float16",
}
"""The policies that are emulated only, each with the one that all but the dense layers' products follow."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """What is to be emulated.

    Attributes:
        arch: ``"volta"``, ``"turing"``, ``"ampere"``, ``"ada"``, ``"hopper"`` or ``"blackwell"``: which formats
            there are, and how the exact layers accumulate.
        exact: Path patterns, as those of a policy's rules, of the layers whose products go through the bit-accurate
            model of the architecture's Tensor Cores; the parts of such a layer do too.
        float8: Whether the operands of dense layers are rounded to float8.

    Raises:
        InputError: There is no such architecture, it has no float8, or a pattern is none.
    """

    arch: str
    exact: tuple[str, ...] = ()
    float8: bool = False

    def __post_init__(self) -> None:
        inputs_of(self.arch)  # raises for an architecture that does not exist
        for pattern in self.exact:
            ByPath(pattern)
        if self.float8:
            dot_unit(self.arch, FORWARD.name, GRADIENT.name)

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
        formats: For every layer that computes in 16 bits, by its path, the format of its products' operands:
            ``"float16"``, ``"bfloat16"`` or ``"float8"``, with ``" exact"`` after it for an exact layer.
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
    exact: Sequence[str] = (),
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
        policy: As for ``apply``; or ``"float8"``: dense layers multiply in float8, e4m3 forward and e5m2 for
            gradients, in a model that is otherwise ``"mixed_bfloat16"`` (``"float8_from_mixed_float16"``: otherwise
            ``"mixed_float16"``). None to keep the precisions that the layers have.
        arch: ``"volta"`` (V100), ``"turing"`` (T4), ``"ampere"`` (A100), ``"ada"`` (L4, L40S), ``"hopper"`` (H100) or
            ``"blackwell"`` (B200).
        exact: Path patterns of layers whose products are computed bit for bit as the architecture does, on the host:
            much slower.
        law: As for ``apply``.

    Returns:
        Which layers are emulated in which format, and ``undo()``.

    Raises:
        InputError: An architecture that does not exist, a format that its Tensor Cores do not multiply, or a pattern
            that selects no layer that computes in 16 bits.
        PolicyError: As for ``apply``.

    Example:
        >>> emulated = mixte.keras.emulate(model, "mixed_float16", arch="volta")
        >>> model.fit(x, y)
        >>> emulated.undo()
    """
    chosen, float8 = (None, False) if policy is None else policy_of(policy)
    emulation = Emulation(arch=arch, exact=tuple(exact), float8=float8)
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
    if emulate is None:
        return as_policy(policy), None
    chosen, float8 = policy_of(policy)
    if isinstance(emulate, str):
        emulation = Emulation(arch=emulate, float8=float8)
    else:
        emulation = replace(emulate, float8=float8 or emulate.float8)
    emulation.check_dtype(chosen.default.compute_dtype)
    _name_present_gpus()
    return chosen, emulation


def policy_of(policy: Policy | str) -> tuple[Policy, bool]:
    """Return a policy, and whether its dense layers multiply in float8; also of the names that ask for that."""
    base = FLOAT8_POLICIES.get(policy) if isinstance(policy, str) else None
    if base is None:
        return as_policy(policy), False
    return replace(as_policy(base), name=str(policy)), True


def start_emulating(model: Any, emulation: Emulation) -> EmulatedModel:
    """As ``emulate``, for a model whose layers have their precisions, and that has compiled nothing yet."""
    descriptions = [d for d in describe_layers(model) if not isinstance(d.layer, keras.layers.InputLayer)]
    formats = _formats(descriptions, emulation)
    keep_out_of_exports()
    exact = _exact_paths(descriptions, emulation)
    if exact:
        from mixte.keras._emulation_exact import install_exact_operations

        install_exact_operations()
    chosen = {d.path: _products(d, emulation, exact=d.path in exact) for d in descriptions}
    for description in descriptions:
        attach(description.layer, chosen[description.path])
    layers = tuple(description.layer for description in descriptions)
    formats = {path: _spelled(chosen[path], dtype) for path, dtype in formats.items()}
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


def _spelled(products: Products, dtype: str) -> str:
    match products:
        case Float32Products():
            return dtype
        case Float8Products():
            return "float8"
        case ExactProducts(operands=operands):
            return f"{'float8' if operands == 'float8' else dtype} exact"


def _layer(description: LayerDescription) -> Any:
    return description.layer


def _products(description: LayerDescription, emulation: Emulation, *, exact: bool) -> Products:
    narrow = _layer(description).compute_dtype in _NARROW
    float8 = emulation.float8 and narrow and not _FLOAT8_CLASSES.isdisjoint(description.class_names)
    if exact:
        return ExactProducts(arch=emulation.arch, operands="float8" if float8 else "compute")
    return Float8Products() if float8 else Float32Products()


def _exact_paths(descriptions: Sequence[LayerDescription], emulation: Emulation) -> set[str]:
    """Return the paths of the exact layers: those that a rule with the pattern would select, and their parts.

    Raises:
        InputError: A pattern selects no layer, or only layers that do not compute in 16 bits.
    """
    paths: set[str] = set()
    for pattern in emulation.exact:
        selecting = Policy("float32", [Rule(ByPath(pattern), "float32", "exact")])
        found = [d for d in descriptions if selecting.decide(d).origin in ("rule", "owner")]
        narrow = [d.path for d in found if _layer(d).compute_dtype in _NARROW]
        if not narrow:
            have = [d.path for d in descriptions if d.path and _layer(d).compute_dtype in _NARROW]
            what = "only layers that compute in float32" if found else "no layer"
            raise InputError(
                f"'{pattern}' selects {what}; the layers that compute in 16 bits are: {', '.join(have) or 'none'}."
            )
        paths.update(narrow)
    return paths


def _name_present_gpus() -> None:
    from mixte.devices import inspect_machine

    for gpu in inspect_machine().visible_gpus:
        warnings.warn(
            f"this machine has a GPU, {gpu.device.name}: without emulation the model runs on its own arithmetic, "
            "faster. `mixte doctor` says what it can do.",
            category=MixteWarning,
            stacklevel=3,
        )

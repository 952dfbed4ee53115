"""Shapes and data types of an operation's operands, from the HLO modules that an XPlane file carries.

Schema: openxla/xla, xla/service/hlo.proto and xla/xla_data.proto. Field numbers: HloProto 1 hlo_module;
HloModuleProto 1 name, 3 computations, 5 id; HloComputationProto 1 name, 2 instructions, 5 id; HloInstructionProto
1 name, 2 opcode, 3 shape, 7 metadata, 35 id, 36 operand_ids, 38 called_computation_ids; OpMetadata 2 op_name;
ShapeProto 2 element_type, 3 dimensions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, final

from mixte.profiles import _limits
from mixte.profiles.readers._wire import BYTES, Field, WireError, fields, packed_varints, signed, text

if TYPE_CHECKING:
    from mixte.profiles.readers._xspace import Plane

# xla.PrimitiveType; the types that hold no numbers (TUPLE, TOKEN, OPAQUE_TYPE) are left out.
_ELEMENT_TYPES = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    15: "complex64",
    16: "bfloat16",
    18: "complex128",
    19: "float8_e5m2",
    20: "float8_e4m3fn",
    21: "int4",
    22: "uint4",
    23: "float8_e4m3b11fnuz",
    24: "float8_e5m2fnuz",
    25: "float8_e4m3fnuz",
    28: "float8_e4m3",
    29: "float8_e3m4",
    32: "float4_e2m1fn",
}
# What multiplies matrices; inside a fusion its operands matter, not those of the fusion.
_MATRIX_WORK = {"dot", "convolution", "scaled-dot"}
# A module by its name and program id; None for whichever program of that name came first.
_Key = tuple[str, int | None]
_PROGRAM = re.compile(r"(?P<module>.*)\((?P<program>\d{1,19})\)")


class Operation(NamedTuple):
    """What a module tells about an operation.

    Attributes:
        shapes: Of its array operands; None if not known.
        dtypes: Aligned with `shapes`.
        scope: The framework's path of the operation, for example ``"jit(f)/dot_general"``; empty if not known.
        product: ``"dot"``, ``"convolution"`` or ``"scaled-dot"`` if it multiplies matrices, else empty.
    """

    shapes: tuple[tuple[int, ...], ...] | None = None
    dtypes: tuple[str | None, ...] | None = None
    scope: str = ""
    product: str = ""


_UNKNOWN = Operation()


class _Instruction(NamedTuple):
    opcode: str
    scope: str
    dtype: str | None
    shape: tuple[int, ...]
    operands: tuple[int, ...]
    called: tuple[int, ...]


class _Computation(NamedTuple):
    by_name: dict[str, _Instruction]
    by_id: dict[int, _Instruction]


@final
class HloModules:
    """The modules of one file, decoded when first asked about."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._places: dict[_Key, Field] = {}
        self._modules: dict[_Key, dict[int, _Computation]] = {}
        self._answers: dict[tuple[_Key, str], Operation] = {}

    def take(self, plane: Plane) -> None:
        """Note the modules that the plane ``/host:metadata`` holds: events named ``jit_step(17)``.

        Raises:
            WireError: The plane is damaged.
        """
        for _, name, stats in plane.event_metadata():
            for place in plane.bytes_of(stats):
                found = _PROGRAM.fullmatch(name)
                module, program = (found["module"], int(found["program"])) if found else (name, None)
                self._places[module, program] = place
                self._places.setdefault((module, None), place)

    def operation(self, module: str | None, program: int | None, op: str | None) -> Operation:
        """Tell what is known about an operation; of a fusion, about the product inside it.

        Args:
            module: Name of the HLO module.
            program: Its program id; None if not told.
            op: Name of the instruction.
        """
        if module is None or op is None:
            return _UNKNOWN
        key: _Key = (module, program) if (module, program) in self._places else (module, None)
        question = (key, op)
        if question not in self._answers:
            try:
                self._answers[question] = self._look_up(key, op)
            except WireError:
                self._answers[question] = _UNKNOWN
        return self._answers[question]

    def _look_up(self, key: _Key, op: str) -> Operation:
        place = self._places.get(key)
        if place is None or place.end - place.begin > _limits.MAX_MODULE_BYTES:
            return _UNKNOWN
        if key not in self._modules:
            self._modules[key] = {}
            self._modules[key] = _computations(self._data, place)
        computations = self._modules[key]
        for computation in computations.values():
            instruction = computation.by_name.get(op)
            if instruction is not None:
                return _operation(computations, computation, instruction)
        return _UNKNOWN


def _operation(
    computations: dict[int, _Computation], computation: _Computation, instruction: _Instruction
) -> Operation:
    if instruction.opcode == "fusion":
        for called in instruction.called:
            inner = computations.get(called, _Computation({}, {}))
            product = next((each for each in inner.by_id.values() if each.opcode in _MATRIX_WORK), None)
            if product is not None:
                computation, instruction = inner, product
                break
    product_kind = instruction.opcode if instruction.opcode in _MATRIX_WORK else ""
    operands = [computation.by_id[operand] for operand in instruction.operands if operand in computation.by_id]
    arrays = [operand for operand in operands if operand.dtype is not None]
    if not arrays:
        return Operation(scope=instruction.scope, product=product_kind)
    return Operation(
        shapes=tuple(operand.shape for operand in arrays),
        dtypes=tuple(operand.dtype for operand in arrays),
        scope=instruction.scope,
        product=product_kind,
    )


def _computations(data: bytes, hlo: Field) -> dict[int, _Computation]:
    result: dict[int, _Computation] = {}
    for module in fields(data, hlo.begin, hlo.end):
        if module.number == 1 and module.kind == BYTES:
            for part in fields(data, module.begin, module.end):
                if part.number == 3 and part.kind == BYTES:
                    number, computation = _computation(data, part)
                    result[number] = computation
    return result


def _computation(data: bytes, place: Field) -> tuple[int, _Computation]:
    number = 0
    computation = _Computation({}, {})
    for part in fields(data, place.begin, place.end):
        if part.number == 5:
            number = part.begin
        elif part.number == 2 and part.kind == BYTES:
            identifier, name, instruction = _instruction(data, part)
            computation.by_name[name] = instruction
            computation.by_id[identifier] = instruction
    return number, computation


def _instruction(data: bytes, place: Field) -> tuple[int, str, _Instruction]:
    identifier, name, opcode, scope = 0, "", "", ""
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    operands: list[int] = []
    called: list[int] = []
    for part in fields(data, place.begin, place.end):
        match part.number:
            case 1:
                name = text(data, part)
            case 2:
                opcode = text(data, part)
            case 3:
                dtype, shape = _shape(data, part)
            case 7:
                scope = next(
                    (text(data, each) for each in fields(data, part.begin, part.end) if each.number == 2), ""
                )
            case 35:
                identifier = part.begin
            case 36:
                operands += packed_varints(data, part)
            case 38:
                called += packed_varints(data, part)
            case _:
                pass
    return identifier, name, _Instruction(opcode, scope, dtype, shape, tuple(operands), tuple(called))


def _shape(data: bytes, place: Field) -> tuple[str | None, tuple[int, ...]]:
    dtype: str | None = None
    dimensions: list[int] = []
    for part in fields(data, place.begin, place.end):
        if part.number == 2:
            dtype = _ELEMENT_TYPES.get(part.begin)
        elif part.number == 3:
            dimensions += (signed(size) for size in packed_varints(data, part))
    return dtype, tuple(dimensions)

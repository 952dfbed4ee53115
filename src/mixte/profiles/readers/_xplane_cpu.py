"""The operations that ran on the CPU, from an XPlane file.

XLA marks what it executes with ``hlo_op`` and ``hlo_module``. TensorFlow's executor names an operation by its path
and its type, as in ``model/dense/MatMul:MatMul``, and when it runs eagerly, by its type alone. All run on threads of
``/host:CPU``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, final

from mixte._errors import ProfileError
from mixte.profiles import _limits
from mixte.profiles._cpu_work import CpuOperation, Executions, Work, graph_work
from mixte.profiles.readers._hlo import HloModules
from mixte.profiles.readers._nesting import own_durations
from mixte.profiles.readers._scope import split_scope
from mixte.profiles.readers._wire import BYTES, WireError, fields
from mixte.profiles.readers._xplane_steps import HostSteps
from mixte.profiles.readers._xspace import Plane, integer

if TYPE_CHECKING:
    from mixte.profiles.readers._source import Source
    from mixte.profiles.readers._steps import Steps
    from mixte.profiles.readers._xspace import Event, Line, Value

_PS_PER_NS = 1000
_EXECUTED = re.compile(r"(?P<path>[\w./+\-()]+):(?P<kind>_?[A-Z]\w*)")
_EAGER = re.compile(r"EagerLocalExecute: (?P<kind>_?[A-Z]\w*)")  # functions have names like __inference_step_17
_INPUT_LINES = "tf_data_"  # threads that prepare data
# Its time is that of what it calls, maybe on other threads.
_CALLERS = re.compile(
    r"(?:Stateful)?PartitionedCall|_?Xla(?:Launch|Run|Compile)|(?:Stateless)?(?:While|If|Case)"
)
_NUMBER = re.compile(r"_\d+$")  # TensorFlow numbers operations whose name would come twice
_HLO_CALLERS = re.compile(r"(?:while|call|conditional)(?:\.\d+)*")


def read_cpu(source: Source) -> tuple[CpuOperation, ...]:
    """Read the operations; see ``mixte.profiles._cpu_work``.

    Raises:
        ProfileError: The file is damaged.
    """
    data = source.whole(_limits.MAX_MESSAGE_BYTES)
    modules = HloModules(data)
    host: list[Plane] = []
    executions = Executions()
    try:
        for part in fields(data, 0, len(data)):
            if part.number != 1 or part.kind != BYTES:
                continue
            plane = Plane(data, part)
            if plane.name.startswith("/host:metadata"):
                modules.take(plane)
            elif plane.name.startswith("/host:"):
                host.append(plane)
        steps = HostSteps.of(host).steps
        for plane in host:
            _HostPlane(plane, modules, steps).add_to(executions)
    except WireError as error:
        raise ProfileError(f"{source.path} is damaged: {error}.") from error
    return executions.operations()


class _Kind(NamedTuple):
    """What the events of one name and with equal statistics execute."""

    op: str
    scope: str | None
    work: Work


@final
class _HostPlane:
    """The operations on the threads of one plane."""

    def __init__(self, plane: Plane, modules: HloModules, steps: Steps) -> None:
        self._plane = plane
        self._modules = modules
        self._steps = steps
        self._named: dict[int, _Kind | None] = {}
        self._compiled: dict[tuple[str | None, int | None, str], _Kind | None] = {}
        self._by_xla = "hlo_op" in plane.stat_names

    def add_to(self, executions: Executions) -> None:
        """Add what ran, each execution by its own time."""
        for place in self._plane.lines:
            line = self._plane.line(place)
            if not line.name.startswith(_INPUT_LINES):
                self._add_line(line, executions)

    def _add_line(self, line: Line, executions: Executions) -> None:
        kinds: list[_Kind] = []
        starts: list[float] = []
        ends: list[float] = []
        for place in self._plane.events_of(line):
            event = self._plane.event(place)
            kind = self._kind_of(event)
            if kind is not None and event.duration_ps > 0:
                kinds.append(kind)
                starts.append(event.offset_ps)
                ends.append(event.offset_ps + event.duration_ps)
        for kind, start, own_ps in zip(kinds, starts, own_durations(starts, ends), strict=True):
            if self._steps.extents and self._steps.at(line.timestamp_ns * _PS_PER_NS + start) is None:
                continue
            executions.add(*kind, own_ps / _PS_PER_NS)

    def _kind_of(self, event: Event) -> _Kind | None:
        if self._by_xla and event.rest:
            stats = self._plane.decode(self._plane.rest_of(event)[0])
            hlo_op = stats.get("hlo_op")
            if isinstance(hlo_op, str):
                return self._compiled_kind(hlo_op, stats)
        if event.metadata not in self._named:
            name, _ = self._plane.metadata_of(event.metadata)
            self._named[event.metadata] = _executed(name)
        return self._named[event.metadata]

    def _compiled_kind(self, hlo_op: str, stats: dict[str, Value]) -> _Kind | None:
        named = stats.get("hlo_module")
        module = named if isinstance(named, str) else None
        program = integer(stats.get("program_id"))
        key = (module, program, hlo_op)
        if key not in self._compiled:
            self._compiled[key] = self._look_up(*key)
        return self._compiled[key]

    def _look_up(self, module: str | None, program: int | None, hlo_op: str) -> _Kind | None:
        if _HLO_CALLERS.fullmatch(hlo_op):
            return None
        operation = self._modules.operation(module, program, hlo_op)
        scope, op = split_scope("", operation.scope)
        op = op and _NUMBER.sub("", op)
        if operation.product:
            return _Kind(operation.product, scope, Work.MATRIX)
        if hlo_op.startswith("custom-call"):  # a library does the work; only the name of the source tells which
            matrix = op is not None and graph_work(op) is Work.MATRIX
            return _Kind(op or hlo_op, scope, Work.MATRIX if matrix else Work.UNKNOWN)
        known = operation.dtypes is not None or operation.scope or module is None
        return _Kind(op or hlo_op, scope, Work.OTHER if known else _by_name(hlo_op))


def _by_name(hlo_op: str) -> Work:
    """Tell what an instruction does whose module is not in the file."""
    if re.match(r"dot|convolution", hlo_op):
        return Work.MATRIX
    return Work.UNKNOWN if "fusion" in hlo_op else Work.OTHER


def _executed(name: str) -> _Kind | None:
    """Take an event of TensorFlow's executor; None for any other."""
    found = _EXECUTED.fullmatch(name) or _EAGER.fullmatch(name)
    if found is None or _CALLERS.fullmatch(found["kind"]):
        return None
    scope = split_scope(name, "")[0] if found.re is _EXECUTED else None
    return _Kind(found["kind"], scope, graph_work(found["kind"]))

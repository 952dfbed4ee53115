"""Finds for each kernel of a Kineto trace the launch, the operator, the module and the step it belongs to.

The launch has the kernel's correlation id. The operator is the innermost one running on the launch's thread when
the launch was made; where there is none, the one whose ``External id`` the launch carries, if it was running then.
The External id is the same operator in most traces, but in those of 2022 and 2023 it merely repeats the correlation
id and meets operators at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mixte.profiles.readers._kineto_columns import NO_IDENTIFIER, Ranges
from mixte.profiles.readers._kineto_events import identifiers
from mixte.profiles.readers._nesting import innermost, outermost_first, parents
from mixte.profiles.readers._steps import Steps
from mixte.profiles.readers._trace_events import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.profiles.readers._kineto_events import Collection

# A share of launches whose External id was checked by time and found right, above which it is trusted where no
# launch is left to check it by (at the edges of the profile window).
_TRUST = 0.9


class Links(NamedTuple):
    """For each kernel, aligned with `Collection.kernels`.

    Attributes:
        operators: Index of the operator in `Collection.operators`; None where there is none.
        layers: Path of modules, or of the ranges that the user marked, outermost first.
        steps: Number of the profiler step.
        unlaunched: Kernels for which the trace holds no launch.
    """

    operators: list[int | None]
    layers: list[str | None]
    steps: list[int | None]
    unlaunched: int


def link(collection: Collection) -> Links:
    """Find what each kernel belongs to."""
    launch_of = [
        collection.launches.of_correlation.get(correlation) for correlation in collection.kernels.correlation
    ]
    used = sorted({launch for launch in launch_of if launch is not None})
    operator_of_launch = _operators(collection, used)
    layer_of_launch = _layers(collection, used, operator_of_launch)
    # Autograd launches from a thread of its own: a step is found by time alone.
    on_cpu, on_gpu = Steps.of(collection.steps), Steps.of(collection.gpu_steps)
    step_of_launch = {launch: on_cpu.at(collection.launches.start_us[launch]) for launch in used}
    steps = [
        on_gpu.at(start_us) if launch is None else step_of_launch[launch]
        for launch, start_us in zip(launch_of, collection.kernels.start_us, strict=True)
    ]
    operators = [None if launch is None else operator_of_launch.get(launch) for launch in launch_of]
    if None in launch_of:
        _operators_without_launch(collection, used, launch_of, operators)
    return Links(
        operators=operators,
        layers=[None if launch is None else layer_of_launch.get(launch) for launch in launch_of],
        steps=steps,
        unlaunched=launch_of.count(None),
    )


def layers_of_operators(collection: Collection) -> dict[int, str]:
    """Name each operator's module path where it is known; that of a backward operator is its forward one's."""
    operators = collection.operators.ranges
    modules = collection.modules
    paths = _paths(collection, modules)
    every = range(len(operators))
    around = _innermost_by_thread(collection, modules, operators.threads, operators.start_us, every)
    return {index: paths[module] for index, module in (_forward_modules(collection) | around).items()}


def _operators(collection: Collection, used: Sequence[int]) -> dict[int, int]:
    """Find each launch's operator."""
    launches, ranges = collection.launches, collection.operators.ranges
    # One graph launch stands for hundreds of kernels that other operators recorded long before.
    single = [launch for launch in used if "GraphLaunch" not in launches.names[launch]]
    around = _innermost_by_thread(collection, ranges, launches.threads, launches.start_us, single)
    alone = [launch for launch in single if launch not in around]
    by_external = _by_external(collection) if alone else {}
    for launch in alone:
        operator = by_external.get(launches.external[launch])
        if operator is not None and _runs_at(ranges, operator, launches.start_us[launch]):
            around[launch] = operator
    return around


def _runs_at(ranges: Ranges, index: int, moment_us: float) -> bool:
    return ranges.start_us[index] <= moment_us <= ranges.end_us[index]


def _external_ids_are_right(collection: Collection, used: Sequence[int], by_external: dict[int, int]) -> bool:
    """Tell whether the operators of the launches' External ids were running when the launches were made."""
    launches, ranges = collection.launches, collection.operators.ranges
    checked = [
        _runs_at(ranges, by_external[launches.external[launch]], launches.start_us[launch])
        for launch in used
        if launches.external[launch] in by_external
    ]
    return bool(checked) and sum(checked) >= _TRUST * len(checked)


def _by_external(collection: Collection) -> dict[int, int]:
    externals = identifiers([arguments.external for arguments in collection.operators.arguments])
    by_external = {external: index for index, external in enumerate(externals)}
    by_external.pop(NO_IDENTIFIER, None)
    return by_external


def _operators_without_launch(
    collection: Collection,
    used: Sequence[int],
    launch_of: Sequence[int | None],
    operators: list[int | None],
) -> None:
    """Where the launch is missing, take the operator of the kernel's own External id, if it began before."""
    by_external = _by_external(collection)
    if not _external_ids_are_right(collection, used, by_external):
        return
    kernels = collection.kernels
    for index, launch in enumerate(launch_of):
        if launch is None:
            operator = by_external.get(kernels.external[index])
            if (
                operator is not None
                and collection.operators.ranges.start_us[operator] <= kernels.start_us[index]
            ):
                operators[index] = operator


def _innermost_by_thread(
    collection: Collection,
    ranges: Ranges,
    threads: Sequence[int],
    moments_us: Sequence[float],
    used: Sequence[int],
) -> dict[int, int]:
    """Find for the used moments the innermost range around each on its own thread."""
    same = _same_threads(collection)
    moments_of: dict[int, list[int]] = {}
    for index in used:
        moments_of.setdefault(same[threads[index]], []).append(index)
    found: dict[int, int] = {}
    for thread, indices in indices_by_thread(collection, ranges).items():
        moments = moments_of.get(thread)
        if not moments:
            continue
        starts = [ranges.start_us[index] for index in indices]
        ends = [ranges.end_us[index] for index in indices]
        around = innermost(starts, ends, [moments_us[index] for index in moments])
        for index, position in zip(moments, around, strict=True):
            if position is not None:
                found[index] = indices[position]
    return found


def indices_by_thread(collection: Collection, ranges: Ranges) -> dict[int, list[int]]:
    """Sort the indices of ranges by thread."""
    same = _same_threads(collection)
    indices_of: dict[int, list[int]] = {}
    for index, thread in enumerate(ranges.threads):
        indices_of.setdefault(thread, []).append(index)
    merged: dict[int, list[int]] = {}
    for thread, indices in indices_of.items():
        merged.setdefault(same[thread], []).extend(indices)
    return merged


def _same_threads(collection: Collection) -> list[int]:
    """Give threads that differ in spelling only (``25738`` and ``"25738"``) the same number."""
    first: dict[object, int] = {}
    same: list[int] = []
    for number, (process, thread) in enumerate(collection.threads.values()):
        same.append(first.setdefault((whole_number(process), whole_number(thread)), number))
    return same


def _layers(collection: Collection, used: Sequence[int], operator_of_launch: dict[int, int]) -> dict[int, str]:
    """Name the module path of each launch; that of a backward operator is its forward operator's."""
    launches = collection.launches
    ranges = collection.modules or collection.annotations
    paths = _paths(collection, ranges)
    around = _innermost_by_thread(collection, ranges, launches.threads, launches.start_us, used)
    layers = {launch: paths[range_] for launch, range_ in around.items()}
    if collection.modules:
        forward = _forward_modules(collection)
        for launch in used:
            module = forward.get(operator_of_launch.get(launch, NO_IDENTIFIER))
            if module is not None and launch not in layers:
                layers[launch] = paths[module]
    return layers


def _forward_modules(collection: Collection) -> dict[int, int]:
    """Find for each operator of the backward pass the module in which its forward operator ran.

    Autograd gives a backward operator the sequence number at which its node was made; the forward operator that
    made the node is the last to begin under that number (torch.autograd.profiler.emit_nvtx describes it).
    """
    operators = collection.operators
    starts = operators.ranges.start_us
    sequences = identifiers([arguments.sequence for arguments in operators.arguments])
    # Only operators of the backward pass tell the thread of the forward one, which is counted from 1.
    backward = [
        thread > 0 for thread in identifiers([arguments.forward_thread for arguments in operators.arguments])
    ]
    creator: dict[int, int] = {}
    for index, sequence in enumerate(sequences):
        if sequence != NO_IDENTIFIER and not backward[index]:
            other = creator.get(sequence)
            if other is None or starts[other] <= starts[index]:
                creator[sequence] = index
    forward = sorted(set(creator.values()))
    module_of = _innermost_by_thread(collection, collection.modules, operators.ranges.threads, starts, forward)
    result: dict[int, int] = {}
    for indices in indices_by_thread(collection, operators.ranges).values():
        if any(backward[index] for index in indices):
            for index, root in _backward_roots(collection, indices, backward):
                module = module_of.get(creator.get(sequences[root], NO_IDENTIFIER))
                if module is not None:
                    result[index] = module
    return result


def _backward_roots(
    collection: Collection, indices: Sequence[int], backward: Sequence[bool]
) -> list[tuple[int, int]]:
    """Pair the operators of one thread with the backward operator around them, which alone has the number."""
    operators = collection.operators
    starts = [operators.ranges.start_us[index] for index in indices]
    ends = [operators.ranges.end_us[index] for index in indices]
    parent_of = parents(starts, ends)
    roots: list[int | None] = [None] * len(indices)
    for position in outermost_first(starts, ends):
        parent = parent_of[position]
        inherited = None if parent is None else roots[parent]
        roots[position] = indices[position] if backward[indices[position]] else inherited
    return [(index, root) for index, root in zip(indices, roots, strict=True) if root is not None]


def _paths(collection: Collection, ranges: Ranges) -> list[str]:
    """Name each range with those it lies in: ``"ViTModel_0/ViTEncoder_0/ViTLayer_3"``."""
    paths = list(ranges.names)
    for indices in indices_by_thread(collection, ranges).values():
        starts = [ranges.start_us[index] for index in indices]
        ends = [ranges.end_us[index] for index in indices]
        parent_of = parents(starts, ends)
        for position in outermost_first(starts, ends):
            parent = parent_of[position]
            if parent is not None:
                index = indices[position]
                paths[index] = f"{paths[indices[parent]]}/{ranges.names[index]}"
    return paths

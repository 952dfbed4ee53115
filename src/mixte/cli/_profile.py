"""The option ``--profile`` of ``mixte run``, and the verdict on what was captured."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict
from typing import TYPE_CHECKING

from mixte._errors import InputError, ProfileError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

    from mixte.keras._recorder import Recorder
    from mixte.profiles import Profile
    from mixte.profiles._cpu_work import CpuOperation
    from mixte.profiles._verdict import ProfileVerdict
    from mixte.records import CapturedProfile, CpuTime, Model, OperationTime, RecordWriter, StepRange

_MOST_OPERATIONS = 20


def add_profile_argument(parser: argparse.ArgumentParser) -> None:
    """Declare ``--profile``."""
    parser.add_argument(
        "--profile",
        metavar="A:B",
        help="profile the steps from A up to, not including, B (the first step is 1) with the backend's own profiler, "
        "and say what the Tensor Cores did",
    )


def profile_window(text: str | None) -> StepRange | None:
    """Read the value of ``--profile``.

    Returns:
        The steps; None if there is no such option.

    Raises:
        InputError: It is no range of steps.
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,12})\s*:\s*(\d{1,12})\s*", text, re.ASCII)
    if found is not None and 1 <= int(found[1]) < int(found[2]):
        from mixte.records import StepRange

        return StepRange(first=int(found[1]), end=int(found[2]))
    raise InputError(
        f"--profile {text}: give a range of steps A:B with 1 <= A < B. Steps count from 1, and B is not in it: "
        "10:20 profiles the ten steps 10 to 19."
    )


def judge_profile(
    window: StepRange, writer: RecordWriter, recorders: Sequence[Recorder], *, finished: bool
) -> None:
    """Add what was profiled to the record, with the verdict.

    Args:
        window: The steps that were asked for.
        writer: The record.
        recorders: What recorded the run; empty if the script never imported Keras.
        finished: Whether the script came to its end.
    """
    from mixte.records import CapturedProfile

    captured: CapturedProfile | None = CapturedProfile(
        asked=window, problem="none: the script never imported Keras."
    )
    if recorders:
        captured = recorders[0].captured(finished=finished)
    if captured is not None:
        writer.update(profile=judged(captured, writer.directory, writer.run.models))


def judged(profile: CapturedProfile, record: Path, models: Sequence[Model]) -> CapturedProfile:
    """Add the verdict to a captured profile.

    Args:
        profile: What was captured, without a verdict.
        record: The record's directory.
        models: The models that were trained: their layers are looked for in the profile.

    Returns:
        The profile with its files and its verdict; with a problem if it cannot be read.
    """
    from msgspec.structs import replace

    from mixte.profiles._find import find_profiles
    from mixte.records import PROFILE_DIRECTORY

    if profile.steps is None:
        return profile
    try:
        paths = find_profiles([str(record / PROFILE_DIRECTORY)]).paths
        files = tuple(path.relative_to(record).as_posix() for path in paths)
        return _with_verdict(replace(profile, files=files), paths[0], models)
    except (InputError, ProfileError) as error:
        problem = str(error)
    except KeyboardInterrupt:
        problem = f"Reading it was interrupted; `mixte verify {PROFILE_DIRECTORY}` in the record reads it."
    except Exception as error:  # noqa: BLE001 - the summary of a training that is done must not be lost to this
        problem = (
            f"It cannot be read, which is a defect of mixte; please report {type(error).__name__}: {error}"
        )
    return replace(profile, problem=f"{profile.problem} {problem}" if profile.problem else problem)


def _with_verdict(profile: CapturedProfile, path: Path, models: Sequence[Model]) -> CapturedProfile:
    from msgspec.structs import replace

    from mixte.cli._verify_progress import Progress
    from mixte.profiles import read_profile
    from mixte.profiles._cpu_work import read_cpu_operations
    from mixte.profiles._document import gpus_used
    from mixte.records import KernelShares

    with Progress(path) as progress:
        whole = read_profile(path, progress=progress.report)
        verdict = _in_steps(whole)
        if verdict.shares is None:
            operations = read_cpu_operations(path, progress=progress.report)
            return replace(
                profile,
                no_kernels_reason=verdict.profile.no_kernels_reason,
                cpu=_cpu_time(operations, models),
            )
    gpus = gpus_used(verdict)
    time_ns, all_ns = verdict.profile.gpu_time_ns, whole.gpu_time_ns
    return replace(
        profile,
        device=gpus[0].name if gpus else None,
        gpu_time_ns=time_ns,
        gpu_time_outside_ns=None if time_ns is None or all_ns is None else all_ns - time_ns,
        shares=KernelShares(**asdict(verdict.shares)),
    )


def _in_steps(profile: Profile) -> ProfileVerdict:
    """Judge the kernels of the marked steps; all, if none is linked to a step."""
    from mixte.profiles._verdict import judge

    if any(kernel.step is not None for kernel in profile.kernels):
        return judge(profile, steps=(min(profile.steps), max(profile.steps) + 1))
    return judge(profile)


def _cpu_time(operations: Sequence[CpuOperation], models: Sequence[Model]) -> CpuTime | None:
    from mixte.profiles._cpu_work import Work, time_by_work
    from mixte.profiles._layer_names import LayerNames
    from mixte.records import CpuTime, LayerTime

    times_ns = time_by_work(operations)
    total_ns = sum(times_ns.values())
    if not total_ns:
        return None
    names = LayerNames((model.name, [layer.path for layer in model.layers]) for model in models)
    layers_ns: defaultdict[str | None, int] = defaultdict(int)
    for operation in operations:
        if operation.work is Work.MATRIX:
            layers_ns[operation.scope and names.layer_of(operation.scope)] += operation.duration_ns
    return CpuTime(
        time_ns=total_ns,
        matrix=times_ns[Work.MATRIX] / total_ns,
        unknown=times_ns[Work.UNKNOWN] / total_ns,
        layers=tuple(
            LayerTime(layer=layer, share=time_ns / total_ns)
            for layer, time_ns in sorted(layers_ns.items(), key=lambda item: (-item[1], item[0] or ""))
        ),
        operations=_operation_times(operations, total_ns),
    )


def _operation_times(operations: Sequence[CpuOperation], total_ns: int) -> tuple[OperationTime, ...]:
    from mixte.records import OperationTime

    sums: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    for operation in operations:
        total = sums[operation.op, operation.work.value]
        total[0] += operation.count
        total[1] += operation.duration_ns
    heaviest = sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))[:_MOST_OPERATIONS]
    return tuple(
        OperationTime(op=op, work=work, count=count, share=time_ns / total_ns)
        for (op, work), (count, time_ns) in heaviest
    )

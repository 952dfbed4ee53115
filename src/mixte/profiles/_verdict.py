"""The verdict for a whole profile: the share of GPU kernel time on Tensor Cores, and each kernel's part."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from mixte._errors import InputError
from mixte.profiles._decide import Decision, decide
from mixte.profiles._model import Weight
from mixte.profiles._rules import Verdict, classify
from mixte.profiles._totals import launches

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from mixte.profiles._model import Gpu, Kernel, Profile

Grouping = Literal["op", "kernel", "stream", "rank", "layer", "device"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of GPU kernel time (or of launches, see `Profile.weight`), each from 0 to 1, adding up to 1."""

    tensor_core: float
    cuda_core: float
    unknown: float
    not_matmul: float

    @property
    def of_matrix_work(self) -> float | None:
        """The Tensor Cores' share of all that is or may be matrix work; None if there is none."""
        matrix_work = self.tensor_core + self.cuda_core + self.unknown
        return self.tensor_core / matrix_work if matrix_work else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedKernel:
    """A row of a profile with its verdict.

    Attributes:
        kernel: The row.
        decision: The verdict, and why.
        weight: What the row adds to the shares: nanoseconds, or launches where the profile holds no times.
        gpu: The GPU it ran on, None if the profile does not tell.
    """

    kernel: Kernel
    decision: Decision
    weight: int
    gpu: Gpu | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileVerdict:
    """A profile with the verdicts for all its kernels.

    Attributes:
        profile: The profile, cut to the steps asked for.
        kernels: All rows, the heaviest first.
        shares: None if there are no kernels to share anything out to.
        steps: The steps looked at, first and one past the last; None for the whole file.
    """

    profile: Profile
    kernels: tuple[JudgedKernel, ...]
    shares: Shares | None
    steps: tuple[int, int] | None = None

    @property
    def total(self) -> int:
        """Sum of all weights."""
        return sum(row.weight for row in self.kernels)

    @property
    def likely(self) -> tuple[float, float]:
        """Shares of the unknown part that is likely on Tensor Cores, and likely on CUDA cores."""
        total = self.total
        if not total:
            return 0.0, 0.0
        return (
            sum(row.weight for row in self.kernels if row.decision.likely is Verdict.TENSOR_CORE) / total,
            sum(row.weight for row in self.kernels if row.decision.likely is Verdict.CUDA_CORE) / total,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Kernels that belong together, such as those of one op.

    Attributes:
        label: What they have in common; None for those of which the profile does not tell it.
        weight: Their nanoseconds, or launches.
        count: Their launches; None if the profile counts none.
        shares: Within the group.
    """

    label: str | None
    weight: int
    count: int | None
    shares: Shares


def judge(profile: Profile, *, steps: tuple[int, int] | None = None) -> ProfileVerdict:
    """Decide for every kernel of a profile on what it ran, and add up.

    Args:
        profile: As a reader returned it.
        steps: Look at the kernels of these steps only: the first, and one past the last.

    Returns:
        The verdict; its shares are None if there are no kernels.

    Raises:
        InputError: The profile marks no steps, or none of those asked for.
    """
    if steps is not None:
        profile = _cut_to_steps(profile, steps)
    gpus = {gpu.index: gpu for gpu in profile.gpus}
    only = _the_one_kind(profile)
    tf32_seen = _multiplies_in_tf32(profile.kernels)
    decisions: dict[Hashable, Decision] = {}
    rows: list[JudgedKernel] = []
    for kernel in profile.kernels:
        gpu = gpus.get(kernel.device, only) if kernel.device is not None else only
        # Rows differ by stream and step, on which a verdict does not depend: decide once for all of them.
        key = (kernel.name, kernel.device, kernel.op, kernel.input_dtypes, kernel.statement)
        decision = decisions.get(key) if kernel.counters is None else None
        if decision is None:
            decision = decide(kernel, gpu, tf32_seen=tf32_seen)
            if kernel.counters is None:
                decisions[key] = decision
        rows.append(JudgedKernel(kernel=kernel, decision=decision, weight=_weight(kernel, profile), gpu=gpu))
    rows.sort(key=lambda row: -row.weight)
    return ProfileVerdict(profile=profile, kernels=tuple(rows), shares=shares_of(rows), steps=steps)


def shares_of(rows: Iterable[JudgedKernel]) -> Shares | None:
    """Add up the weights of rows by verdict.

    Returns:
        None if the weights add up to nothing.
    """
    weights = dict.fromkeys(Verdict, 0)
    for row in rows:
        weights[row.decision.verdict] += row.weight
    total = sum(weights.values())
    if not total:
        return None
    return Shares(**{verdict.value: weight / total for verdict, weight in weights.items()})


def group(verdicts: Iterable[ProfileVerdict], by: Grouping) -> tuple[Group, ...]:
    """Group the kernels of one or more profiles, the heaviest group first.

    Args:
        verdicts: Profiles whose weights are of one kind.
        by: What the kernels of a group have in common.
    """
    label = _LABELS[by]
    members: defaultdict[str | None, list[JudgedKernel]] = defaultdict(list)
    for verdict in verdicts:
        for row in verdict.kernels:
            members[label(verdict.profile, row.kernel)].append(row)
    groups = [_group(name, rows) for name, rows in members.items()]
    return tuple(sorted((one for one in groups if one is not None), key=lambda one: -one.weight))


def _group(label: str | None, rows: list[JudgedKernel]) -> Group | None:
    shares = shares_of(rows)
    if shares is None:
        return None
    return Group(label=label, weight=sum(row.weight for row in rows), count=launches(rows), shares=shares)


def _numbered(word: str, number: int | None) -> str | None:
    return None if number is None else f"{word} {number}"


_LABELS: dict[Grouping, Callable[[Profile, Kernel], str | None]] = {
    "op": lambda _, kernel: kernel.op,
    "kernel": lambda _, kernel: kernel.name,
    "layer": lambda _, kernel: kernel.layer,
    "stream": lambda _, kernel: _numbered("stream", kernel.stream),
    "device": lambda _, kernel: _numbered("device", kernel.device),
    "rank": lambda profile, _: _numbered("rank", profile.rank) or profile.path.name,
}


def _weight(kernel: Kernel, profile: Profile) -> int:
    value = kernel.duration_ns if profile.weight is Weight.TIME else kernel.count
    return value or 0


def _the_one_kind(profile: Profile) -> Gpu | None:
    """Give the GPU of a kernel that does not name one: known if all GPUs of the file are of one kind."""
    kinds = {replace(gpu, index=0) for gpu in profile.gpus}
    return profile.gpus[0] if len(kinds) == 1 else None


def _multiplies_in_tf32(kernels: Iterable[Kernel]) -> bool:
    return any(
        found.input_dtype == "tf32" and found.verdict is Verdict.TENSOR_CORE
        for found in map(classify, {kernel.name for kernel in kernels})
    )


def _cut_to_steps(profile: Profile, steps: tuple[int, int]) -> Profile:
    if not profile.steps:
        raise InputError(
            f"{profile.path} marks no steps, so --steps cannot choose among them. Leave --steps out, or record "
            f"with step marks: torch.profiler's step(), or jax.profiler.StepTraceAnnotation."
        )
    first, end = steps
    chosen = [step for step in profile.steps if first <= step < end]
    if not chosen:
        raise InputError(
            f"{profile.path} holds the steps {profile.steps[0]} to {profile.steps[-1]}; {first}:{end} asks for "
            f"none of them (the second number is one past the last step)."
        )
    kept = tuple(kernel for kernel in profile.kernels if kernel.step is not None and first <= kernel.step < end)
    unplaced = sum(kernel.step is None for kernel in profile.kernels)
    notes = profile.notes
    if unplaced:
        notes = (*notes, f"{unplaced} rows of kernels lie in no step and are left out.")
    reason = None if kept else f"no kernel lies in steps {first}:{end}"
    return replace(profile, kernels=kept, notes=notes, no_kernels_reason=reason)

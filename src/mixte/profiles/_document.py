"""The verdict as plain data: the JSON contract of ``mixte verify --json`` (docs/verify-json.md)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from mixte._version import __version__
from mixte.profiles._findings import Finding, find
from mixte.profiles._hardware import Absent, Present, architecture, compute_capability, tensor_cores, vendor
from mixte.profiles._model import Weight
from mixte.profiles._rules import rule_table
from mixte.profiles._totals import KernelTotal, kernel_totals, launches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixte.profiles._model import Gpu
    from mixte.profiles._verdict import Group, ProfileVerdict

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""

Json = dict[str, object]


def document(verdicts: Sequence[ProfileVerdict], *, groups: tuple[str, Sequence[Group]] | None = None) -> Json:
    """Build the document for one or more profiles.

    Args:
        verdicts: Judged profiles; exactly two are also compared.
        groups: What the kernels were grouped by, and the groups over all profiles; None if not asked for.
    """
    result: Json = {
        "schema": "mixte.verify",
        "version": SCHEMA_VERSION,
        "mixte_version": __version__,
        "rules_version": rule_table().version,
        "files": [_file(verdict) for verdict in verdicts],
    }
    if groups is not None:
        result["by"] = groups[0]
        result["groups"] = [_group(group) for group in groups[1]]
    if len(verdicts) == 2:
        result["difference"] = _difference(verdicts[0], verdicts[1])
    return result


def _file(verdict: ProfileVerdict) -> Json:
    profile = verdict.profile
    likely_yes, likely_no = verdict.likely
    gpus = gpus_used(verdict)
    return {
        "path": str(profile.path),
        "format": profile.format,
        "producer": profile.producer,
        "device": _gpu(gpus[0]) if gpus else _no_gpu(),
        "devices": [_gpu(gpu) for gpu in gpus],
        "rank": profile.rank,
        "steps": {"marked": list(profile.steps), "chosen": list(verdict.steps) if verdict.steps else None},
        "weighed_by": profile.weight.value,
        "launches": launches(verdict.kernels),
        "gpu_time_ns": profile.gpu_time_ns,
        "partial": profile.partial,
        "missing": list(profile.missing),
        "notes": list(profile.notes),
        "no_kernels_reason": None if profile.kernels else profile.no_kernels_reason or "no kernels recorded",
        "shares": asdict(verdict.shares) if verdict.shares is not None else None,
        "likely": {"tensor_core": likely_yes, "cuda_core": likely_no} if verdict.shares is not None else None,
        "of_matrix_work": verdict.shares.of_matrix_work if verdict.shares is not None else None,
        "kernels": [_kernel(total, profile.weight) for total in kernel_totals(verdict)],
        "findings": [_finding(finding) for finding in find(verdict)],
    }


def gpus_used(verdict: ProfileVerdict) -> list[Gpu]:
    """Give the GPUs that ran kernels, or all that the file lists where it does not tell which did."""
    listed = {gpu.index: gpu for gpu in verdict.profile.gpus}
    used = {row.kernel.device for row in verdict.kernels if row.kernel.device is not None}
    chosen = [listed[index] for index in sorted(used) if index in listed]
    return chosen or list(verdict.profile.gpus)


def _kernel(total: KernelTotal, weight: Weight) -> Json:
    decision = total.decision
    return {
        "name": total.name,
        "count": total.count,
        "duration_ns": total.weight if weight is Weight.TIME else None,
        "share": total.share,
        "verdict": decision.verdict.value,
        "likely": decision.likely.value if decision.likely is not None else None,
        "basis": decision.basis.value,
        "reason": decision.reason,
        "dtype": decision.dtype,
        "accumulate_dtype": decision.accumulate_dtype,
        "op": total.op,
        "op_shapes": list(total.op_shapes),
        "layers": list(total.layers),
        "family": decision.family,
        "rule": decision.rule,
    }


def _gpu(gpu: Gpu) -> Json:
    capability = compute_capability(gpu)
    match tensor_cores(gpu):
        case Present(dtypes=dtypes):
            present, types = True, sorted(dtypes) if dtypes is not None else None
        case Absent():
            present, types = False, []
        case _:
            present, types = None, None
    return {
        "index": gpu.index,
        "name": gpu.name,
        "compute_capability": f"{capability[0]}.{capability[1]}" if capability is not None else None,
        "vendor": vendor(gpu),
        "architecture": architecture(gpu),
        "tensor_cores": present,
        "tensor_core_dtypes": types,
    }


def _no_gpu() -> Json:
    return {
        "index": None,
        "name": None,
        "compute_capability": None,
        "vendor": None,
        "architecture": None,
        "tensor_cores": None,
        "tensor_core_dtypes": None,
    }


def _finding(finding: Finding) -> Json:
    return {
        "code": finding.code,
        "share": finding.share,
        "what": finding.what,
        "advice": finding.advice,
        "kernels": list(finding.kernels),
        "ops": list(finding.ops),
    }


def _group(group: Group) -> Json:
    return {"label": group.label, "weight": group.weight, "count": group.count, "shares": asdict(group.shares)}


def _difference(first: ProfileVerdict, second: ProfileVerdict) -> Json:
    """Second minus first, in shares; and how many times shorter the second one's kernel time is."""
    shares: Json | None = None
    if first.shares is not None and second.shares is not None:
        before, after = asdict(first.shares), asdict(second.shares)
        shares = {name: after[name] - before[name] for name in before}
    times = first.profile.gpu_time_ns, second.profile.gpu_time_ns
    ratio = times[0] / times[1] if times[0] and times[1] else None
    return {"shares": shares, "gpu_time_ratio": ratio}

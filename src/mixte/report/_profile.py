"""The rows of a run's summary that tell of its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixte.report import _quantities as quantities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mixte.records import CapturedProfile, CpuTime, KernelShares, StepRange

_MOST_LAYERS = 5
_SHOWN_FROM = 0.0005  # what would print as 0.0 %


def profile_rows(profile: CapturedProfile) -> Iterator[tuple[str, str]]:
    """Give the rows: what was profiled, and the verdict.

    Args:
        profile: The profile, as the record has it.
    """
    if profile.steps is None:
        yield "profile", profile.problem or "none was taken"
        return
    steps = _steps(profile.steps)
    if profile.shares is not None:
        device = "" if profile.device is None else f" on {profile.device}"
        text = f"{steps}{device}, {quantities.duration(profile.gpu_time_ns)} of GPU kernel time"
        if profile.gpu_time_outside_ns:
            text += f" ({quantities.duration(profile.gpu_time_outside_ns)} more outside the steps)"
        yield "profile", text
        yield "tensor cores", _verdict(profile.shares)
    elif profile.no_kernels_reason is not None:
        yield "profile", f"{steps}; nothing ran on a GPU, so Tensor Cores had no part"
        if profile.cpu is not None:
            yield "matrix work", _matrix_work(profile.cpu)
    else:
        yield "profile", steps
    if profile.problem is not None:
        yield "", profile.problem


def _steps(steps: StepRange) -> str:
    first, last = steps.first, steps.end - 1
    return f"step {first}" if first == last else f"steps {quantities.count(first)} to {quantities.count(last)}"


def _verdict(shares: KernelShares) -> str:
    text = (
        f"{shares.tensor_core:.1%} of the kernel time; {shares.cuda_core:.1%} is matrix work without them, "
        f"{shares.unknown:.1%} unknown, {shares.not_matmul:.1%} no matrix work"
    )
    matrix_work = shares.tensor_core + shares.cuda_core + shares.unknown
    if not matrix_work:
        return text
    certain = " for certain" if shares.unknown else ""
    return f"{text}. Of the matrix work {shares.tensor_core / matrix_work:.1%}{certain}"


def _matrix_work(cpu: CpuTime) -> str:
    unknown = f", at most {cpu.matrix + cpu.unknown:.1%}" if cpu.unknown >= _SHOWN_FROM else ""
    text = f"{cpu.matrix:.1%}{unknown} of the CPU's time in operations"
    layers = [layer for layer in cpu.layers if layer.share >= _SHOWN_FROM]
    if not layers:
        return text
    if all(layer.layer is None for layer in layers):
        return f"{text}; the profile does not tell of which layers"
    parts = [f"{layer.layer or '(layer not told)'} {layer.share:.1%}" for layer in layers[:_MOST_LAYERS]]
    rest = layers[_MOST_LAYERS:]
    if rest:
        parts.append(f"{len(rest)} more {sum(layer.share for layer in rest):.1%}")
    return f"{text}: {', '.join(parts)}"

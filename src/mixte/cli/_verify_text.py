"""The verdict on a terminal: plain ASCII, 80 columns where there are no more, the answer first."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from typing import TYPE_CHECKING

from mixte.cli._verify_values import amount, duration, fit, percent, printable, short_name, three, width
from mixte.profiles._document import gpus_used
from mixte.profiles._findings import Finding, find
from mixte.profiles._hardware import Absent, architecture, compute_capability, tensor_cores, vendor
from mixte.profiles._rules import Verdict
from mixte.profiles._verdict import shares_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mixte.profiles._model import Gpu
    from mixte.profiles._verdict import JudgedKernel, ProfileVerdict, Shares

_FORMATS = {
    "dlprof": "DLProf report",
    "kineto": "PyTorch (Kineto) trace",
    "ncu_csv": "Nsight Compute CSV",
    "ncu_text": "Nsight Compute text",
    "nsys_sqlite": "Nsight Systems database",
    "nsys_stats_csv": "nsys stats CSV",
    "nsys_stats_text": "nsys stats table",
    "nvprof_csv": "nvprof CSV",
    "nvprof_text": "nvprof text",
    "nvvp": "nvprof database",
    "rocprof": "rocprof",
    "tf_trace_json": "TensorBoard trace",
    "torch_table": "PyTorch key_averages table",
    "xplane": "XPlane (TensorFlow, JAX)",
}
_MAX_FINDINGS = 6
_SHOWN_FROM = 0.0005  # what would print as 0.0 % stays in the JSON


def summary(verdict: ProfileVerdict) -> str:
    """Write one profile's verdict, with the reasons."""
    lines = [str(verdict.profile.path), *_head(verdict), ""]
    shares = verdict.shares
    if shares is None:
        lines.append(_why_no_shares(verdict))
        return "\n".join([*lines, *_caveats(verdict)])
    lines += _bars(shares, verdict)
    lines += ["", *_sentences(verdict, shares)]
    lines += _findings(find(verdict))
    return "\n".join([*lines, *_caveats(verdict)])


def comparison(first: ProfileVerdict, second: ProfileVerdict) -> str:
    """Write two profiles side by side with the difference, and what stands out in the second."""
    lines: list[str] = []
    for letter, verdict in (("A", first), ("B", second)):
        lines += [f"{letter}  {verdict.profile.path}", *(f"   {line}" for line in _head(verdict))]
    lines += ["", f"{'':<18}{'A':>12}{'B':>12}{'difference':>17}"]
    for label, field in _rows_of_shares(first, second):
        before, after = _share(first.shares, field), _share(second.shares, field)
        change = "-" if before is None or after is None else f"{(after - before) * 100:+.1f} points"
        lines.append(f"{label:<18}{percent(before):>12}{percent(after):>12}{change:>17}")
    lines.append(_line_of_times(first, second))
    for letter, verdict in (("A", first), ("B", second)):
        found = _findings(find(verdict), title=f"What stands out in {letter}")
        lines += [*found, *_caveats(verdict)]
    return "\n".join(lines)


def overview(verdicts: Sequence[ProfileVerdict]) -> str:
    """Write one line for each of many profiles, and one for all together."""
    room = width() - 47
    lines = [f"{'file':<{room}}{'time':>11}{'Tensor':>9}{'CUDA':>9}{'unknown':>9}{'rest':>9}"]
    lines += [
        fit(_name_among(verdict, verdicts), room - 1).ljust(room) + _columns(verdict) for verdict in verdicts
    ]
    if len({verdict.profile.weight for verdict in verdicts}) == 1:
        lines.append(f"{'together':<{room}}" + _together(verdicts))
    else:
        lines.append("Not added up: some files hold times and some only launches.")
    for verdict in verdicts:
        notes = _caveats(verdict)
        if notes:
            lines += ["", f"{verdict.profile.path}:", *notes[1:]]
    return "\n".join(lines)


_LABELS = (
    ("Tensor Cores", "tensor_core"),
    ("CUDA cores", "cuda_core"),
    ("unknown", "unknown"),
    ("no matrix work", "not_matmul"),
)
_AMD_LABELS = {"Tensor Cores": "matrix cores", "CUDA cores": "vector ALU"}


def _why_no_shares(verdict: ProfileVerdict) -> str:
    if verdict.kernels:
        return f"No shares: the {len(verdict.kernels)} kernels of the file take no time."
    return f"No kernels: {printable(verdict.profile.no_kernels_reason or 'the file records none')}."


def _head(verdict: ProfileVerdict) -> list[str]:
    profile = verdict.profile
    first = _FORMATS[profile.format]
    if profile.rank is not None:
        first += f", rank {profile.rank}"
    if verdict.steps is not None:
        first += f", steps {verdict.steps[0]}:{verdict.steps[1]}"
    lines = [first + ("; partial, see below" if profile.partial else ""), _gpu_line(gpus_used(verdict))]
    counts = [row.kernel.count for row in verdict.kernels]
    if verdict.kernels:
        parts = [] if None in counts else [f"{sum(count or 0 for count in counts):,} launches"]
        time_ns = profile.gpu_time_ns
        parts.append(
            "no times: shares of launches" if time_ns is None else f"{duration(time_ns)} of GPU kernel time"
        )
        lines.append(", ".join(parts))
    return [line for line in lines if line]


def _gpu_line(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "GPU not named in the file"
    gpu = gpus[0]
    name = gpu.name or architecture(gpu) or ("AMD GPU" if vendor(gpu) == "amd" else "GPU not named in the file")
    capability = compute_capability(gpu)
    if vendor(gpu) == "amd":
        detail = architecture(gpu)
    else:
        detail = f"compute capability {capability[0]}.{capability[1]}" if capability is not None else None
    text = printable(name if detail is None or detail == name else f"{name}, {detail}")
    if isinstance(tensor_cores(gpu), Absent):
        text += ", without Tensor Cores"
    return text if len(gpus) == 1 else f"{len(gpus)} GPUs, the first: {text}"


def _is_amd(verdict: ProfileVerdict) -> bool:
    gpus = gpus_used(verdict)
    return bool(gpus) and vendor(gpus[0]) == "amd"


def _bars(shares: Shares, verdict: ProfileVerdict) -> list[str]:
    room = min(width() - 28, 40)
    lines: list[str] = []
    for label, field in _LABELS:
        share = _share(shares, field) or 0.0
        shown = _AMD_LABELS.get(label, label) if _is_amd(verdict) else label
        lines.append(f"{shown:<18}{share:>7.1%}  {'#' * round(share * room)}".rstrip())
    return lines


def _sentences(verdict: ProfileVerdict, shares: Shares) -> list[str]:
    cores = "matrix cores" if _is_amd(verdict) else "Tensor Cores"
    lines: list[str] = []
    of_matrix_work = shares.of_matrix_work
    if of_matrix_work is None:
        lines.append("There is no matrix work in this profile.")
    else:
        lines.append(f"Of the matrix work, {of_matrix_work:.1%} ran on {cores}{_possible(shares)}.")
    by_type = _by(verdict, _type_of, Verdict.TENSOR_CORE)
    if by_type:
        lines.append(f"On {cores}, by type: {by_type}.")
    rest = _by(verdict, _op_or_family, Verdict.NOT_MATMUL)
    if rest:
        lines.append(f"Without matrix work: {rest}.")
    return [line for text in lines for line in textwrap.wrap(text, width(), subsequent_indent="  ")]


def _possible(shares: Shares) -> str:
    if not shares.unknown:
        return ""
    matrix_work = shares.tensor_core + shares.cuda_core + shares.unknown
    return f" for certain, at most {(shares.tensor_core + shares.unknown) / matrix_work:.1%}"


def _type_of(row: JudgedKernel) -> str:
    return row.decision.dtype or "type not told"


def _op_or_family(row: JudgedKernel) -> str:
    return printable(row.kernel.op or row.decision.family)


def _by(verdict: ProfileVerdict, key: Callable[[JudgedKernel], str], which: Verdict) -> str:
    weights: defaultdict[str, int] = defaultdict(int)
    for row in verdict.kernels:
        if row.decision.verdict is which:
            weights[key(row)] += row.weight
    heaviest = sorted(weights.items(), key=lambda item: -item[1])[:5]
    total = verdict.total
    return ", ".join(f"{name} {weight / total:.1%}" for name, weight in heaviest if weight / total >= 0.0005)


def _findings(found: Sequence[Finding], *, title: str = "What stands out") -> list[str]:
    visible = [finding for finding in found if finding.share >= _SHOWN_FROM]
    if not visible:
        return []
    lines = ["", title]
    for finding in visible[:_MAX_FINDINGS]:
        lines += textwrap.wrap(
            f"{finding.share:>6.1%} {finding.what}.", width(), initial_indent="  ", subsequent_indent=" " * 9
        )
        if example := _example(finding):
            lines.append(" " * 9 + example)
        lines += textwrap.wrap(
            f"-> {finding.advice}",
            width(),
            initial_indent=" " * 9,
            subsequent_indent=" " * 12,
            break_on_hyphens=False,
        )
    hidden = len(visible) - _MAX_FINDINGS
    return [*lines, f"  and {hidden} more: see --json"] if hidden > 0 else lines


def _example(finding: Finding) -> str:
    room = width() - 9
    if finding.ops:
        return fit(printable(f"in {finding.ops[0]}"), room)
    return short_name(finding.kernels[0], room) if finding.kernels else ""


def _caveats(verdict: ProfileVerdict) -> list[str]:
    profile = verdict.profile
    lines = [""] * bool(profile.missing or profile.notes)
    for label, texts in (("partial", profile.missing), ("note", profile.notes)):
        for text in texts:
            lines += textwrap.wrap(f"{label}: {printable(text)}", width(), subsequent_indent="  ")
    return lines


def _rows_of_shares(first: ProfileVerdict, second: ProfileVerdict) -> list[tuple[str, str]]:
    amd = _is_amd(first) and _is_amd(second)
    return [(_AMD_LABELS.get(label, label) if amd else label, field) for label, field in _LABELS]


def _line_of_times(first: ProfileVerdict, second: ProfileVerdict) -> str:
    before, after = first.profile.gpu_time_ns, second.profile.gpu_time_ns
    change = "-"
    if before and after:
        change = f"{before / after:.2f} x faster" if after <= before else f"{after / before:.2f} x slower"
    return (
        f"{'kernel time':<18}{'-' if before is None else duration(before):>12}"
        f"{'-' if after is None else duration(after):>12}{change:>17}"
    )


def _name_among(verdict: ProfileVerdict, verdicts: Sequence[ProfileVerdict]) -> str:
    path = verdict.profile.path
    unique = sum(one.profile.path.name == path.name for one in verdicts) == 1
    name = path.name if unique else str(path)
    return name if verdict.profile.rank is None else f"{name} (rank {verdict.profile.rank})"


def _columns(verdict: ProfileVerdict) -> str:
    if verdict.shares is None:
        return f"{'no kernels':>11}" + f"{'-':>9}" * 4
    return f"{amount(verdict.total, verdict.profile.weight):>11}" + _four(verdict.shares)


def _together(verdicts: Sequence[ProfileVerdict]) -> str:
    shares = shares_of(row for verdict in verdicts for row in verdict.kernels)
    if shares is None:
        return f"{'no kernels':>11}"
    total = sum(verdict.total for verdict in verdicts)
    return f"{amount(total, verdicts[0].profile.weight):>11}" + _four(shares)


def _four(shares: Shares) -> str:
    return "".join(f"{percent(share):>9}" for share in (*three(shares), shares.not_matmul))


def _share(shares: Shares | None, field: str) -> float | None:
    return None if shares is None else float(getattr(shares, field))

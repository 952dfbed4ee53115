"""What other tools call Tensor Core in the same profiles: their published name lists beside `mixte verify`.

    python benchmarks/verify_rivals.py [--profiles DIR] [--write docs/how-it-works/verify.md]

Nothing of the other tools is run: their rules are lists of words, restated here as facts with their source. Each list
is applied to every kernel name that mixte reads from the file, and the share of GPU kernel time (or of launches, where
the file holds no times) that it calls Tensor Core is set beside mixte's. --write replaces the table between the markers
in the page.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mixte.profiles import judge, read_profile

if TYPE_CHECKING:
    from collections.abc import Callable

    from mixte.profiles import ProfileVerdict

DEFAULT_PROFILES = Path(__file__).resolve().parents[2] / "shared" / "data" / "profiles"
MARKERS = "<!-- verify_rivals: begin -->", "<!-- verify_rivals: end -->"

# openxla/xprof, xprof/utils/kernel_stats_utils.cc: a name that contains one of these, case sensitive.
XPROF = (
    *("16816", "c1688", "conv1x1", "conv2d_c1_k1", "dgrad_1x1_stride_2x2", "direct_group"),
    *("first_layer_wgrad_kernel", "h1688", "h884", "hmma", "i16832", "i8816", "s884", "s1688"),
    *("xmma_gemm", "xmma_implicit_gemm", "xmma_sparse_conv", "xmma_sparse_gemm"),
    "xmma_warp_specialized_implicit_gemm",
)
# NVIDIA/PyProf, pyprof/prof/tc.py; pytorch/kineto's tb_plugin took the same list over.
PYPROF = tuple(word for word in XPROF if word != "i16832")
# GindaChen/nsys-ai: an expression on the lower-case name.
NSYS_AI = re.compile(r"xmma|mma_sync|16816|1688|884|ampere_bf16|sm80_tensor_op|tensorop|flash")

RIVALS: dict[str, Callable[[str], bool]] = {
    "xprof": lambda name: any(word in name for word in XPROF),
    "PyProf, torch-tb-profiler": lambda name: any(word in name for word in PYPROF),
    "nsys-ai": lambda name: NSYS_AI.search(name.lower()) is not None,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", type=Path, default=DEFAULT_PROFILES, help="directory of profiles")
    parser.add_argument("--write", type=Path, help="page whose table is replaced")
    arguments = parser.parse_args()
    if not arguments.profiles.is_dir():
        print(f"skipped: there are no profiles at {arguments.profiles}", file=sys.stderr)
        return 0
    table = "\n".join(lines(arguments.profiles))
    print(table)
    if arguments.write is not None:
        begin, end = MARKERS
        before, _, rest = arguments.write.read_text(encoding="utf-8").partition(begin)
        after = rest.partition(end)[2]
        arguments.write.write_text(f"{before}{begin}\n\n{table}\n\n{end}{after}", encoding="utf-8")
    return 0


def lines(directory: Path) -> list[str]:
    rows = [
        "| file | " + " | ".join(RIVALS) + " | mixte | mixte: unknown |",
        "|---|" + "---|" * (len(RIVALS) + 2),
    ]
    for path in profile_files(directory):
        verdict = judge(read_profile(path))
        if verdict.shares is None:
            continue
        name = path.relative_to(directory).as_posix()
        cells = [percent(share(verdict, rule)) for rule in RIVALS.values()]
        cells += [f"**{percent(verdict.shares.tensor_core)}**", percent(verdict.shares.unknown)]
        rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return rows


def profile_files(directory: Path) -> list[Path]:
    manifest = directory / "MANIFEST.tsv"
    if manifest.is_file():
        rows = manifest.read_text(encoding="utf-8").splitlines()[1:]
        return [directory / row.partition("\t")[0] for row in rows]
    return sorted(path for path in directory.rglob("*") if path.is_file())


def share(verdict: ProfileVerdict, calls_tensor_core: Callable[[str], bool]) -> float | None:
    """A rule's share of all kernel time; None where the file names no kernels, so that a rule has nothing to read."""
    if not any(row.kernel.name for row in verdict.kernels):
        return None
    weight = sum(row.weight for row in verdict.kernels if calls_tensor_core(row.kernel.name))
    return weight / verdict.total


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.1f}"


if __name__ == "__main__":
    sys.exit(main())

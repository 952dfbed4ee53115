"""``mixte verify`` as a user runs it, on real profiles with known shares."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mixte.cli import main
from mixte.cli._verify_progress import Progress
from mixte.cli._verify_tables import kernel_table
from mixte.cli._verify_text import summary
from mixte.profiles import Kernel, Profile, judge, read_profile

if TYPE_CHECKING:
    from collections.abc import Callable

PROFILES = Path(__file__).resolve().parents[3] / "shared" / "data" / "profiles"

# The manifest reads names only. Where a file holds counters, they move time out of "unknown", as its README allows:
# in these three the Triton template and the kernel without a name are proven.
PROVEN_BY_COUNTERS = {
    "kineto/a100_alexnet_cupti_ranges.json.gz": {"tensor_core": 7.8, "cuda_core": 20.8, "unknown": 0.0},
    "handmade/ncu_h100_raw_page.csv": {"tensor_core": 45.6, "cuda_core": 51.6, "unknown": 0.0},
    "handmade/ncu_h100_tensor_metrics_bom.csv": {"tensor_core": 45.6, "cuda_core": 51.6, "unknown": 0.0},
}
# A summary of sums, without a kernel's name: it tells what used Tensor Cores, not what else was matrix work.
WITHOUT_NAMES = {"handmade/dlprof_v100_summary.csv"}
# The manifest gives percentages with one decimal.
ROUNDING = 0.0505


def manifest() -> list[dict[str, str]]:
    path = PROFILES / "MANIFEST.tsv"
    if not path.is_file():
        return [{"file": "the reference data is not here"}]
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


each_file = pytest.mark.parametrize("row", manifest(), ids=lambda row: row["file"])


def verify(*arguments: str | Path) -> int:
    return main(["verify", *map(str, arguments)])


@pytest.fixture
def profile_of(shared: Path) -> Callable[[str], Path]:
    return lambda name: shared / "data" / "profiles" / name


@each_file
def test_a_real_file_has_the_kernels_and_the_time_of_the_manifest(row: dict[str, str], shared: Path) -> None:
    profile = read_profile(shared / "data" / "profiles" / row["file"])
    assert profile.format == row["format"]
    counts = [kernel.count for kernel in profile.kernels]
    if row["kernel_launches"] != "-":
        assert sum(count or 0 for count in counts) == int(row["kernel_launches"])
    if row["kernel_time_ms"] != "-":
        assert profile.gpu_time_ns is not None
        # Tables print five significant digits, and the manifest adds such values up in another order.
        assert profile.gpu_time_ns / 1e6 == pytest.approx(float(row["kernel_time_ms"]), rel=1e-6, abs=0.000501)


@each_file
def test_the_shares_of_a_real_file_are_those_of_a_careful_reading(row: dict[str, str], shared: Path) -> None:
    shares = judge(read_profile(shared / "data" / "profiles" / row["file"])).shares
    if row["tensor_core_pct"] == "-":
        assert shares is None
        return
    assert shares is not None
    assert shares.tensor_core + shares.cuda_core + shares.unknown + shares.not_matmul == pytest.approx(
        1, abs=1e-12
    )
    expected = PROVEN_BY_COUNTERS.get(
        row["file"],
        {
            "tensor_core": float(row["tensor_core_pct"]),
            "cuda_core": float(row["cuda_core_matmul_pct"]),
            "unknown": float(row["unknown_pct"]),
        },
    )
    if row["file"] in WITHOUT_NAMES:
        del expected["cuda_core"]
    measured = {name: getattr(shares, name) * 100 for name in expected}
    assert measured == pytest.approx(expected, abs=ROUNDING)


@each_file
def test_what_counters_move_leaves_the_shares_in_the_range_that_the_readme_allows(
    row: dict[str, str], shared: Path
) -> None:
    if row["tensor_core_pct"] == "-":
        pytest.skip("no kernels in this file")
    shares = judge(read_profile(shared / "data" / "profiles" / row["file"])).shares
    assert shares is not None
    yes, unknown, no = (float(row[name]) for name in ("tensor_core_pct", "unknown_pct", "not_pct"))
    assert yes - ROUNDING <= shares.tensor_core * 100 <= yes + unknown + ROUNDING
    assert no - ROUNDING <= (shares.cuda_core + shares.not_matmul) * 100 <= no + unknown + ROUNDING


@each_file
def test_the_summary_is_readable_in_80_ascii_columns(
    row: dict[str, str], shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir((shared / "data" / "profiles" / row["file"]).parent)
    assert verify(Path(row["file"]).name, "--kernels", "--by", "op") == 0
    output = capsys.readouterr().out
    assert [line for line in output.splitlines() if len(line) > 80] == []
    assert output.isascii()


@each_file
def test_the_json_of_a_real_file_keeps_its_promises(
    row: dict[str, str], shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify("--json", shared / "data" / "profiles" / row["file"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert file["format"] == row["format"]
    kernels: list[dict[str, Any]] = file["kernels"]
    if file["shares"] is None:
        assert kernels == []
        assert file["no_kernels_reason"]
        return
    assert sum(file["shares"].values()) == pytest.approx(1, abs=1e-12)
    assert {kernel["verdict"] for kernel in kernels} <= set(file["shares"])
    assert all(kernel["reason"] for kernel in kernels)
    if file["gpu_time_ns"] is not None:
        assert sum(kernel["duration_ns"] for kernel in kernels) == file["gpu_time_ns"]
        # The share of a verdict is the time of its kernels.
        for verdict, share in file["shares"].items():
            time_ns = sum(kernel["duration_ns"] for kernel in kernels if kernel["verdict"] == verdict)
            assert share == pytest.approx(time_ns / file["gpu_time_ns"], abs=1e-12)


def test_the_h100_float32_run_is_not_on_tensor_cores(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    # Tools that look for "xmma_gemm" say 86.5 %.
    assert verify(profile_of("nsys_sqlite/h100_fp32_simt_2gpu.sqlite"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["files"][0]["shares"]["tensor_core"] == 0.0


@pytest.mark.parametrize(
    "name", ["kineto/b200_vllm_moe_fp4_fp8.json.gz", "nsys_sqlite/h100_video_dit_bf16_2gpu.sqlite"]
)
def test_modern_kernels_are_found_where_other_tools_say_zero(
    name: str, profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(profile_of(name), "--json") == 0
    share = json.loads(capsys.readouterr().out)["files"][0]["shares"]["tensor_core"]
    assert share == pytest.approx(0.6, abs=0.005)


def test_require_fails_below_the_share_and_passes_at_it(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = profile_of("kineto/h100_bert_small_bf16.json.gz")  # 76.5 %
    assert verify(path, "--require", "76%") == 0
    assert verify(path, "--require", "77%") == 3
    assert "76.5% of the time on Tensor Cores, required 77.0%" in capsys.readouterr().err


def test_require_fails_where_there_are_no_kernels(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(profile_of("kineto/a100_cpu_ops_only.json.gz"), "--require", "1%") == 3
    assert "no kernels" in capsys.readouterr().err


def test_two_files_stand_side_by_side_with_the_difference(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    first = profile_of("nsys_sqlite/h100_fp32_simt_2gpu.sqlite")
    second = profile_of("nsys_sqlite/h100_video_dit_bf16_2gpu.sqlite")
    assert verify(first, second) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Tensor Cores")]
    assert line.split() == ["Tensor", "Cores", "0.0%", "60.0%", "+60.0", "points"]


def test_a_directory_and_a_glob_stand_for_the_profiles_in_them(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = profile_of("xplane").parent / "xplane"
    assert verify(directory, "--json") == 0
    by_directory = json.loads(capsys.readouterr().out)
    assert verify(directory / "*.pb", "--json") == 0
    assert json.loads(capsys.readouterr().out) == by_directory
    assert len(by_directory["files"]) == 2


def test_a_directory_without_a_profile_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing to see")
    assert verify(tmp_path) == 2
    assert "no profile in the directory" in capsys.readouterr().err


def test_a_capped_tensorboard_trace_beside_its_xplane_file_is_not_counted_again(
    tmp_path: Path, profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    xplane = profile_of("xplane/mi300_jax_conv3d.xplane.pb")
    trace = profile_of("handmade/tf_a100.trace.json.gz")
    (tmp_path / "host.xplane.pb").write_bytes(xplane.read_bytes())
    (tmp_path / "host.trace.json.gz").write_bytes(trace.read_bytes())
    assert verify(tmp_path, "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [file["format"] for file in files] == ["xplane"]


def test_one_bad_file_in_a_directory_does_not_hide_the_others(
    tmp_path: Path, profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    good = profile_of("handmade/nsys_h100_kern_sum.csv")
    (tmp_path / "a.csv").write_bytes(good.read_bytes())
    (tmp_path / "b.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report" + bytes(64))
    assert verify(tmp_path, "--json") == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["files"]) == 1
    assert "nsys export --type sqlite" in captured.err


def test_explain_writes_verdict_reason_and_name_for_each_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify("--explain", "ampere_sgemm_128x64_nn", "nvjet_tst_64x8_64x16_4x1_v_bz_TNT", "attn_fwd") == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(verdict, name) for verdict, _, name in lines] == [
        ("cuda_core", "ampere_sgemm_128x64_nn"),
        ("tensor_core", "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"),
        ("unknown", "attn_fwd"),
    ]
    assert all(reason for _, reason, _ in lines)


def test_explain_reads_names_from_standard_input_line_by_line(shared: Path) -> None:
    csv.field_size_limit(1 << 24)
    with (shared / "data" / "kernel_names.tsv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = "".join(f"{row['name']}\n" for row in rows).encode()
    done = run("verify", "--explain", "-", stdin=names)
    assert done.returncode == 0
    lines = [line.split("\t", 2) for line in done.stdout.decode().splitlines()]
    assert [(line[0], line[2]) for line in lines] == [(row["verdict"], row["name"]) for row in rows]


def test_explain_survives_any_bytes() -> None:
    done = run("verify", "--explain", "-", stdin=b"\xff\xfe\x00 gemm\n\n\tx\r\n" + b"a" * 100_000 + b"\n")
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 4
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no profile given"),
        (["nowhere.json"], "nowhere.json does not exist"),
        (["nowhere/*.json"], "matches no file"),
        (["--explain", "-", "gemm"], "a single -"),
    ],
)
def test_wrong_arguments_are_explained_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(*arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [
        ["--require", "0%"],
        ["--require", "120%"],
        ["--require", "0.6"],
        ["--require", "most"],
        ["--steps", "20:10"],
        ["--steps", "7"],
        ["--top", "-1"],
        ["--by", "colour"],
    ],
)
def test_wrong_options_are_refused_with_what_is_allowed(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        verify("trace.json", *option)
    assert stopped.value.code == 2
    assert f"argument {option[0]}" in capsys.readouterr().err


def test_steps_choose_among_those_that_the_file_marks(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = profile_of("kineto/h100_bert_small_bf16.json.gz")
    marked = read_profile(path).steps
    assert marked
    assert verify(path, "--steps", f"{marked[0]}:{marked[-1] + 1}", "--json") == 0
    file = json.loads(capsys.readouterr().out)["files"][0]
    assert file["steps"] == {"marked": list(marked), "chosen": [marked[0], marked[-1] + 1]}
    assert verify(path, "--steps", "900:901") == 2
    assert f"holds the steps {marked[0]} to {marked[-1]}" in capsys.readouterr().err


def test_steps_of_a_file_without_marks_are_an_error(
    profile_of: Callable[[str], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(profile_of("handmade/nsys_h100_kern_sum.csv"), "--steps", "0:5") == 2
    assert "marks no steps" in capsys.readouterr().err


def test_a_name_from_a_file_cannot_command_the_terminal() -> None:
    rows = (
        Kernel(name="gemm\x1b[2J\x07_kernel", count=1, duration_ns=10, op="op\x1b[31m"),
        Kernel(name="relu_kernel", count=1, duration_ns=10, op="relu\x9b2J"),
    )
    verdict = judge(Profile(format="kineto", path=Path("t"), kernels=rows, notes=("a\x1bnote",)))
    output = "\n".join([summary(verdict), kernel_table(verdict, top=0, titled=False)])
    assert output.replace("\n", "").isprintable()


def test_kernels_that_take_no_time_have_no_shares() -> None:
    verdict = judge(
        Profile(format="kineto", path=Path("t"), kernels=(Kernel(name="x", count=1, duration_ns=0),))
    )
    assert verdict.shares is None
    assert "take no time" in summary(verdict)


def run(*arguments: str, stdin: bytes = b"", code: str | None = None) -> subprocess.CompletedProcess[bytes]:
    start = [sys.executable, "-m", "mixte"] if code is None else [sys.executable, "-c", code]
    return subprocess.run(
        [*start, *arguments], input=stdin, capture_output=True, check=False, env={**os.environ, "NO_COLOR": "1"}
    )


LIST_FRAMEWORKS = """
import sys
from mixte.cli import main
main(["verify", *sys.argv[1:]])
print("loaded:", sorted({"keras", "tensorflow", "jax", "torch"} & set(sys.modules)))
"""


def test_reading_and_deciding_load_no_framework(profile_of: Callable[[str], Path]) -> None:
    done = run(str(profile_of("kineto/h100_bert_small_bf16.json.gz")), code=LIST_FRAMEWORKS)
    assert done.stdout.splitlines()[-1] == b"loaded: []"


def test_a_framework_that_is_loaded_would_be_seen(profile_of: Callable[[str], Path]) -> None:
    done = run(str(profile_of("kineto/h100_bert_small_bf16.json.gz")), code="import jax" + LIST_FRAMEWORKS)
    assert done.stdout.splitlines()[-1] == b"loaded: ['jax']"


class SignallingStream(io.StringIO):
    """A stream that says when something was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_a_file_that_takes_long_says_how_much_of_it_is_read() -> None:
    stream = SignallingStream()
    with Progress(Path("run/trace.json"), stream=stream, quiet_s=0.0) as progress:
        progress.report(0.25)
        assert stream.written.wait(60)
    assert "trace.json" in stream.getvalue()


def test_a_file_that_is_read_at_once_says_nothing() -> None:
    stream = SignallingStream()
    with Progress(Path("trace.json"), stream=stream, quiet_s=60.0):
        pass
    assert stream.getvalue() == ""


def test_progress_ends_with_the_error_that_ends_the_reading() -> None:
    before = set(threading.enumerate())
    progress = Progress(Path("trace.json"), stream=SignallingStream(), quiet_s=60.0)
    with pytest.raises(ValueError, match="broken"), progress:
        raise ValueError("broken")
    assert set(threading.enumerate()) <= before

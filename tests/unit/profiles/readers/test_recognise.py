"""What a file is, and what is said about a file that is no profile."""

from __future__ import annotations

import gzip

import pytest

from mixte import ProfileError
from mixte.profiles import read_profile
from mixte.profiles._recognise import recognise

REFUSED = {
    "a binary report of Nsight Systems": (
        b"NVIDIA Tegra Profiler Report 2\n\x00\x01",
        "nsys export --type sqlite",
    ),
    "a binary report of Nsight Compute": (b"NVR\x00\x10\x00\x00\x00", "ncu --import"),
    "a parquet export": (b"PAR1\x15\x04", "nsys export --type sqlite"),
    "an HDF5 export": (b"\x89HDF\r\n\x1a\n", "nsys export --type sqlite"),
    "a zip archive": (b"PK\x03\x04\x14\x00", "is an archive. Unpack it"),
    "a tar archive": (bytes(257) + b"ustar\x0000", "is an archive. Unpack it"),
    "a packed tar archive": (gzip.compress(bytes(257) + b"ustar\x0000"), "is an archive. Unpack it"),
    "an empty file": (b"", "is empty."),
    "an empty gzip file": (gzip.compress(b""), "is empty."),
    "a gzip file cut off at once": (
        gzip.compress(b"abc")[:12],
        "cannot be unpacked: the gzip data ends in the middle",
    ),
    "a log": (b"epoch 1 loss 0.5\n" * 100, "is no profile that mixte reads"),
    "some JSON": (b'{"loss": [1, 2, 3]}', "is no profile that mixte reads"),
    "a trace of something else": (
        b'{"traceEvents": [{"ph": "X", "cat": "v8", "name": "gc"}]}',
        "is no profile",
    ),
    "a list of numbers": (b"[1, 2, 3]", "is no profile that mixte reads"),
    "an image": (b"\x89PNG\r\n\x1a\n" + bytes(100), "is no profile that mixte reads"),
    "brackets without end": (b"[" * 100_000, "is no profile that mixte reads"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_no_profile_is_answered_with_what_to_do(tmp_path, name):
    data, advice = REFUSED[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    assert recognise(path) is None
    with pytest.raises(ProfileError) as caught:
        read_profile(path)
    message = str(caught.value)
    assert advice in message
    assert message.startswith(str(path))
    assert "\n" not in message


def test_the_advice_names_the_file(tmp_path):
    path = tmp_path / "run.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2\n")
    with pytest.raises(
        ProfileError, match=r"nsys export --type sqlite --output report\.sqlite .*run\.nsys-rep"
    ):
        read_profile(path)


@pytest.mark.parametrize(("suffix", "advice"), [(".nsys-rep", "nsys export"), (".ncu-rep", "ncu --import")])
def test_a_binary_report_of_an_unknown_release_is_known_by_its_suffix(tmp_path, suffix, advice):
    path = tmp_path / f"run{suffix}"
    path.write_bytes(b"\x01\x02\x03\x04something else")
    with pytest.raises(ProfileError, match=advice):
        read_profile(path)


def test_a_missing_file_and_a_directory_are_refused(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(ProfileError, match="cannot be read"):
            read_profile(path)
        with pytest.raises(ProfileError, match="cannot be read"):
            recognise(path)


def test_a_file_that_may_not_be_opened_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "secret"
    path.write_bytes(b"{")

    def denied(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    with pytest.raises(ProfileError, match="cannot be read: Permission denied"):
        read_profile(path)


def test_program_output_before_a_table_does_not_hide_it(profile_of):
    output = "".join(f"step {number}: 50.00%  2.1s  \x1b[32mok\x1b[0m Time(%)\n" for number in range(5000))
    table = (
        "==7== Profiling result:\n"
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        " GPU activities:  100.00%  2.0000ms         2  1.0000ms  1.0000ms  1.0000ms  volta_sgemm_64x64_nt\n"
    )
    profile = profile_of(output + table)
    assert profile.format == "nvprof_text"
    assert profile.gpu_time_ns == 2_000_000


def test_every_format_may_be_packed(shared, tmp_path):
    folder = shared / "data" / "profiles"
    for name in (
        "handmade/nvprof_v100.nvvp",
        "handmade/nsys_h100_kern_sum.csv",
        "xplane/mi300_jax_conv3d.xplane.pb",
    ):
        plain = read_profile(folder / name)
        packed = tmp_path / "packed.gz"
        packed.write_bytes(gzip.compress((folder / name).read_bytes()))
        assert read_profile(packed).kernels == plain.kernels


def test_text_in_any_encoding_gives_the_same_kernels(shared, tmp_path):
    folder = shared / "data" / "profiles" / "handmade"
    for name in (
        *(
            "nvprof_v100_amp_mixed_output.txt",
            "nvprof_t4_summary_bom.csv",
            "nsys_rtx2080_comma_locale_nbsp.txt",
        ),
        *("ncu_h100_tensor_metrics_bom.csv", "torch_table_a100_bf16.txt", "nsys_a100_amp_console.txt"),
    ):
        plain = read_profile(folder / name)
        text = (folder / name).read_text(encoding="utf-8-sig")
        for encoding, newline in (("utf-16", "\r\n"), ("utf-16-be", "\n"), ("utf-8-sig", "\r\n")):
            path = tmp_path / "encoded"
            path.write_bytes(text.replace("\n", newline).encode(encoding))
            assert read_profile(path).kernels == plain.kernels, (name, encoding)


def test_progress_is_told_for_every_kind_of_file(shared):
    folder = shared / "data" / "profiles"
    for name in (
        *("kineto/v100_dlrm_fp32.json", "nsys_sqlite/rtx3080_two_kernels.sqlite", "handmade/nvprof_v100.nvvp"),
        *("xplane/mi300_jax_conv3d.xplane.pb", "rocprof/mi300x_pmc_perf.csv"),
    ):
        fractions: list[float] = []
        read_profile(folder / name, progress=fractions.append)
        assert fractions, name
        assert all(0 <= fraction <= 1 for fraction in fractions), name

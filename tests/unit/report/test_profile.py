"""The rows of the summary that tell of a profile."""

from __future__ import annotations

from mixte.records import CapturedProfile, CpuTime, KernelShares, LayerTime, StepRange
from mixte.report._profile import profile_rows

ASKED = StepRange(first=10, end=20)


def rows(**fields: object) -> list[tuple[str, str]]:
    return [*profile_rows(CapturedProfile(asked=ASKED, **fields))]  # type: ignore[arg-type]


def test_no_profile_gives_the_reason_alone() -> None:
    assert rows(problem="none: the script never imported Keras.") == [
        ("profile", "none: the script never imported Keras.")
    ]


def test_kernels_give_the_shares_of_their_time_and_of_the_matrix_work() -> None:
    shares = KernelShares(tensor_core=0.6, cuda_core=0.15, unknown=0.0, not_matmul=0.25)
    assert rows(steps=ASKED, device="Tesla T4", gpu_time_ns=12_300_000, shares=shares) == [
        ("profile", "steps 10 to 19 on Tesla T4, 12.3 ms of GPU kernel time"),
        (
            "tensor cores",
            (
                "60.0% of the kernel time; 15.0% is matrix work without them, 0.0% unknown, 25.0% no matrix work. Of "
                "the matrix work 80.0%"
            ),
        ),
    ]


def test_unknown_kernels_make_the_share_of_the_matrix_work_a_lower_limit() -> None:
    shares = KernelShares(tensor_core=0.2, cuda_core=0.0, unknown=0.3, not_matmul=0.5)
    assert rows(steps=ASKED, shares=shares)[1][1].endswith("Of the matrix work 40.0% for certain")


def test_kernels_without_matrix_work_have_no_share_of_it() -> None:
    shares = KernelShares(tensor_core=0.0, cuda_core=0.0, unknown=0.0, not_matmul=1.0)
    assert rows(steps=ASKED, shares=shares)[1][1].endswith("100.0% no matrix work")


def test_a_profile_of_the_cpu_gives_the_layers_with_the_most_matrix_work() -> None:
    layers = tuple(LayerTime(layer=f"dense_{index}", share=0.1 - index / 100) for index in range(7))
    cpu = CpuTime(time_ns=1000, matrix=0.49, unknown=0.2, layers=layers)
    steps = StepRange(first=7, end=8)
    assert rows(steps=steps, no_kernels_reason="the file holds none", cpu=cpu, problem="Not all.") == [
        ("profile", "step 7; nothing ran on a GPU, so Tensor Cores had no part"),
        (
            "matrix work",
            (
                "49.0%, at most 69.0% of the CPU's time in operations: dense_0 10.0%, dense_1 9.0%, dense_2 8.0%, "
                "dense_3 7.0%, dense_4 6.0%, 2 more 9.0%"
            ),
        ),
        ("", "Not all."),
    ]


def test_a_profile_that_names_no_layer_says_so() -> None:
    cpu = CpuTime(time_ns=1000, matrix=0.5, unknown=0.0, layers=(LayerTime(layer=None, share=0.5),))
    assert rows(steps=ASKED, no_kernels_reason="the file holds none", cpu=cpu)[1] == (
        "matrix work",
        "50.0% of the CPU's time in operations; the profile does not tell of which layers",
    )

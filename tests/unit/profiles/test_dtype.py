"""One spelling for data types."""

from __future__ import annotations

import pytest

from mixte.profiles._dtype import spell


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("float", "float32"),
        ("double", "float64"),
        ("c10::Half", "float16"),
        ("c10::BFloat16", "bfloat16"),
        ("__nv_bfloat16", "bfloat16"),
        ("DT_HALF", "float16"),
        ("bf16", "bfloat16"),
        ("f8e4m3fn", "float8_e4m3fn"),
        ("torch.float8_e5m2", "float8_e5m2"),
        ("signed char", "int8"),
        ("long int", "int64"),
        ("const float *", "float32"),
        ("tf32", "tf32"),
        ("pred", "bool"),
    ],
)
def test_spellings_of_profilers_and_frameworks_are_known(text: str, dtype: str) -> None:
    assert spell(text) == dtype


@pytest.mark.parametrize("text", ["", "Scalar", "TensorList", "ScalarList", "nonsense"])
def test_what_is_no_data_type_is_none(text: str) -> None:
    assert spell(text) is None

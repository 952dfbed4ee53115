"""The examples of the page on limits show what they claim: each ends in its own assertions."""

import re
import warnings
from pathlib import Path

import pytest

from mixte.keras._framework import BACKEND

PAGE = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
BACKENDS = {
    "every backend": ("tensorflow", "jax", "torch"),
    "TensorFlow": ("tensorflow",),
    "JAX": ("jax",),
    "PyTorch": ("torch",),
}
EXAMPLES = re.findall(r"\n### ([^\n]+)\n(?:(?!\n###).)*?```python\n# ([^\n]+)\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_is_found():
    assert len(EXAMPLES) == PAGE.count("```python") > 0


@pytest.mark.parametrize(
    ("backends", "example"), [each[1:] for each in EXAMPLES], ids=[each[0] for each in EXAMPLES]
)
def test_an_example_shows_what_it_claims(backends, example):
    if BACKEND not in BACKENDS[backends]:
        pytest.skip(f"an example for {backends}")
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", "overflow", RuntimeWarning
        )  # numpy's own, of what is shown to overflow
        exec(compile(example, "docs/limits.md", "exec"), {"__name__": "example"})  # noqa: S102 - our own page

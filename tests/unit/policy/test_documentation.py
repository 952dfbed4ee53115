"""The page on policies is true: its examples run, and its table of safe defaults names them all."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mixte import PolicyError
from mixte.policy import ByActivation, ByClass, LayerDescription, Policy, Precision, parse_policy

PAGE = (Path(__file__).parents[3] / "docs" / "how-it-works" / "policies.md").read_text(encoding="utf-8")


def block(language):
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return found


def test_the_example_in_python_runs():
    names = {}
    exec(block("python"), names)  # noqa: S102 - our own page
    softmax = LayerDescription(path="head/softmax", class_names=("Softmax", "Layer"))
    assert names["policy"].decide(softmax).precision == Precision.mixed_float16


def test_the_example_of_a_file_is_read_and_its_misspelled_key_gives_the_error_shown():
    policy = parse_policy(block("toml"))
    assert (policy.name, len(policy.rules)) == ("resnet50", 2)
    with pytest.raises(PolicyError) as caught:
        parse_policy(block("toml").replace("precision", "precison", 1))
    shown = " ".join(block("text").split())
    assert str(caught.value) == shown


@pytest.mark.parametrize("preset", Precision)
def test_every_class_and_activation_of_the_safe_defaults_is_on_the_page(preset):
    page = PAGE.replace("AveragePooling1D/2D/3D", "AveragePooling1D AveragePooling2D AveragePooling3D")
    page = page.replace("image preprocessing", "BaseImagePreprocessingLayer")
    for rule in Policy.named(preset).safeguards:
        if isinstance(rule.select, ByClass | ByActivation):
            assert rule.select.name in page

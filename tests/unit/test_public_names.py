"""The public surface of ``mixte``: frozen here, so that a change of it is a decision."""

import pytest

import mixte

ERRORS = [
    "InputError",
    "LossScaleError",
    "MissingFrameworkError",
    "MixteError",
    "MixteWarning",
    "PolicyError",
    "ProfileError",
    "RecordError",
]
NAMES = ["ByActivation", "ByClass", "ByPath", "ByPredicate", "Outputs", "Policy", "Precision", "Rule"]
LAWS = ["DynamicScale", "FixedScale"]
PACKAGES = [
    "compare",
    "devices",
    "formats",
    "keras",
    "policy",
    "profiles",
    "records",
    "report",
    "scaling",
    "tensorcore",
    "tensorflow",
]


def test_public_names_are_these():
    assert set(dir(mixte)) == {"__version__", *ERRORS, *NAMES, *LAWS, *PACKAGES}


@pytest.mark.parametrize("name", [*ERRORS, *NAMES, *LAWS])
def test_every_public_name_can_be_had(name):
    assert getattr(mixte, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Polcy'"):
        _ = mixte.Polcy

from __future__ import annotations

import pytest

from mixte import PolicyError
from mixte.policy import PRESET_NAMES, LayerDescription, Policy, Precision, load_policy

SOFTMAX = LayerDescription(path="probabilities", class_names=("Softmax", "Layer"))


@pytest.mark.parametrize("name", [name for name in PRESET_NAMES if name != "auto"])
def test_a_preset_has_its_name_and_its_default(name):
    policy = Policy.named(name)
    assert (policy.name, policy.default) == (name, Precision.named(name))
    assert policy.rules == ()


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_presets_that_compute_in_32_bits_or_more_need_no_safeguards(name):
    assert Policy.named(name).safeguards == ()


@pytest.mark.parametrize("name", ["mixed_float16", "mixed_bfloat16", "float16", "bfloat16"])
def test_presets_that_compute_in_16_bits_keep_softmax_in_float32(name):
    assert Policy.named(name).decide(SOFTMAX).precision == Precision.float32


def test_mixed_is_the_preset_of_that_dtype():
    assert Policy.mixed("float16") == Policy.named("mixed_float16")
    assert Policy.mixed("bfloat16") == Policy.named("mixed_bfloat16")


@pytest.mark.parametrize("dtype", ["float32", "mixed_float16", "half"])
def test_mixed_refuses_a_dtype_that_has_not_16_bits(dtype):
    with pytest.raises(PolicyError, match=f"'{dtype}'.*'float16' and 'bfloat16'"):
        Policy.mixed(dtype)


def test_an_unknown_preset_suggests_the_nearest():
    with pytest.raises(
        PolicyError, match=r"no policy is called 'mixed-float16'\. Did you mean 'mixed_float16'"
    ):
        Policy.named("mixed-float16")


@pytest.mark.parametrize("as_function", [False, True])
def test_auto_takes_the_recommendation_and_carries_its_reason(as_function):
    answer = ("mixed_bfloat16", "compute capability 8.0 has bfloat16 Tensor Cores")
    policy = Policy.named("auto", recommendation=(lambda: answer) if as_function else answer)
    assert policy.safeguards == Policy.named("mixed_bfloat16").safeguards
    plain = LayerDescription(path="dense", class_names=("Dense",))
    decision = policy.decide(plain)
    assert decision.precision == Precision.mixed_bfloat16
    assert decision.reason == "auto chose mixed_bfloat16: compute capability 8.0 has bfloat16 Tensor Cores"


def test_auto_without_a_recommendation_says_what_to_pass():
    with pytest.raises(PolicyError, match=r"recommendation=mixte\.devices\.recommend_precision"):
        Policy.named("auto")


@pytest.mark.parametrize("chosen", ["auto", "mixed_float8"])
def test_auto_refuses_a_recommendation_that_is_no_preset(chosen):
    with pytest.raises(PolicyError, match=f"the recommendation for policy 'auto' is '{chosen}'"):
        Policy.named("auto", recommendation=(chosen, "why not"))


# What a command line accepts.


def test_load_takes_a_presets_name():
    assert load_policy("mixed_float16") == Policy.named("mixed_float16")
    assert load_policy("auto", recommendation=("float32", "no GPU")).default == Precision.float32


def test_load_takes_a_file_by_its_suffix_or_because_it_exists(tmp_path, monkeypatch):
    text = 'schema = 1\ndefault = "bfloat16"\n'
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "plain").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert load_policy("mine.toml").name == "mine"
    assert load_policy("plain").default == Precision.bfloat16
    assert load_policy(str(tmp_path / "mine.toml")).default == Precision.bfloat16


def test_load_prefers_the_preset_to_a_file_of_its_name(tmp_path, monkeypatch):
    (tmp_path / "float32").write_text('schema = 1\ndefault = "bfloat16"\n')
    monkeypatch.chdir(tmp_path)
    assert load_policy("float32").default == Precision.float32
    assert load_policy("./float32").default == Precision.bfloat16


def test_load_of_an_unknown_name_suggests_the_nearest_and_says_that_there_is_no_file():
    with pytest.raises(
        PolicyError, match=r"'mixd_float16', and there is no file.*Did you mean 'mixed_float16'"
    ):
        load_policy("mixd_float16")


@pytest.mark.parametrize("text", ["policies/missing", "missing.toml"])
def test_load_of_a_missing_file_names_it(text):
    with pytest.raises(PolicyError, match=text):
        load_policy(text)


def test_load_of_nothing_is_refused():
    with pytest.raises(PolicyError, match="no policy is called ''"):
        load_policy("")

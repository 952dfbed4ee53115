from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from mixte import InputError
from mixte.scaling import (
    PRESETS,
    ContribScale,
    DynamicScale,
    FixedScale,
    HysteresisScale,
    LogMaxScale,
    LossScaleLaw,
    Observation,
    ProGanScale,
    ScaleState,
    UnderflowScale,
    format_law,
    law_from_config,
    law_to_config,
    parse_law,
)

LAW_CLASSES = [
    ContribScale,
    DynamicScale,
    FixedScale,
    HysteresisScale,
    LogMaxScale,
    ProGanScale,
    UnderflowScale,
]

# A value for every field of every law that differs from its default.
OTHER = {
    "scale": 3.5,
    "initial_scale": 1000.1,
    "growth_factor": 3.3,
    "backoff_factor": 0.123456789,
    "growth_interval": 77,
    "growth_delay": 5,
    "bad_steps_per_backoff": 9,
    "hysteresis": 6,
    "refill_on": "growth",
    "increment": 0.001,
    "decrement": 2.5,
    "log_max": 15.9993,
    "mean_decay": 0.9,
    "variance_decay": 0.95,
    "quantile": 2.33,
    "variant": "relative",
    "retry_interval": 123,
    "tolerated_underflow": 0.05,
    "headroom_bits": 1.5,
    "min_scale": 2.0**-3,
    "max_scale": 2.0**20 + 0.5,
}


def test_every_preset_is_a_law_of_that_name() -> None:
    for name, law in PRESETS.items():
        assert parse_law(name) is law


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("none", FixedScale(1.0)),
        ("fixed", FixedScale()),
        ("fixed:128", FixedScale(128)),
        ("fixed:scale=64", FixedScale(64)),
        ("dynamic", DynamicScale()),
        ("dynamic:initial=65536,growth_interval=1000", DynamicScale(65536, growth_interval=1000)),
        ("dynamic:1024,min=2,max=2048", DynamicScale(1024, min_scale=2, max_scale=2048)),
        (" dynamic : initial_scale = 2^10 , min = 2**-3 ", DynamicScale(1024, min_scale=0.125)),
        ("exponential:backoff_factor=0.5", ContribScale(backoff_factor=0.5)),
        ("hysteresis:refill_on=growth", HysteresisScale(refill_on="growth")),
        ("log2", ProGanScale()),
        ("logmax:variant=relative", LogMaxScale(variant="relative")),
        ("underflow:tolerated_underflow=1e-3", UnderflowScale(tolerated_underflow=1e-3)),
        ("torch:growth_interval=10", replace(PRESETS["torch"], growth_interval=10)),
    ],
)
def test_text_names_the_law(text: str, law: LossScaleLaw) -> None:
    assert parse_law(text) == law


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("dynamc", "Did you mean 'dynamic'"),
        ("deepsped", "Did you mean 'deepspeed'"),
        ("", "unknown loss-scaling law ''"),
        ("dynamic:grow_interval=3", "Did you mean 'growth_interval'"),
        ("dynamic:", "name=value"),
        ("dynamic:growth_interval=3,128", "'128' is not a parameter"),
        ("dynamic:128,initial=64", "initial_scale is given twice"),
        ("dynamic:growth_interval=1.5", "must be a whole number"),
        ("dynamic:initial=high", "must be a number"),
        ("fixed:0", "scale is 0.0"),
        ("fixed:-3", "scale is -3.0"),
        ("fixed:nan", "scale is nan"),
        ("fixed:1e60", "scale is 1e\\+60"),
        ("none:2", "takes no parameters"),
        ("logmax:variant=best", "'corrected', 'published', 'relative'"),
    ],
)
def test_wrong_text_is_refused_with_advice(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_law(text)


@pytest.mark.parametrize("law_class", LAW_CLASSES)
def test_every_field_survives_text_config_and_json(law_class: type[LossScaleLaw]) -> None:
    default = law_class(16.0)  # within the bounds of OTHER
    for field in fields(law_class):
        law = replace(default, **{field.name: OTHER[field.name]})
        assert law != default
        assert parse_law(format_law(law)) == law
        assert law_from_config(law_to_config(law)) == law
        assert law_from_config(json.loads(json.dumps(law_to_config(law)))) == law
        assert law_to_config(law).keys() == {"law", *(each.name for each in fields(law_class))}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_text_and_config(name: str) -> None:
    law = PRESETS[name]
    assert parse_law(format_law(law)) == law
    assert law_from_config(law_to_config(law)) == law


@pytest.mark.parametrize(
    ("law", "text"),
    [
        (FixedScale(), "fixed:128"),
        (DynamicScale(), "dynamic"),
        (DynamicScale(65536, growth_interval=1000), "dynamic:initial_scale=65536,growth_interval=1000"),
        (DynamicScale(min_scale=2.0**-126), "dynamic:min_scale=2^-126"),
        (ContribScale(backoff_factor=0.5), "exponential:backoff_factor=0.5"),
    ],
)
def test_law_is_written_by_what_is_not_default(law: LossScaleLaw, text: str) -> None:
    assert format_law(law) == text


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "law None"),
        ({"law": "dynamics"}, "Did you mean 'dynamic'"),
        ({"law": "dynamic", "growth_intervall": 3}, "Did you mean 'growth_interval'"),
        ({"law": "dynamic", "growth_interval": "3"}, "growth_interval is '3'"),
    ],
)
def test_wrong_config_is_refused_with_advice(config: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        law_from_config(config)


def test_law_from_elsewhere_has_no_config() -> None:
    class Foreign(LossScaleLaw):
        def initial_state(self) -> ScaleState:
            return {}

        def next(self, state: ScaleState, observation: Observation, ops: object = None) -> ScaleState:
            return state

    with pytest.raises(InputError, match="Foreign is not a loss-scaling law of mixte"):
        law_to_config(Foreign())

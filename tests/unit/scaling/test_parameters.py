from __future__ import annotations

import numpy as np
import pytest

from mixte import InputError
from mixte.scaling import (
    ContribScale,
    DynamicScale,
    FixedScale,
    HysteresisScale,
    LogMaxScale,
    LossScaleLaw,
    ProGanScale,
    UnderflowScale,
)


@pytest.mark.parametrize(
    ("law_class", "parameters", "said"),
    [
        (FixedScale, {"scale": 0}, "FixedScale: scale is 0"),
        (FixedScale, {"scale": "128"}, "scale is '128'"),
        (FixedScale, {"scale": True}, "scale is True"),
        (FixedScale, {"scale": float("inf")}, "scale is inf"),
        (FixedScale, {"scale": 2.0**-130}, "at least 1.17549e-38"),
        (DynamicScale, {"growth_factor": 1.0}, "growth_factor is 1.0.* above 1"),
        (DynamicScale, {"backoff_factor": 1.0}, "backoff_factor is 1.0.* below 1"),
        (DynamicScale, {"backoff_factor": 0.0}, "backoff_factor is 0.0"),
        (DynamicScale, {"growth_interval": 0}, "growth_interval is 0.* at least 1"),
        (DynamicScale, {"growth_interval": 2.0}, "growth_interval is 2.0.* whole number"),
        (DynamicScale, {"growth_interval": 2**31}, "below 2"),
        (DynamicScale, {"initial_scale": 2.0**30}, "initial_scale is .* max_scale is .* must lie between"),
        (DynamicScale, {"min_scale": 8.0, "max_scale": 4.0, "initial_scale": 6.0}, "must lie between"),
        (ContribScale, {"bad_steps_per_backoff": 0}, "bad_steps_per_backoff is 0"),
        (HysteresisScale, {"hysteresis": 0}, "hysteresis is 0"),
        (HysteresisScale, {"growth_delay": -1}, "growth_delay is -1.* at least 0"),
        (HysteresisScale, {"refill_on": "never"}, "'clean_step', 'growth'"),
        (ProGanScale, {"increment": 0.0}, "increment is 0.0"),
        (ProGanScale, {"decrement": -1.0}, "decrement is -1.0"),
        (LogMaxScale, {"mean_decay": 1.0}, "mean_decay is 1.0"),
        (LogMaxScale, {"quantile": -1.0}, "quantile is -1.0"),
        (LogMaxScale, {"variant": "best"}, "'corrected', 'published', 'relative'"),
        (UnderflowScale, {"tolerated_underflow": 1.0}, "tolerated_underflow is 1.0"),
        (UnderflowScale, {"headroom_bits": 16.0}, "headroom_bits is 16.0"),
    ],
)
def test_wrong_parameter_is_refused_naming_law_value_and_range(
    law_class: type[LossScaleLaw], parameters: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        law_class(**parameters)


def test_numbers_of_any_kind_become_plain_ones() -> None:
    law = DynamicScale(np.float32(1024), growth_interval=np.int64(10), growth_factor=4)
    assert law == DynamicScale(1024.0, growth_interval=10, growth_factor=4.0)
    assert [type(value) for value in (law.initial_scale, law.growth_interval, law.growth_factor)] == [
        float,
        int,
        float,
    ]


def test_first_argument_is_the_scale_and_the_others_need_their_name() -> None:
    assert FixedScale(64).scale == 64.0
    assert DynamicScale(64).initial_scale == 64.0
    with pytest.raises(TypeError):
        DynamicScale(64, 2.0)

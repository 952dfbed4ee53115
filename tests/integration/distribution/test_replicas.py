"""Two replicas train as one does on the same global batch, though only one of them ever overflows."""

import numpy as np
import pytest

from .conftest import BACKENDS, POLICIES
from .problem import BATCH, OVERFLOWS, STEPS

# Two replicas add the same numbers in another order. A sum of BATCH products rounds at most BATCH times, each time by
# a relative half unit in the last place, of float32 or of what the layers compute in; over all steps the differences
# add up, and the loss, which is a square, doubles them. Momentum of 0.5 doubles them once more.
ULP = {"float32": 2.0**-24, "mixed_float16": 2.0**-11}
TOLERANCE = {"float32": 4 * STEPS * BATCH * ULP["float32"], "mixed_float16": 4 * STEPS * ULP["mixed_float16"]}

STATE = ("counters", "history", "scale")


def expected_history():
    """The scale's changes by the law's definition: doubled after two clean steps, halved by an overflow."""
    scale, clean, changes = 32768.0, 0, []
    for step in range(STEPS):
        before = scale
        clean = 0 if step in OVERFLOWS else clean + 1
        if step in OVERFLOWS:
            scale /= 2
        elif clean == 2:
            scale, clean = scale * 2, 0
        if scale != before:
            changes.append([step + 1, scale])
    return changes


# In each run of the tests two ways in float16; the others, which take minutes of processes, by themselves.
OFTEN = ("mirrored", "ddp")
WAYS = [pytest.param(way, marks=[] if way in OFTEN else pytest.mark.slow) for way in BACKENDS]


@pytest.mark.parametrize(
    "policy", [pytest.param(each, marks=pytest.mark.slow if each == "float32" else []) for each in POLICIES]
)
@pytest.mark.parametrize("way", WAYS)
class TestLibrary:
    def test_D1_an_overflow_on_one_replica_skips_the_step_on_all(self, trainings, way, policy):
        for result in trainings.by_library(way, policy):
            assert result["counters"]["skipped"] == len(OVERFLOWS)
            assert result["counters"]["applied"] == STEPS - len(OVERFLOWS)
            assert result["history"] == expected_history()

    def test_two_replicas_train_as_one(self, trainings, way, policy):
        alone = trainings.alone(BACKENDS[way], policy)
        for result in trainings.by_library(way, policy):
            np.testing.assert_allclose(result["losses"], alone["losses"], rtol=TOLERANCE[policy])
            assert {key: result[key] for key in STATE} == {key: alone[key] for key in STATE}

    def test_the_processes_end_equal_to_the_last_bit(self, trainings, way, policy):
        first, *others = trainings.by_library(way, policy)
        assert all(other == first for other in others)
        assert np.isfinite(np.concatenate([np.ravel(weight) for weight in first["weights"]])).all()


@pytest.mark.slow
@pytest.mark.parametrize("way", BACKENDS)
def test_mixte_run_trains_an_unchanged_script_on_two_replicas_as_on_one(trainings, way):
    alone = trainings.alone(BACKENDS[way], "mixed_float16")
    first, *others = trainings.by_run(way)
    np.testing.assert_allclose(first["losses"], alone["losses"], rtol=TOLERANCE["mixed_float16"])
    assert {key: first[key] for key in STATE} == {key: alone[key] for key in STATE}
    assert all(other == first for other in others)

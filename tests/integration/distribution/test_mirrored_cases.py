"""Every way to update trains on two mirrored replicas as on one."""

import json

import numpy as np
import pytest

from .conftest import HERE, execute, must_succeed
from .problem import OVERFLOWS
from .test_replicas import TOLERANCE

CASES = [
    "a compiled loop",
    "an eager loop",
    "clipping by the optimizer",
    "clipping by hand",
    "two optimizers",
    "a scaler for each loss",
    "a moving average",
    "sparse gradients",
    "a law of the largest gradient",
    "a law of the underflow",
]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    script = str(HERE / "tensorflow_cases.py")
    paths = [folder / "one", folder / "two"]
    must_succeed(execute(folder, [([script, str(n), str(path)], {}) for n, path in enumerate(paths, 1)]))
    return [json.loads(path.read_text()) for path in paths]


@pytest.fixture
def cases(results):
    return [each["cases"] for each in results]


def test_each_case_is_tested(results):
    assert [list(each["cases"]) for each in results] == [CASES, CASES]


@pytest.mark.parametrize("case", CASES)
def test_two_replicas_train_as_one(cases, case):
    one, two = (each[case] for each in cases)
    np.testing.assert_allclose(two["losses"], one["losses"], rtol=TOLERANCE["float32"])
    assert two["counters"] == one["counters"]
    assert two["counters"]["skipped"] == len(OVERFLOWS)
    assert two["history"] == one["history"]


@pytest.mark.parametrize("case", CASES)
def test_the_copies_of_a_weight_stay_equal_to_the_last_bit(cases, case):
    for first, second in cases[1][case]["weights"]:
        assert first == second


def test_a_loss_that_is_not_finite_on_one_replica_is_the_cause_on_all(cases):
    assert cases[1]["sparse gradients"]["counters"]["skipped_loss"] == len(OVERFLOWS)


def test_an_optimizer_made_outside_of_the_strategy_is_refused_with_the_remedy(results):
    one, two = (each["refusal"] for each in results)
    assert one is None
    assert "with strategy.scope():" in two
    assert "2 replicas" in two

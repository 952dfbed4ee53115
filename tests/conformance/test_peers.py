"""The defects of other libraries for mixed precision, by their ids: that mixte does not share them.

What each of them does wrongly is said at its test; where the library is at hand, PyTorch's, a test shows it.
"""

import re
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte import InputError, Policy, PolicyError
from mixte.devices import POLICIES, PRECISIONS, find_device, judge, known_devices
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale, FixedScale, StopRule

from .policy_models import layers_of
from .steps import EAGER_AND_FASTEST, MODES, Steps, host

only_jax = pytest.mark.skipif(BACKEND != "jax", reason="about what JAX's transformations do to a state")
only_torch = pytest.mark.skipif(BACKEND != "torch", reason="about PyTorch's own GradScaler")
modes = pytest.mark.parametrize("mode", EAGER_AND_FASTEST)
compiled = pytest.mark.parametrize("mode", MODES[-1:])


def one_weight(optimizer, mode="eager", value=1.0):
    return Steps(optimizer, [keras.Variable(np.array([value], "float32"))], mode)


def gradient(value):
    return np.array([value], "float32")


@modes
def test_P1_gradients_are_divided_by_the_scale_that_multiplied_them_also_where_it_grows(mode):
    """mpx divides by the scale that has grown already: from 16, for p**2 at 1, it gives 2, 1, 2, 1."""
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicScale(16.0, growth_interval=2))
    steps = one_weight(optimizer, mode, value=10.0)
    weights = []
    for _ in range(6):
        assert steps.step(gradient(2.0))
        weights.append(steps.values()[0].item())

    assert weights == [8.0, 6.0, 4.0, 2.0, 0.0, -2.0]
    assert optimizer.read_state().scale == 128.0, "it grew three times"


@only_jax
def test_P1_the_value_of_the_loss_is_true_where_the_scale_grows():
    """The values that mpx returns for the same are 1, 0.5, 1, 0.5."""
    import jax

    weight = keras.Variable(gradient(1.0))
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.0), DynamicScale(16.0, growth_interval=2))
    optimizer.build([weight])

    @jax.jit
    def step(values, state):
        return mk.stateless_minimize(optimizer, lambda v: ops.sum(ops.square(v[0])), values, state)

    values, state, losses = [weight.value], [each.value for each in optimizer.variables], []
    for _ in range(4):
        loss, values, state, _ = step(values, state)
        losses.append(float(loss))

    assert losses == [1.0] * 4


@pytest.mark.parametrize("name", ["bfloat16", "mixed_bfloat16", "float16", "mixed_float16"])
def test_P2_the_name_of_a_precision_is_what_layers_compute_in(name):
    """mpx takes "bfloat16" as a string, and stays in float16."""
    with mk.use(name):
        model = keras.Sequential(
            [layers.Input((2,)), layers.Dense(2, name="hidden"), layers.Dense(1, name="out")]
        )

    hidden = layers_of(model)["hidden"]
    assert hidden.compute_dtype == name.removeprefix("mixed_")
    assert keras.backend.standardize_dtype(hidden(np.ones((1, 2), "float32")).dtype) == hidden.compute_dtype


def test_P2_a_precision_that_there_is_none_of_is_refused():
    with pytest.raises(PolicyError, match="bfloat16"):
        Policy.named("bfloat-16")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_P3_the_scale_is_never_rounded_to_float16(dtype):
    """mpx casts the scale to float16: 2**17 becomes infinite there, and 1000.5 a whole number."""
    for scale in (2.0**17, 1000.5):
        optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), FixedScale(scale))

        scaled = optimizer.scale_loss(ops.cast(1.0, dtype))

        assert keras.backend.standardize_dtype(scaled.dtype) == "float32"
        assert host(scaled) == scale


@modes
def test_P4_the_smallest_scale_is_kept_in_compiled_code(mode):
    """jmp forgets its min_loss_scale in jit: it is not among what it flattens itself into."""
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicScale(2.0**-8, min_scale=2.0**-10))
    steps = one_weight(optimizer, mode)
    scales = []
    for _ in range(4):
        assert not steps.step(gradient(np.inf))
        scales.append(optimizer.read_state().scale)

    assert scales == [2.0**-9, 2.0**-10, 2.0**-10, 2.0**-10]


@only_jax
def test_P4_a_law_is_one_value_to_a_compiled_function_and_its_bounds_are_part_of_it():
    import jax

    law = DynamicScale(2.0**-8, min_scale=2.0**-10)
    smallest = jax.jit(lambda law: law.min_scale, static_argnums=0)

    assert smallest(law) == 2.0**-10
    assert smallest(DynamicScale(2.0**-8, min_scale=2.0**-9)) == 2.0**-9
    assert jax.tree.leaves(law) == [law], "JAX does not take it apart"


@compiled
def test_P5_a_scale_that_was_given_in_float16_scales(mode):
    """jmp documents DynamicLossScale(float16(...)), which is a TypeError at its first update."""
    law = DynamicScale(np.float16(1024.0), growth_interval=np.int64(2))
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5), law)
    steps = one_weight(optimizer, mode)

    assert [steps.step(gradient(value)) for value in (1.0, np.inf, 1.0)] == [True, False, True]
    assert steps.values()[0] == 0.0
    assert law == DynamicScale(1024.0, growth_interval=2)


def test_P5_what_is_no_number_is_refused_when_the_law_is_made():
    with pytest.raises(InputError, match="initial_scale"):
        DynamicScale(ops.convert_to_tensor(1024.0))


@modes
def test_P6_no_number_of_bad_updates_in_a_row_makes_one_applied(mode):
    """Optax's apply_if_finite applies the update after max_consecutive_errors."""
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.5, momentum=0.5), DynamicScale(4.0))
    steps = one_weight(optimizer, mode)
    patience = StopRule().after

    assert not any(steps.step(gradient(np.nan)) for _ in range(patience + 10))

    assert steps.values()[0] == 1.0
    assert steps.step(gradient(1.0))
    assert steps.values()[0] == 0.5, "the momentum holds nothing of the bad ones"


INNER = {
    "AdamW": lambda: keras.optimizers.AdamW(0.5, weight_decay=0.25),
    "SGD": lambda: keras.optimizers.SGD(0.5),
    "Lion": lambda: keras.optimizers.Lion(0.5),
}


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER.keys())
@compiled
def test_P7_a_step_is_said_to_be_applied_if_the_weights_changed(mode, inner):
    """accelerate says that no step was skipped with a fused AdamW."""
    optimizer = mk.LossScaleOptimizer(inner(), DynamicScale(4.0, growth_interval=2))
    steps = one_weight(optimizer, mode)
    said, changed = [], []
    for value in (1.0, np.inf, 1.0, np.nan, 1.0, 1.0):
        before = steps.values()[0]
        said.append(steps.step(gradient(value)))
        changed.append(not np.array_equal(before, steps.values()[0]))

    assert said == changed == [True, False, True, False, True, True]
    assert optimizer.read_state().counters["skipped"] == 2


def test_P8_every_precision_has_a_verdict_with_a_reason_on_every_device():
    """TransformerEngine's check of recipes has no branch for NVFP4: it answers nothing."""
    for device in known_devices():
        judged = judge(device)

        assert tuple(each.subject for each in judged) == (*PRECISIONS, *POLICIES), device.name
        assert all(each.reason for each in judged), device.name


def test_P8_a_format_that_no_policy_trains_in_is_refused():
    assert find_device("B200").name

    with pytest.raises(PolicyError, match="nvfp4"):
        Policy.named("nvfp4")


@only_torch
def test_P9_the_scaler_of_pytorch_comes_to_zero_and_then_writes_nan_weights():
    import torch

    weight = torch.ones(1, requires_grad=True)
    inner = torch.optim.SGD([weight], 1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**-148)
    for value in (np.inf, np.inf, np.inf, 0.0):
        scaler.scale(torch.ones(()))  # which makes the scale
        weight.grad = torch.tensor([value])
        assert scaler.step(inner) is None, "it does not say whether it applied"
        scaler.update()

    assert torch.isnan(weight).all()


@compiled
def test_P9_the_scale_stops_above_zero_and_each_step_says_whether_it_was_applied(mode):
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), DynamicScale(2.0**-120, min_scale=2.0**-126))
    steps = one_weight(optimizer, mode)

    assert [steps.step(gradient(np.inf)) for _ in range(10)] == [False] * 10
    assert optimizer.read_state().scale == 2.0**-126
    assert steps.step(gradient(0.0))
    assert steps.values()[0] == 1.0


IDS = (
    *(f"D{number}" for number in range(1, 22)),
    *(f"L{number}" for number in range(1, 15)),
    "L13b",
    *(f"P{number}" for number in range(1, 10)),
)

ROOT = Path(__file__).parents[2]


def test_P10_every_defect_of_keras_and_of_its_peers_has_a_test_of_its_own_id():
    """P10 stands for Keras itself, with all the defects that the other tests are named after."""
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"def test_([DLP]\d+b?)[ac]?_", sources))

    assert [each for each in IDS if each not in named] == []


def test_P10_the_page_on_limits_says_of_each_what_becomes_of_it():
    page = (ROOT / "docs" / "limits.md").read_text()

    assert [each for each in IDS if not re.search(rf"^\| {each} \|", page, re.MULTILINE)] == []

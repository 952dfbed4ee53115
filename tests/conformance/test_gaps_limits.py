"""What Keras leaves to its users about mixed precision, by its ids: what it does, and what mixte does instead."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import mixte.keras as mk
from mixte import Policy
from mixte.cli._slow_precisions import slow_precisions
from mixte.devices import find_device
from mixte.keras._framework import BACKEND
from mixte.policy import ByPath, Rule
from mixte.scaling import DynamicScale, FixedScale

from .policy_models import layers_of
from .steps import MODES, Steps, host

FASTEST = MODES[-1]
KerasScaler = keras.optimizers.LossScaleOptimizer
only_torch = pytest.mark.skipif(BACKEND != "torch", reason="about the operations that PyTorch runs one by one")


def by_use(build, policy="mixed_float16"):
    with mk.use(policy):
        return build()


def after_micro_batches(optimizer, *values):
    """Return the weight after each micro-batch with such a true gradient, starting at 0, two for one update."""
    steps = Steps(optimizer, [keras.Variable(np.zeros(1, "float32"))], FASTEST)
    weights = []
    for value in values:
        steps.step(np.array([value], "float32"))
        weights.append(steps.values()[0].item())
    return weights, int(host(optimizer.inner_optimizer._iterations))


MICRO_BATCHES = (1.0, np.inf, 3.0, 5.0, 7.0)


def accumulating():
    return keras.optimizers.SGD(1.0, gradient_accumulation_steps=2)


@pytest.mark.skipif(BACKEND == "jax", reason="Keras's own apply leaks tracers there (D10)")
def test_L6_keras_shifts_the_accumulation_past_a_bad_micro_batch_without_a_choice():
    found = after_micro_batches(KerasScaler(accumulating(), initial_scale=4.0), *MICRO_BATCHES)

    assert found == ([0.0, 0.0, -2.0, -2.0, -8.0], 4)


@pytest.mark.parametrize(
    ("iterations_on_skip", "expected"),
    [("hold", ([0.0, 0.0, -2.0, -2.0, -8.0], 4)), ("advance", ([0.0, 0.0, 0.0, -4.5, -4.5], 5))],
)
def test_L6_a_bad_micro_batch_is_replaced_or_left_out_as_asked(iterations_on_skip, expected):
    optimizer = mk.LossScaleOptimizer(accumulating(), DynamicScale(4.0), iterations_on_skip=iterations_on_skip)

    assert after_micro_batches(optimizer, *MICRO_BATCHES) == expected


@pytest.mark.parametrize(
    ("iterations_on_skip", "weights"), [("hold", [0.5, 0.5, 0.0]), ("advance", [0.5, 0.5, 0.375])]
)
def test_L6_a_schedule_waits_for_skipped_steps_or_not_as_asked(iterations_on_skip, weights):
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.5, 0.125])
    optimizer = mk.LossScaleOptimizer(
        keras.optimizers.SGD(schedule), DynamicScale(4.0), iterations_on_skip=iterations_on_skip
    )
    steps = Steps(optimizer, [keras.Variable(np.ones(1, "float32"))], FASTEST)

    seen = []
    for value in (1.0, np.inf, 1.0):
        steps.step(np.array([value], "float32"))
        seen.append(steps.values()[0].item())

    assert seen == weights


def count_of_operations(wrap, variable_count):
    """Return how many operations one clean update takes on PyTorch."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            Counter.count += 1
            return function(*args, **(kwargs or {}))

    optimizer = wrap(keras.optimizers.SGD(0.125))
    variables = [keras.Variable(np.ones(3, "float32")) for _ in range(variable_count)]
    optimizer.build(variables)
    for _ in range(2):  # what is done but once is done in the first
        Counter.count = 0
        optimizer.scale_loss(torch.ones(()))
        with Counter():
            optimizer.apply([torch.ones(3) for _ in variables], variables)
    return Counter.count


class Plain:
    """The inner optimizer alone, as an oracle."""

    def __init__(self, inner):
        self.build, self.apply = inner.build, inner.apply

    def scale_loss(self, loss):
        return loss


@only_torch
def test_L7_keras_looks_at_each_gradient_by_itself():
    extra = [count_of_operations(KerasScaler, n) - count_of_operations(Plain, n) for n in (4, 24)]

    assert extra[1] - extra[0] >= 20 * 3


@only_torch
def test_L7_all_gradients_are_unscaled_and_looked_at_together():
    extra = [count_of_operations(mk.LossScaleOptimizer, n) - count_of_operations(Plain, n) for n in (4, 24)]

    # Each gradient is laid flat, a view that computes nothing; the rest does not depend on their number.
    assert extra[1] - extra[0] <= 20


@pytest.mark.parametrize(
    ("name", "why"),
    [("P100", "no Tensor Cores"), ("GTX 1080", "no Tensor Cores"), ("V100", None), ("A100", None)],
)
def test_L9_a_gpu_without_tensor_cores_is_told_of_before_the_run(name, why):
    found = slow_precisions(Policy.mixed("float16"), [find_device(name)])

    assert (found == []) if why is None else (len(found) == 1 and why in found[0])


def test_L9_what_needs_no_special_unit_is_never_told_of():
    assert slow_precisions(Policy.named("float32"), [find_device("P100")]) == []


class SumOfOnes(layers.Layer):
    """A layer of the script's own: its sum has 70,000 summands."""

    def call(self, x):
        return ops.sum(ops.ones_like(x), axis=-1, keepdims=True)


def summing():
    x = layers.Input((70_000,))
    y = layers.Dense(1, kernel_initializer="ones", use_bias=False, name="out")(SumOfOnes(name="sum")(x))
    return keras.Model(x, y)


def test_L10_a_sum_in_a_layer_of_the_script_overflows_in_float16_and_a_rule_keeps_it_in_float32():
    ones = np.ones((1, 70_000), "float32")
    rule = Rule(ByPath("sum"), "float32", "its sums exceed 65504")
    with np.errstate(over="ignore"):
        left = host(by_use(summing)(ones)).item()

    ruled = by_use(summing, Policy.mixed("float16").with_rules(rule))

    assert left == np.inf
    assert host(ruled(ones)).item() == 70_000.0


REDUCING = {
    "softmax": (lambda: layers.Softmax(name="hidden"), (3000,)),
    "softmax as an activation": (lambda: layers.Activation("softmax", name="hidden"), (3000,)),
    "average pooling": (lambda: layers.AveragePooling1D(1000, name="hidden"), (1000, 1)),
}


@pytest.mark.parametrize(("build", "shape"), REDUCING.values(), ids=REDUCING.keys())
def test_L10_layers_that_sum_up_are_computed_in_float32(build, shape):
    def model():
        x = layers.Input(shape)
        return keras.Model(x, layers.Flatten(name="out")(build()(x)))

    x = np.random.default_rng(5).normal(100.0, 1.0, (1, *shape)).astype("float32")

    mixed = by_use(model)

    assert layers_of(mixed)["hidden"].compute_dtype == "float32"
    np.testing.assert_array_equal(host(mixed(x)), host(model()(x)))


def test_L11_keras_ends_an_application_in_float16_and_under_a_policy_it_ends_in_float32(monkeypatch):
    # Zeros as weights: drawing random ones takes JAX half a minute, and only the dtypes count here.
    monkeypatch.setattr(
        keras.initializers.VarianceScaling,
        "__call__",
        lambda _, shape, dtype=None, **__: keras.ops.zeros(shape, dtype),
    )

    def application():
        return keras.applications.MobileNet(weights=None, input_shape=(32, 32, 3), alpha=0.25, classes=5)

    keras.config.set_dtype_policy("mixed_float16")
    try:
        theirs = application()
    finally:
        keras.config.set_dtype_policy("float32")
    ours = by_use(application)

    def dtypes(model):
        return [layer.compute_dtype for layer in model.layers if not isinstance(layer, layers.InputLayer)]

    assert set(dtypes(theirs)) == {"float16"}
    assert dtypes(ours)[-1] == "float32"
    assert ours.output.dtype == "float32"
    # The last layers are a softmax and, before it, nothing that sums: all that computes stays in float16.
    assert dtypes(ours)[:-1].count("float16") >= len(dtypes(ours)) - 3


def quantised():
    model = keras.Sequential([layers.Input((16,)), layers.Dense(16), layers.Dense(1)])
    for layer in model.layers:  # a model's own method warns of its input layer
        layer.quantize("float8")
    return model


def largest_values(model):
    """Return all that the float8 layers remember of their largest values."""
    return [host(each) for each in model.variables if "amax_history" in each.name]


BATCHES = np.ones((2, 4, 16), "float32"), np.zeros((2, 4, 1), "float32")
BAD_BATCH = np.full((4, 16), np.inf, "float32")


def test_L13_keras_remembers_an_infinity_in_a_float8_layer():
    model = quantised()
    model.compile("sgd", loss="mse", auto_scale_loss=False)

    model.train_on_batch(BAD_BATCH, BATCHES[1][0])

    assert not all(np.isfinite(values).all() for values in largest_values(model))


def test_L13_a_bad_batch_leaves_no_trace_in_a_float8_layer():
    model = by_use(quantised, "float32")
    model.compile("sgd", loss="mse")
    model.train_on_batch(BATCHES[0][0], BATCHES[1][0])
    before = [host(variable) for variable in model.variables]

    model.train_on_batch(BAD_BATCH, BATCHES[1][0])

    assert model.optimizer.law == FixedScale(1.0)
    assert model.optimizer.read_state().counters["skipped"] == 1
    assert all(values.any() for values in largest_values(model)), "they were written by the good batch"
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, host(variable))


def test_L13_a_policy_leaves_float8_layers_as_they_are_and_says_so():
    model = quantised()

    applied = mk.apply(model, "mixed_bfloat16")

    assert {each.dtype_policy.name for each in layers_of(model).values()} == {"float8_from_float32"}
    reasons = [decision.reason for decision in applied.decisions if decision.path]
    assert all("left alone" in reason for reason in reasons)


def test_L14_keras_refuses_two_patterns_for_one_layer():
    policies = keras.dtype_policies.DTypePolicyMap()
    policies["encoder/.*"] = "mixed_float16"
    policies[".*/norm"] = "float32"

    with pytest.raises(ValueError, match="matches multiple"):
        policies["encoder/norm"]


@pytest.mark.parametrize("order", [1, -1])
def test_L14_of_two_rules_for_one_layer_the_most_specific_wins_in_any_order(order):
    def model():
        x = layers.Input((4,))
        block = keras.Sequential(
            [layers.Input((4,)), layers.Dense(4, name="dense"), layers.LayerNormalization(name="norm")],
            name="encoder",
        )
        return keras.Model(x, layers.Dense(1, name="out")(block(x)))

    rules = [
        Rule(ByPath("encoder/**"), "mixed_bfloat16", "for its range"),
        Rule(ByPath("**/norm"), "float32", "as measured"),
    ]

    built = by_use(model, Policy.mixed("float16").with_rules(*rules[::order]))

    assert {path: layer.compute_dtype for path, layer in layers_of(built).items() if "/" in path} == {
        "encoder/dense": "bfloat16",
        "encoder/norm": "float32",
    }


def test_D15_no_loss_is_scaled_where_the_only_layer_is_an_output():
    model = by_use(lambda: keras.Sequential([layers.Input((2,)), layers.Dense(1)]))

    model.compile("sgd", loss="mse")  # where any warning is an error

    assert layers_of(model)[model.layers[0].name].compute_dtype == "float32"
    assert type(model.optimizer).__name__ == "SGD"


def test_D15_a_model_compiled_inside_the_block_is_judged_by_its_rules():
    with mk.use("mixed_float16"):
        model = keras.Sequential([layers.Input((2,)), layers.Dense(1)])
        model.compile("sgd", loss="mse")
        larger = keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.Dense(1)])
        larger.compile("sgd", loss="mse")

    assert type(model.optimizer).__name__ == "SGD"
    assert isinstance(larger.optimizer, mk.LossScaleOptimizer)

"""A policy on models of every kind, built before and built under it: precisions, variables, values, undoing."""

from dataclasses import dataclass
from functools import cache

import keras
import numpy as np
import pytest

import mixte.keras as mk
from mixte import MixteWarning, Policy, PolicyError
from mixte.keras._framework import BACKEND
from mixte.policy import ByPath, Rule
from mixte.scaling import DynamicScale

from .policy_models import (
    CASES,
    FLOAT16,
    Subclassed,
    call_and_look,
    layers_of,
    normalisations,
    policies_of,
    sequential,
    symbols_of,
    values_of,
)
from .steps import host

cases = pytest.mark.parametrize("name", CASES)


@dataclass(frozen=True)
class State:
    """A model's precisions and values at one moment."""

    policies: dict
    symbols: list
    variables: list
    values: list

    @classmethod
    def of(cls, model):
        return cls(policies_of(model), symbols_of(model), list(model.variables), values_of(model))


@dataclass(frozen=True)
class Observed:
    """What became of one model, step by step."""

    before: State
    exact: np.ndarray
    first: mk.AppliedPolicy
    applied: State
    compute_dtypes: dict
    seen: dict
    rounded: np.ndarray
    second: mk.AppliedPolicy
    again: State
    undone: State
    undone_output: np.ndarray
    loss: float
    counters: dict
    trained: State


@cache
def observed(name):
    """Build a model in float32, apply a policy twice, undo it, apply it once more and train: once per model."""
    case = CASES[name]
    model, x = case.built(), case.inputs()
    before, exact = State.of(model), host(model(x))

    first = mk.apply(model, "mixed_float16")
    applied, (output, seen) = State.of(model), call_and_look(model, x)
    compute_dtypes = {path: layer.compute_dtype for path, layer in layers_of(model).items()}
    second = mk.apply(model, "mixed_float16")
    again = State.of(model)

    second.undo()
    first.undo()
    undone, undone_output = State.of(model), host(model(x))

    mk.apply(model, "mixed_float16")
    # 2**6: the gradients here are far from both ends of float16.
    optimizer = mk.LossScaleOptimizer(keras.optimizers.SGD(0.1), DynamicScale(2.0**6))
    model.compile(optimizer, loss="mse", run_eagerly=BACKEND == "tensorflow")
    loss = model.train_on_batch(x, np.zeros(exact.shape, "float32"))
    return Observed(
        before=before,
        exact=exact,
        first=first,
        applied=applied,
        compute_dtypes=compute_dtypes,
        seen=seen,
        rounded=host(output),
        second=second,
        again=again,
        undone=undone,
        undone_output=undone_output,
        loss=float(loss),
        counters=optimizer.read_state().counters,
        trained=State.of(model),
    )


def assert_equal(values, others):
    for mine, other in zip(values, others, strict=True):
        np.testing.assert_array_equal(mine, other)


def dtypes(variables):
    return [variable.dtype for variable in variables if variable.trainable]


@cases
def test_each_layer_computes_in_the_precision_of_the_table(name):
    expected, seen = CASES[name].computes_in, observed(name)

    assert seen.first.warnings == ()
    assert seen.compute_dtypes == expected
    assert seen.seen.items() <= expected.items()
    not_called = expected.keys() - seen.seen.keys()  # PyTorch's own LSTM has no use for a cell
    assert all(path.endswith("cell") for path in not_called)


@cases
def test_what_was_decided_is_what_the_layers_have(name):
    for decision in observed(name).first.decisions:
        layer = decision.layer.layer
        assert (layer.compute_dtype, layer.variable_dtype) == (decision.compute_dtype, decision.variable_dtype)


@cases
def test_a_model_built_under_a_policy_is_the_same_as_one_to_which_it_is_applied(name):
    case = CASES[name]

    with mk.use("mixed_float16"):
        model = case.built()
    output, seen = call_and_look(model, case.inputs())

    assert keras.config.dtype_policy().name == "float32"
    assert seen == observed(name).seen
    assert set(dtypes(model.variables)) == {"float32"}
    assert_equal(values_of(model), observed(name).applied.values)
    np.testing.assert_array_equal(host(output), observed(name).rounded)


@cases
def test_values_are_those_of_kerass_own_mixed_precision_to_the_last_bit(name):
    case = CASES[name]
    keras.config.set_dtype_policy("mixed_float16")
    try:
        theirs = case.built()
    finally:
        keras.config.set_dtype_policy("float32")
    for path, layer in layers_of(theirs).items():
        layer.dtype_policy = "float32" if case.computes_in[path] == "float32" else "mixed_float16"

    np.testing.assert_array_equal(observed(name).rounded, host(theirs(case.inputs())))


@cases
def test_the_output_is_float32_and_agrees_with_float32_to_the_rounding_of_float16(name):
    seen = observed(name)

    assert seen.rounded.dtype == np.float32
    # A rounding to float16 is off by 2**-11 of its value at most. The longest way through one of these models has 3
    # layers in float16, each with a sum of up to 16 products: 3 * (16 + 4) roundings with input, weight, bias and
    # activation. Their weights, drawn from Glorot's distribution, keep values at the size that they have.
    tolerance = 60 * 2.0**-11 * max(1.0, np.abs(seen.exact).max())
    np.testing.assert_allclose(seen.rounded, seen.exact, rtol=0, atol=tolerance)
    assert not np.array_equal(seen.rounded, seen.exact), "nothing was rounded"


@cases
def test_symbolic_outputs_are_float32_and_symbolic_tensors_have_the_dtypes_of_a_model_built_so(name):
    with mk.use("mixed_float16"):
        model = CASES[name].build()

    assert {tensor.dtype for tensor in getattr(model, "outputs", None) or []} <= {"float32"}
    if getattr(model, "outputs", None):
        assert observed(name).applied.symbols == symbols_of(model)


@cases
def test_variables_stay_float32_and_keep_their_values_to_the_bit(name):
    before, applied = observed(name).before, observed(name).applied

    assert all(mine is other for mine, other in zip(applied.variables, before.variables, strict=True))
    assert set(dtypes(applied.variables)) == {"float32"}
    assert_equal(applied.values, before.values)


@cases
def test_applying_twice_is_applying_once(name):
    seen = observed(name)

    assert seen.first.changed
    assert not seen.second.changed
    assert seen.again.policies == seen.applied.policies != seen.before.policies
    assert seen.again.symbols == seen.applied.symbols
    decided = [
        [(each.path, each.precision, each.source, each.reason) for each in applied.decisions]
        for applied in (seen.first, seen.second)
    ]
    assert decided[0] == decided[1]


@cases
def test_undo_restores_precisions_symbols_and_outputs_to_the_bit(name):
    seen = observed(name)

    assert seen.undone.policies == seen.before.policies
    assert seen.undone.symbols == seen.before.symbols
    assert_equal(seen.undone.values, seen.before.values)
    np.testing.assert_array_equal(seen.undone_output, seen.exact)


@cases
def test_a_training_step_changes_float32_variables(name):
    seen = observed(name)

    assert np.isfinite(seen.loss)
    assert seen.counters["applied"] == 1
    assert dtypes(seen.trained.variables) == dtypes(seen.before.variables)
    for variable, new, old in zip(seen.trained.variables, seen.trained.values, seen.before.values, strict=True):
        # A softmax is the same for all keys when each key's product with the query grows by the same: no gradient.
        if variable.trainable and "attention/key/bias" not in variable.path:
            assert not np.array_equal(new, old), variable.path


def test_a_subclassed_model_is_governed_by_its_first_call():
    with mk.use("mixed_float16"):
        model = Subclassed()
    assert not model.built
    case = CASES["subclassed"]

    output = model(case.inputs())

    assert keras.backend.standardize_dtype(output.dtype) == "float32"
    assert call_and_look(model, case.inputs())[1] == case.computes_in


def test_applied_to_a_subclassed_model_that_is_not_built_the_unknown_outputs_are_warned_of():
    case, model = CASES["subclassed"], Subclassed()

    with pytest.warns(MixteWarning, match="'subclassed' is not built: which layers give its outputs") as warned:
        applied = mk.apply(model, "mixed_float16")

    assert len(warned) == len(applied.warnings) == 1
    assert {layer.compute_dtype for layer in layers_of(model).values()} == {FLOAT16}
    model(case.inputs())
    assert mk.apply(model, "mixed_float16").warnings == ()
    assert call_and_look(model, case.inputs())[1] == case.computes_in


def test_the_global_policy_is_restored_and_the_models_governed_after_an_exception():
    models = []

    def build_and_fail():
        models.append(sequential())
        raise RuntimeError("the script's own")

    with pytest.raises(RuntimeError, match="the script's own"), mk.use("mixed_float16"):
        build_and_fail()

    assert keras.config.dtype_policy().name == "float32"
    assert [layer.compute_dtype for layer in models[0].layers] == ["float16", "float32"]


def test_models_built_outside_of_use_are_left_alone():
    before = sequential()
    with mk.use("mixed_float16"):
        pass
    after = sequential()

    assert {layer.compute_dtype for layer in (*before.layers, *after.layers)} == {"float32"}


def test_the_innermost_use_governs():
    with mk.use("mixed_float16"):
        with mk.use("float32"):
            inner = sequential()
        outer = sequential()

    assert [layer.compute_dtype for layer in inner.layers] == ["float32", "float32"]
    assert [layer.compute_dtype for layer in outer.layers] == ["float16", "float32"]


def test_bfloat16_is_applied_like_float16():
    case = CASES["functional"]
    model = case.built()

    mk.apply(model, "mixed_bfloat16")

    bfloat16 = {path: dtype.replace("float16", "bfloat16") for path, dtype in case.computes_in.items()}
    assert call_and_look(model, case.inputs())[1] == bfloat16


def test_a_policy_with_16_bit_variables_is_refused_for_a_built_model_and_changes_nothing():
    model = CASES["functional"].built()
    policies = policies_of(model)

    with pytest.raises(
        PolicyError, match="layer 'left' is built with float32 variables, and the policy wants float16"
    ):
        mk.apply(model, "float16")

    assert policies_of(model) == policies


class NormalisedSubclass(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, name="hidden")
        self.norm = keras.layers.BatchNormalization(name="batch_norm")
        self.head = keras.layers.Dense(2, name="out")

    def call(self, x):
        return self.head(self.norm(self.hidden(x)))


@pytest.mark.parametrize("build", [normalisations, NormalisedSubclass], ids=["functional", "subclassed"])
def test_a_model_built_under_a_policy_stores_what_each_layer_is_to_store(build):
    x = CASES["normalisations"].inputs()
    with mk.use("float16"):
        model = build()
        model(x)
    stored = {path: {v.dtype for v in layer.variables} for path, layer in layers_of(model).items()}

    assert stored["hidden"] == {"float16"}
    assert stored["batch_norm"] == {"float32"}  # without that its averages stop short
    assert stored["out"] == {"float32"}
    assert layers_of(model)["batch_norm"].compute_dtype == "float16"
    assert keras.backend.standardize_dtype(model(x).dtype) == "float32"


def test_variables_that_are_stored_otherwise_keep_their_values_and_are_trained():
    case = CASES["functional"]
    keras.config.set_dtype_policy("float16")
    try:
        theirs = values_of(case.built())
    finally:
        keras.config.set_dtype_policy("float32")
    with mk.use("float16"):
        model = case.built()
    for mine, other in zip(values_of(model), theirs, strict=True):
        np.testing.assert_array_equal(mine, other)  # the values of float16, also where float32 holds them

    model.compile(keras.optimizers.SGD(0.5), loss="mse")
    loss = model.train_on_batch(case.inputs(), np.zeros((4, 2), "float32"))

    assert np.isfinite(loss)
    state = model.optimizer.read_state()
    while not state.counters["applied"]:  # until the scale has found its place
        model.train_on_batch(case.inputs(), np.zeros((4, 2), "float32"))
        state = model.optimizer.read_state()
    assert [variable.dtype for variable in model.variables] == ["float16"] * 4 + ["float32"] * 2
    changed = [not np.array_equal(mine, old) for mine, old in zip(values_of(model), theirs, strict=True)]
    assert all(changed)


def test_a_rule_can_narrow_what_one_layer_stores():
    policy = Policy.mixed("float16").with_rules(Rule(ByPath("left"), "float16", "to save memory"))
    with mk.use(policy):
        model = CASES["functional"].built()

    stored = {path: {v.dtype for v in layer.variables} for path, layer in layers_of(model).items()}
    assert stored == {"left": {"float16"}, "right": {"float32"}, "add": set(), "out": {"float32"}}
    assert mk.apply(model, policy).changed is False
    with pytest.raises(PolicyError, match="layer 'left' is built with float16 variables"):
        mk.apply(model, "mixed_float16")


@pytest.mark.parametrize("policy", ["mixed_float61", None, 16])
def test_what_is_no_policy_is_refused_and_the_nearest_named(policy):
    model = sequential()
    words = "Did you mean 'mixed_float16'" if isinstance(policy, str) else "a policy is needed"

    with pytest.raises(PolicyError, match=words):
        mk.apply(model, policy)
    with pytest.raises(PolicyError, match=words), mk.use(policy):
        pass


def test_a_policy_changes_no_layer_that_has_its_precision_already():
    model = CASES["functional"].built()

    applied = mk.apply(model, Policy("float32"))

    assert not applied.changed

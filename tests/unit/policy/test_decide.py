from __future__ import annotations

import pickle

import pytest

from mixte import InputError, PolicyError
from mixte.policy import (
    ActivityRegularized,
    ByActivation,
    ByClass,
    ByPath,
    ByPredicate,
    Decision,
    LayerDescription,
    LossScaleSpec,
    Outputs,
    Policy,
    Precision,
    Rule,
    decision_table,
)

DENSE = ("Dense", "Layer", "Operation")


def layer(path="encoder/dense", class_names=DENSE, **facts):
    return LayerDescription(path=path, class_names=class_names, **facts)


def rule(select, precision="float32", reason="because"):
    return Rule(select, precision, reason)


def always(_):
    return True


def test_a_layer_that_nothing_selects_gets_the_default_and_says_so():
    decision = Policy("mixed_float16").decide(layer())
    assert decision == Decision(
        layer=layer(),
        precision=Precision.mixed_float16,
        origin="default",
        rule=None,
        reason="the default of policy mixed_float16",
    )
    assert (decision.compute_dtype, decision.variable_dtype, decision.source) == (
        "float16",
        "float32",
        "default",
    )


def test_a_rule_decides_with_its_reason():
    chosen = rule(ByPath("dense"), "float32", "its sums overflow")
    decision = Policy("mixed_float16", [chosen]).decide(layer())
    assert (decision.precision, decision.origin) == (Precision.float32, "rule")
    assert (decision.rule, decision.reason) == (chosen, "its sums overflow")
    assert decision.source == "path dense -> float32"


def test_kinds_of_selectors_beat_each_other_in_the_documented_order_whatever_their_place():
    target = layer(
        class_names=("MyDense", *DENSE),
        is_output=True,
        activation="softmax",
        has_activity_regularizer=True,
    )
    strongest_first = [
        rule(ByPath("**")),
        rule(ByPredicate(always, "all")),
        rule(Outputs()),
        rule(ByActivation("softmax")),
        rule(ActivityRegularized()),
        rule(ByClass("MyDense")),
        rule(ByClass("Dense")),
        rule(ByClass("Layer")),
    ]
    for order in (strongest_first, strongest_first[::-1]):
        decision = Policy("mixed_float16", order).decide(target)
        assert [decision.rule, *decision.shadowed] == strongest_first


def test_of_equally_specific_rules_the_later_wins_and_names_the_beaten():
    first, second = rule(ByPath("dense"), "float64"), rule(ByPath("dense"), "float32")
    decision = Policy("mixed_float16", [first, second]).decide(layer())
    assert decision.rule == second
    assert decision.shadowed == (first,)


def test_a_class_rule_selects_subclasses():
    policy = Policy("mixed_float16", [rule(ByClass("Dense"))])
    assert policy.decide(layer(class_names=("MyDense", *DENSE))).origin == "rule"
    assert policy.decide(layer(class_names=("Conv2D", "Layer"))).origin == "default"


# Rules against safeguards.


def test_a_path_rule_beats_a_safeguard():
    policy = Policy.mixed("float16").with_rules(rule(ByPath("head/**"), "mixed_float16"))
    decision = policy.decide(layer("head/probabilities", ("Softmax", "Layer"), is_output=True))
    assert (decision.precision, decision.origin) == (Precision.mixed_float16, "rule")
    assert [str(beaten) for beaten in decision.shadowed] == ["outputs -> float32", "class Softmax -> float32"]


def test_a_rule_as_specific_as_a_safeguard_beats_it():
    policy = Policy.mixed("float16").with_rules(rule(ByClass("Softmax"), "mixed_float16"))
    assert policy.decide(layer("a", ("Softmax", "Layer"))).precision == Precision.mixed_float16


def test_a_broader_rule_does_not_undo_a_more_specific_safeguard():
    broad = rule(ByClass("Layer"), "mixed_float16")
    decision = Policy.mixed("float16").with_rules(broad).decide(layer("a", ("Softmax", "Layer")))
    assert (decision.precision, decision.origin) == (Precision.float32, "safeguard")
    assert decision.shadowed == (broad,)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_safeguard_never_narrows_what_a_broader_rule_gives(precision):
    broad = rule(ByClass("Dense"), precision)
    decision = Policy.mixed("float16").with_rules(broad).decide(layer(activation="softmax"))
    assert (decision.precision, decision.rule) == (Precision.named(precision), broad)


def test_a_safeguard_never_narrows_the_default():
    policy = Policy("float64", safeguards=Policy.mixed("float16").safeguards)
    assert policy.decide(layer(is_output=True)).precision == Precision.float64


def test_without_master_weights_batch_normalisation_keeps_float32_statistics():
    names = ("BatchNormalization", "Layer")
    assert Policy.named("float16").decide(layer("bn", names)).precision == Precision.mixed_float16
    assert Policy.named("bfloat16").decide(layer("bn", names)).precision == Precision.mixed_bfloat16
    assert Policy.mixed("float16").decide(layer("bn", names)).origin == "default"


def test_a_weaker_safeguard_applies_where_a_stronger_one_would_not_widen():
    stronger, weaker = rule(Outputs(), "mixed_float16"), rule(ByClass("Dense"), "float32")
    policy = Policy("mixed_float16", safeguards=[stronger, weaker])
    assert policy.decide(layer(is_output=True)).rule == weaker


# What the script itself sets.


def test_a_dtype_in_the_script_beats_the_default_and_the_safeguards():
    decision = Policy.mixed("float16").decide(layer(is_output=True, dtype_set_by_user="mixed_bfloat16"))
    assert (decision.precision, decision.origin) == (Precision.mixed_bfloat16, "script")
    assert "mixed_bfloat16" in decision.reason
    assert decision.source == "script"


def test_a_rule_beats_a_dtype_in_the_script():
    policy = Policy.mixed("float16").with_rules(rule(ByClass("Dense"), "float64"))
    assert policy.decide(layer(dtype_set_by_user="float32")).precision == Precision.float64


def test_a_script_dtype_that_is_no_precision_leaves_the_layer_alone():
    decision = Policy.mixed("float16").decide(
        layer(is_output=True, dtype_set_by_user="int8_from_mixed_float16")
    )
    assert (decision.precision, decision.compute_dtype, decision.variable_dtype) == (None, None, None)
    assert "int8_from_mixed_float16" in decision.reason


# Layers that implement another.


def test_D16_a_wrapped_layer_follows_the_rule_for_its_wrapper():
    wrapper = layer("rnn", ("Bidirectional", "Wrapper", "Layer"))
    forward = layer("rnn/forward_lstm", ("LSTM", "RNN", "Layer"), owner=wrapper)
    cell = layer("rnn/forward_lstm/lstm_cell", ("LSTMCell", "Layer"), owner=forward)
    policy = Policy.mixed("float16").with_rules(rule(ByClass("Bidirectional"), "float32", "long sequences"))
    for part in (forward, cell):
        decision = policy.decide(part)
        assert (decision.precision, decision.origin) == (Precision.float32, "owner")
        assert decision.reason == "part of rnn: long sequences"


def test_a_rule_for_a_part_beats_the_rule_for_its_owner():
    owner = layer("attention", ("MultiHeadAttention", "Layer"))
    policy = Policy(
        "float32", [rule(ByClass("EinsumDense"), "mixed_bfloat16"), rule(ByPath("/attention"), "float64")]
    )
    assert policy.decide(layer("attention/query", ("EinsumDense", "Layer"), owner=owner)).origin == "rule"
    assert policy.decide(layer("attention/softmax", ("Softmax", "Layer"), owner=owner)).origin == "owner"


def test_a_rule_for_an_owner_does_not_undo_a_safeguard_of_a_part():
    owner = layer("attention", ("MultiHeadAttention", "Layer"))
    policy = Policy.mixed("float16").with_rules(rule(ByPath("/attention"), "mixed_float16"))
    softmax = layer("attention/softmax", ("Softmax", "Layer"), owner=owner)
    assert policy.decide(softmax).origin == "safeguard"


def test_parts_of_an_output_layer_and_of_a_regularised_layer_are_guarded_like_it():
    policy = Policy.mixed("float16")
    output = layer("lstm", ("LSTM", "Layer"), is_output=True)
    assert policy.decide(layer("lstm/cell", ("LSTMCell", "Layer"), owner=output)).precision == Precision.float32
    regularised = layer("lstm", ("LSTM", "Layer"), has_activity_regularizer=True)
    part = layer("lstm/cell", ("LSTMCell", "Layer"), owner=regularised)
    assert policy.decide(part).precision == Precision.float32


# Predicates.


def test_a_predicate_sees_the_layer_itself():
    target = layer(layer=object())
    seen = []
    Policy("float32", [rule(ByPredicate(lambda it: bool(seen.append(it.layer)), "spy"))]).decide(target)
    assert seen == [target.layer]


def test_a_predicate_that_raises_names_rule_and_layer_and_keeps_the_cause():
    policy = Policy("float32", [rule(ByPredicate(lambda it: it.layer.units > 3, "wide layers"))])
    with pytest.raises(
        PolicyError, match=r"'predicate wide layers'.*'encoder/dense' \(Dense\).*AttributeError"
    ) as caught:
        policy.decide(layer())
    assert isinstance(caught.value.__cause__, AttributeError)


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_a_predicate_that_returns_no_boolean_is_refused(answer):
    policy = Policy("float32", [rule(ByPredicate(lambda _: answer, "odd"))])
    with pytest.raises(PolicyError, match=r"returned .*; a predicate returns True or False"):
        policy.decide(layer())


# Construction.


def test_a_rule_without_a_reason_is_refused():
    with pytest.raises(PolicyError, match="'class Dense' has no reason"):
        Rule(ByClass("Dense"), "float32", "  ")


def test_a_rule_with_an_unknown_precision_is_refused_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'float32'"):
        Rule(ByClass("Dense"), "flaot32", "because")


@pytest.mark.parametrize("name", ["keras.layers.Softmax", "package>Softmax"])
def test_a_qualified_class_name_is_refused_with_the_bare_one(name):
    with pytest.raises(PolicyError, match="write 'Softmax'"):
        ByClass(name)


def test_an_empty_activation_and_an_empty_policy_name_are_refused():
    with pytest.raises(PolicyError, match="empty"):
        ByActivation("")
    with pytest.raises(PolicyError, match="empty"):
        Policy("float32", name=" ")


def test_a_description_needs_a_class_name():
    with pytest.raises(PolicyError, match="no class name"):
        layer(class_names=())


def test_a_loss_scale_may_be_a_law_by_name():
    assert Policy("float16", loss_scale="dynamic").loss_scale == LossScaleSpec("dynamic")
    spec = LossScaleSpec("dynamic", {"minimum": 1.0, "initial": 8})
    assert spec == LossScaleSpec("dynamic", {"initial": 8, "minimum": 1.0})
    assert str(spec) == "dynamic, initial=8, minimum=1.0"


def test_policies_are_values():
    policy = Policy.mixed("float16").with_rules(rule(ByPath("head/**")))
    again = Policy.mixed("float16").with_rules(rule(ByPath("head/**")))
    assert policy == again
    assert len({policy, again}) == 1
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301 - our own bytes
    with pytest.raises(AttributeError):
        policy.name = "other"


def test_the_table_has_one_decision_for_each_layer_in_order():
    layers = [layer("a"), layer("b", ("Softmax", "Layer")), layer("c")]
    table = decision_table(Policy.mixed("bfloat16"), layers)
    assert [(row.path, row.class_name, row.compute_dtype, row.variable_dtype) for row in table] == [
        ("a", "Dense", "bfloat16", "float32"),
        ("b", "Softmax", "float32", "float32"),
        ("c", "Dense", "bfloat16", "float32"),
    ]

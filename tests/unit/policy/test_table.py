from __future__ import annotations

from mixte.policy import (
    ByActivation,
    ByClass,
    ByPath,
    ByPredicate,
    LayerDescription,
    Outputs,
    Policy,
    Rule,
    unmatched_rules,
)

LAYERS = [
    LayerDescription(path="encoder/block_1/dense", class_names=("Dense", "Layer"), activation="softmax"),
    LayerDescription(path="encoder/block_1/norm", class_names=("LayerNormalization", "Layer")),
]


def hint_for(select):
    policy = Policy("mixed_float16", [Rule(select, "float32", "because")])
    (unmatched,) = unmatched_rules(policy, LAYERS)
    return unmatched.hint


def test_a_rule_that_selects_a_layer_is_matched_even_where_it_is_beaten():
    rules = [Rule(ByClass("Layer"), "float32", "a"), Rule(ByPath("**"), "float64", "b")]
    assert unmatched_rules(Policy("mixed_float16", rules), LAYERS) == ()


def test_safeguards_are_never_reported():
    assert unmatched_rules(Policy.mixed("float16"), LAYERS) == ()


def test_a_misspelled_name_in_a_path_is_pointed_at():
    assert hint_for(ByPath("encodr/**")) == "No layer is called 'encodr'; the nearest is 'encoder'."
    assert hint_for(ByPath("/encoder/block_[34]/dense")) == (
        "No layer is called 'block_[34]'; the nearest is 'block_1'."
    )


def test_a_path_in_the_wrong_order_is_told_from_a_misspelled_one():
    assert "not in this order; the nearest path is 'encoder/block_1/dense'" in hint_for(
        ByPath("/block_1/dense")
    )


def test_a_misspelled_class_or_activation_gets_the_nearest():
    assert hint_for(ByClass("LayerNormalisation")) == "The nearest class is 'LayerNormalization'."
    assert hint_for(ByActivation("softmacks")) == "The nearest activation is 'softmax'."


def test_what_is_near_to_nothing_gets_no_hint():
    assert hint_for(ByPath("zzzzzz")) == "No layer is called 'zzzzzz'."
    assert hint_for(ByClass("Conv3DTranspose")) == ""
    assert hint_for(Outputs()) == ""
    assert hint_for(ByPredicate(lambda _: False, "none")) == ""


def test_the_message_is_one_line_for_a_warning():
    policy = Policy("mixed_float16", [Rule(ByPath("hed"), "float32", "because")])
    assert [str(unmatched) for unmatched in unmatched_rules(policy, LAYERS)] == [
        "The rule 'path hed -> float32' selects no layer of the model. No layer is called 'hed'."
    ]


def test_a_model_without_layers_matches_nothing_and_gives_no_hint():
    policy = Policy("mixed_float16", [Rule(ByClass("Dense"), "float32", "because")])
    (unmatched,) = unmatched_rules(policy, [])
    assert unmatched.hint == ""

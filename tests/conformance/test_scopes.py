"""One scale for one optimizer, for several, or for each loss; and skips that are independent, or joint."""

import keras
import numpy as np
import pytest
from keras import ops

import mixte.keras as mk
from mixte import InputError, LossScaleError
from mixte.keras._framework import BACKEND
from mixte.scaling import DynamicScale, FixedScale

from .steps import MODES, compiled, host

LAW = DynamicScale(8.0, growth_interval=2)


def pair(first_law=LAW, second_law=LAW):
    """Return two variables at 1, each with an optimizer of learning rate 1."""
    variables = [keras.Variable(np.array([1.0], "float32"), name=name) for name in ("generator", "critic")]
    optimizers = [mk.LossScaleOptimizer(keras.optimizers.SGD(1.0), law) for law in (first_law, second_law)]
    for optimizer, variable in zip(optimizers, variables, strict=True):
        optimizer.build([variable])
    return variables, optimizers


def together(variables, optimizers, mode, skip):
    """Return a function that takes two gradients, and makes one step of both optimizers."""

    def step(*gradients):
        scaled = [
            optimizer.scale_loss(gradient) for optimizer, gradient in zip(optimizers, gradients, strict=True)
        ]
        updates = [
            (optimizer, [gradient], [variable])
            for optimizer, gradient, variable in zip(optimizers, scaled, variables, strict=True)
        ]
        return ops.stack(mk.apply_together(updates, skip=skip))

    state = {id(v): v for v in [*variables, *(v for optimizer in optimizers for v in optimizer.variables)]}
    run = compiled(step, list(state.values()), mode)
    return lambda *values: host(
        run(*(ops.convert_to_tensor(np.array([v], "float32")) for v in values))
    ).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_independent_optimizers_skip_each_for_itself(mode):
    variables, optimizers = pair()
    step = together(variables, optimizers, mode, "independent")

    assert step(0.5, np.inf) == [True, False]

    assert [host(v)[0] for v in variables] == [0.5, 1.0]
    assert [optimizer.read_state().scale for optimizer in optimizers] == [8.0, 4.0]
    assert [optimizer.read_state().counters["skipped"] for optimizer in optimizers] == [0, 1]
    assert [int(host(optimizer.iterations)) for optimizer in optimizers] == [1, 0]


@pytest.mark.parametrize("mode", MODES)
def test_joint_optimizers_skip_together_and_each_law_sees_its_own_gradients(mode):
    variables, optimizers = pair()
    step = together(variables, optimizers, mode, "joint")

    assert step(0.5, np.nan) == [False, False]
    assert step(0.5, 0.25) == [True, True]

    assert [host(v)[0] for v in variables] == [0.5, 0.75]
    states = [optimizer.read_state() for optimizer in optimizers]
    assert [state.scale for state in states] == [16.0, 4.0], "two clean steps of its own raise the first"
    assert [state.counters["skipped"] for state in states] == [1, 1]
    assert [state.counters["skipped_inf"] for state in states] == [0, 0]
    assert [int(host(optimizer.iterations)) for optimizer in optimizers] == [1, 1]
    assert [optimizer.read_last_skip().variable for optimizer in optimizers] == [None, variables[1].path]


@pytest.mark.parametrize("mode", MODES)
def test_optimizers_that_share_a_scaler_advance_it_once_for_each_step_together(mode):
    shared = mk.LossScaler(LAW)
    variables, optimizers = pair(shared, shared)
    step = together(variables, optimizers, mode, "independent")

    assert step(0.5, np.inf) == [True, False]
    assert shared.read().scale == 4.0, "one overflow of any halves it, once"
    assert step(np.inf, np.inf) == [False, False]
    assert shared.read().scale == 2.0
    assert step(0.25, 0.25) == [True, True]

    assert [host(v)[0] for v in variables] == [0.25, 0.75]
    counters = shared.read().counters
    assert (counters["steps"], counters["applied"], counters["skipped"]) == (3, 1, 2)


def test_gradients_are_divided_by_the_scale_of_their_loss_though_another_optimizer_moved_it():
    shared = mk.LossScaler(LAW)
    (first, second), (one, other) = pair(shared, shared)
    scaled = [one.scale_loss(ops.convert_to_tensor([np.inf])), other.scale_loss(ops.convert_to_tensor([0.5]))]

    assert not one.apply([scaled[0]], [first])
    assert shared.read().scale == 4.0
    assert other.apply([scaled[1]], [second])

    assert host(second)[0] == 0.5, "0.5 * 8 / 8; not 0.5 * 8 / 4"


def test_an_update_together_of_one_optimizer_is_that_of_apply():
    variables, optimizers = pair()
    step = together(variables[:1], optimizers[:1], "eager", "joint")

    assert step(0.5) == [True]
    assert step(np.inf) == [False]
    assert host(variables[0])[0] == 0.5
    assert optimizers[0].read_state().scale == 4.0


def per_loss(variable, optimizer, scalers, mode):
    """Return a function that takes the gradient of each loss, and makes one update by their sum."""

    def step(*gradients):
        losses = [
            (scaler, [scaler.scale_loss(gradient)]) for scaler, gradient in zip(scalers, gradients, strict=True)
        ]
        return mk.apply_losses(optimizer, losses, [variable])

    state = [variable, *optimizer.variables, *(v for scaler in scalers for v in scaler.variables)]
    run = compiled(step, state, mode)
    return lambda *values: bool(host(run(*(ops.convert_to_tensor(np.array([v], "float32")) for v in values))))


@pytest.mark.parametrize("mode", MODES)
def test_losses_with_scales_of_their_own_make_one_update_and_each_law_sees_its_own_overflow(mode):
    variable = keras.Variable(np.array([1.0], "float32"))
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([variable])
    scalers = [mk.LossScaler(LAW, name="adversarial"), mk.LossScaler(DynamicScale(2.0**20), name="penalty")]
    step = per_loss(variable, optimizer, scalers, mode)

    assert step(0.25, 2.0**-20)
    assert host(variable)[0] == np.float32(1 - 0.25 - 2.0**-20)
    assert not step(0.25, np.inf)
    assert host(variable)[0] == np.float32(1 - 0.25 - 2.0**-20)
    assert not step(np.nan, 0.0)

    states = [scaler.read() for scaler in scalers]
    assert [state.scale for state in states] == [8.0, 2.0**19], "clean, clean: to 16; then NaN: to 8"
    assert [state.history for state in states] == [((2, 16.0), (3, 8.0)), ((2, 2.0**19),)]
    assert [state.counters["skipped"] for state in states] == [2, 2]
    assert int(host(optimizer.iterations)) == 1


def test_a_variable_that_one_loss_does_not_reach_is_updated_by_the_other():
    variables = [keras.Variable(np.array([1.0], "float32")) for _ in range(2)]
    first, second = mk.LossScaler(4.0), mk.LossScaler(8.0)
    half = ops.convert_to_tensor(np.array([0.5], "float32"))
    losses = [
        (first, [first.scale_loss(half), None]),
        (second, [second.scale_loss(half), second.scale_loss(half)]),
    ]

    assert mk.apply_losses(keras.optimizers.SGD(1.0), losses, variables)

    assert [host(variable)[0] for variable in variables] == [0.0, 0.5]


def test_sparse_gradients_of_several_losses_are_added():
    if BACKEND != "tensorflow":
        pytest.skip("only TensorFlow has IndexedSlices")
    import tensorflow as tf

    table = keras.Variable(np.ones((4, 1), "float32"))
    first, second, third = (mk.LossScaler(scale, name=str(scale)) for scale in (2.0, 4.0, 8.0))

    def rows(scaler, *indices):
        scaler.scale_loss(1.0)
        return tf.IndexedSlices(tf.fill((len(indices), 1), scaler.scale / 2), tf.constant(indices), (4, 1))

    sparse = [(first, [rows(first, 0, 1)]), (second, [rows(second, 1, 1)])]
    assert mk.apply_losses(optimizer := keras.optimizers.SGD(1.0), sparse, [table])
    np.testing.assert_array_equal(host(table).ravel(), [0.5, -0.5, 1.0, 1.0])

    dense = (third, [third.scale_loss(tf.ones((4, 1)))])
    assert mk.apply_losses(optimizer, [(first, [rows(first, 0)]), dense], [table])
    np.testing.assert_array_equal(host(table).ravel(), [-1.0, -1.5, 0.0, 0.0])


def test_wrong_updates_are_refused():
    (variable, _), (optimizer, _) = pair()
    update = (optimizer, [ops.ones(1)], [variable])

    for updates, skip, message in (
        ([], "joint", "no update"),
        ([update, update], "joint", "twice"),
        ([update], "both", "'independent' or 'joint'"),
        ([(keras.optimizers.SGD(1.0), [ops.ones(1)], [variable])], "joint", "LossScaleOptimizer"),
    ):
        with pytest.raises(InputError, match=message):
            mk.apply_together(updates, skip=skip)


def test_an_update_together_of_a_loss_that_was_never_scaled_is_an_error():
    (variable, _), (optimizer, _) = pair()

    with pytest.raises(LossScaleError, match="never multiplied"):
        mk.apply_together([(optimizer, [ops.ones(1)], [variable])])


def test_wrong_losses_are_refused():
    variable, scaler = keras.Variable(np.ones(1, "float32")), mk.LossScaler(2.0)
    scaler.scale_loss(1.0)
    ones = [ops.ones(1)]

    for losses, error, message in (
        ([], InputError, "no loss"),
        ([(scaler, ones), (scaler, ones)], InputError, "twice"),
        ([("dynamic", ones)], InputError, "received 'dynamic'"),
        ([(mk.LossScaler(2.0), ones)], LossScaleError, "never multiplied"),
        ([(scaler, [None])], LossScaleError, "all 1 gradients are None"),
    ):
        with pytest.raises(error, match=message):
            mk.apply_losses(keras.optimizers.SGD(1.0), losses, [variable])


def test_an_optimizer_that_scales_its_loss_takes_no_scaled_losses():
    (variable, _), (optimizer, _) = pair()
    scaler = mk.LossScaler(2.0)
    scaler.scale_loss(1.0)

    for taken in (optimizer, optimizer.inner_optimizer):
        with pytest.raises(LossScaleError, match="already"):
            mk.apply_losses(taken, [(scaler, [ops.ones(1)])], [variable])


def test_an_optimizer_whose_losses_are_scaled_is_not_wrapped_as_well():
    variable, scaler = keras.Variable(np.ones(1, "float32")), mk.LossScaler(FixedScale(2.0), name="penalty")
    inner = keras.optimizers.SGD(1.0)
    for _ in range(2):
        assert mk.apply_losses(inner, [(scaler, [scaler.scale_loss(ops.ones(1))])], [variable])

    with pytest.raises(LossScaleError, match="'penalty' already"):
        mk.LossScaleOptimizer(inner)

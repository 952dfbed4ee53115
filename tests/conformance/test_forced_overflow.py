"""The same overflows lead to the same skips and the same scales, on every backend and in every kind of loop."""

import itertools

import numpy as np
import pytest

from . import expected
from .steps import host
from .training import LOOPS


class Notes:
    """What a loop did: the weights, the scale and the iterations before the first step and after each."""

    def begin(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.weights, self.scales, self.iterations, self.applied = [], [], [], []
        self._take()

    def __call__(self, applied):
        self.applied.append(applied)
        self._take()

    def _take(self):
        self.weights.append([host(variable) for variable in self.model.trainable_variables])
        self.scales.append(self.optimizer.read_state().scale)
        self.iterations.append(int(host(self.optimizer.iterations)))


@pytest.mark.parametrize("loop", LOOPS)
def test_forced_overflows_skip_the_same_steps_with_the_same_scales(loop):
    notes = Notes()

    LOOPS[loop](notes)

    assert tuple(notes.scales[:-1]) == expected.SCALES
    assert notes.scales[-1] == expected.FINAL_SCALE
    for (before, after), applied in zip(itertools.pairwise(notes.weights), expected.APPLIED, strict=True):
        unchanged = [np.array_equal(one, other) for one, other in zip(before, after, strict=True)]
        assert not any(unchanged) if applied else all(unchanged)
    assert all(np.isfinite(values).all() for values in notes.weights[-1])
    assert notes.iterations == [0, *np.cumsum(expected.APPLIED)]
    assert all(said in (None, applied) for said, applied in zip(notes.applied, expected.APPLIED, strict=True))
    state = notes.optimizer.read_state()
    assert {name: state.counters[name] for name in expected.COUNTS} == expected.COUNTS
    assert state.history == expected.HISTORY
    assert {variable.dtype for variable in notes.model.trainable_variables} == {"float32"}

"""The expected improvement against an integral, and the choice that follows from it."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchstone.core.schema.search import Part, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.acquisition import CONFIRMED, SearchState, expected_improvement, opening
from torchstone.plugins.searchers.adaptive.gp import WHOLE

Z = np.linspace(-9.0, 9.0, 20_001)
WEIGHTS = np.exp(-0.5 * Z**2) / np.exp(-0.5 * Z**2).sum()


@given(st.floats(-3, 3), st.floats(0.01, 2))
def test_expected_improvement_is_the_integral(lead, sd):
    gain = expected_improvement(np.array([lead]), np.array([sd]))[0]
    assert gain == pytest.approx(float(np.maximum(0.0, lead + sd * Z) @ WEIGHTS), abs=1e-4)


def test_without_doubt_it_is_the_lead():
    assert expected_improvement(np.array([0.2, -0.2]), np.zeros(2)) == pytest.approx([0.2, 0.0])


AXES = {"batch_size": tuple(2**n for n in range(9)), "num_workers": (0, 2, 4)}
POINTS = tuple(dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values()))


def read(probe: Probe, cost_s: float = 1.0) -> ProbeResult:
    batch, workers = (int(str(probe.point[axis])) for axis in AXES)
    device = 0.004 + batch / 4000.0
    loader = batch * 0.001 / max(1, workers)
    step_s = {
        Part.DEVICE: device,
        Part.LOADER: loader,
        Part.WHOLE: max(loader, device) if workers else loader + device,
    }[probe.part]
    return ProbeResult(probe, Status.OK, cost_s, batch / step_s, step_s=step_s, window_s=2.0)


def after_opening() -> SearchState:
    state = SearchState(SearchProblem(AXES, POINTS))
    for choice in opening(state):
        state.add(read(Probe(state.space.points[choice.number], tuple(Part)[choice.part], choice.effort)))
    return state


def test_it_goes_on_until_the_answer_is_confirmed_and_nothing_promises_more():
    state = after_opening()
    while (choice := state.choose()) is not None:
        assert choice.part == WHOLE
        state.add(read(Probe(state.space.points[choice.number], Part.WHOLE, choice.effort)))
    answer = state.measured[0]
    assert state.count[WHOLE, answer] >= CONFIRMED
    truth = [-math.log(read(Probe(point)).value or math.nan) for point in POINTS]
    assert truth[answer] <= min(truth) + 0.02


def test_a_dear_point_is_probed_only_where_it_promises_more_than_it_costs():
    state = after_opening()
    first = state.choose()
    assert first is not None
    for number in range(len(POINTS)):
        state.count[WHOLE, number] = 99  # read often enough, each
    assert state.choose() is None

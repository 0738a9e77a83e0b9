"""What a probe will cost: cheap settings tell the price of dear ones."""

import math

import pytest

from torchstone.core.schema.search import Part, Probe, ProbeResult, SearchProblem
from torchstone.core.schema.trial import Status
from torchstone.plugins.searchers.adaptive.costs import Costs
from torchstone.plugins.searchers.adaptive.space import Space

BATCHES, WORKERS = (1, 64, 512, 4096), (0, 2, 4, 16)
POINTS = tuple({"batch_size": b, "num_workers": w} for b in BATCHES for w in WORKERS)
SPACE = Space(SearchProblem({"batch_size": BATCHES, "num_workers": WORKERS}, POINTS))
STEP_S = {1: 0.002, 64: 0.005, 512: 0.02, 4096: 0.15}


def taken(batch, workers, effort, part=Part.WHOLE):
    """A trial that starts for 0.5 s, drains the loader's queue, and measures 2 s or two turns of the queue."""
    step_s, turn = STEP_S[batch], 2 * workers * STEP_S[batch]
    window_s = max(2.0 * effort, 5 * step_s, 2 * turn)
    cost_s = 0.5 + 0.03 * workers + 1.5 * turn + 3 * step_s + window_s
    return ProbeResult(
        Probe({"batch_size": batch, "num_workers": workers}, part, effort), Status.OK, cost_s, 1.0, step_s=step_s,
        window_s=window_s,
    )  # fmt: skip


def taught():
    costs = Costs(SPACE)
    costs.learn([taken(64, 0, 0.3), taken(64, 2, 0.3), taken(512, 4, 0.3), taken(512, 2, 1.0), taken(64, 4, 1.0)])
    return costs


@pytest.mark.parametrize(("batch", "workers"), [(4096, 16), (4096, 0), (512, 16), (1, 4)])
def test_tells_the_price_of_what_was_never_tried(batch, workers):
    number = POINTS.index({"batch_size": batch, "num_workers": workers})
    foretold_s = taught().of(number, Part.WHOLE, STEP_S[batch], 1.0)
    assert math.log(foretold_s / taken(batch, workers, 1.0).cost_s) == pytest.approx(0.0, abs=0.35)


def test_a_window_is_as_long_as_the_effort_says_or_two_turns_of_the_queue():
    costs = taught()
    here = lambda b, w: POINTS.index({"batch_size": b, "num_workers": w})
    assert costs.window_s(here(64, 0), Part.WHOLE, STEP_S[64], 0.5) == pytest.approx(1.0)
    assert costs.window_s(here(4096, 16), Part.WHOLE, STEP_S[4096], 0.5) == pytest.approx(64 * STEP_S[4096])
    assert costs.window_s(here(4096, 16), Part.DEVICE, STEP_S[4096], 0.1) == pytest.approx(5 * STEP_S[4096])

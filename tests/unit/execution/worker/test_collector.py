"""A trial that measured everything ended well, unless its loss diverged."""

import math

import pytest
from build import a_case

from torchstone.core.schema.trial import Outcome, Status
from torchstone.execution.worker.collector import Collector

NAN, INF = math.nan, math.inf


def ended(losses, laps=0):
    tally = Collector(a_case())
    tally.warmed_up([0.1] * laps, settled=True)
    tally.steady("loss", losses)
    return tally.outcome()


@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([2.0, 1.0, NAN, NAN], "the loss is nan from step 3 of 4"),
        ([INF, NAN], "the loss is inf from step 1 of 2"),
        ([2.0, NAN, 1.0, NAN, 1.0], "the loss is nan in 2 of 5 steps, first in step 2"),
    ],
)
def test_a_diverged_loss_is_named_with_its_step(losses, message):
    assert ended(losses) == Outcome(Status.CRASHED, message)


def test_of_a_long_run_the_last_loss_is_that_of_the_last_step():
    assert ended([1.0, 1.0, NAN], laps=9).message == "the loss is nan from step 10 of 10"


def test_sound_losses_and_none_at_all_are_well():
    assert ended([2.0, 1.0]).status == Status.OK
    assert Collector(a_case()).outcome() == Outcome(Status.OK)

"""The learning rate over a training."""

import pytest

from torchstone.core.schema.fit import SCHEDULES, Fit
from torchstone.execution.worker.fit_schedule import factor


@pytest.mark.parametrize(
    ("schedule", "last", "middle"), [("constant", 1.0, 1.0), ("linear", 1 / 90, 0.5), ("cosine", 3e-4, 0.5)]
)
def test_it_rises_over_the_share_asked_for_and_then_falls_as_named(schedule, last, middle):
    fit = Fit(schedule=schedule, warmup_share=0.1)
    assert [factor(fit, step, 100) for step in (0, 4, 9)] == [0.1, 0.5, 1.0]
    assert factor(fit, 10, 100) == 1.0
    assert factor(fit, 55, 100) == pytest.approx(middle)
    assert factor(fit, 99, 100) == pytest.approx(last, rel=0.02)
    assert factor(fit, 150, 100) >= 0.0, "a training that goes on for longer than planned never climbs downhill"


def test_without_a_rise_it_begins_at_the_full_rate():
    assert all(factor(Fit(schedule=word), 0, 10) == 1.0 for word in SCHEDULES)

"""A trial of several ranks: slowest steps, sums of items, what communication costs, and who is late."""

import pytest
from build import a_trial

from torchstone.core.figures import figures
from torchstone.core.over_ranks import over_ranks, slowest, throughputs
from torchstone.core.schema.trial import Measurement, Stage


def measured(metric, values, rank, window="throughput"):
    return Measurement(metric, Stage.STEADY, tuple(values), window, rank=rank)


def two_ranks(**others):
    """Two ranks of 4 items a step; rank 1 is slower in the second step."""
    second = [
        measured("step_time_s", (0.010, 0.030, 0.010), 1), measured("items", (4.0, 4.0, 4.0), 1),
        measured("window_time_s", (0.050,), 1), measured("peak_rss_bytes", (300.0,), 1, None),
    ]  # fmt: skip
    first = measured("peak_rss_bytes", (200.0,), 0, None)
    return a_trial((0.010, 0.020, 0.010), items=4.0, more=(first, *second), **others)


def test_a_trial_of_one_rank_is_itself():
    trial = a_trial()
    assert over_ranks(trial) is trial


def test_a_step_is_the_slowest_ranks_and_items_add_up():
    found = figures(two_ranks()).values
    assert found["step_time_max"] == 0.030
    assert found["total_items"] == 24
    assert found["throughput"] == pytest.approx(24 / 0.050)
    assert found["peak_rss_bytes"] == 500.0
    assert found["time_per_item_s"] == pytest.approx(0.050 / 24)


def test_each_rank_has_its_own_rate():
    assert dict(throughputs(two_ranks().measurements)) == {0: pytest.approx(12 / 0.040), 1: pytest.approx(12 / 0.050)}


def test_ranks_with_different_numbers_of_values_count_what_all_have():
    trial = a_trial((0.1, 0.2), more=(measured("step_time_s", (0.3,), 1),))
    assert over_ranks(trial).values("step_time_s") == (0.3,)


def compared(alone, together, communication=()):
    more = [measured("unsynchronized_step_time_s", values, rank, "communication") for rank, values in enumerate(alone)]
    more += [
        measured("synchronized_step_time_s", values, rank, "communication") for rank, values in enumerate(together)
    ]
    more += [
        measured("communication_time_s", values, rank, "communication") for rank, values in enumerate(communication)
    ]
    return a_trial(more=more)


def test_hidden_is_the_communication_that_makes_no_step_longer():
    trial = compared([[0.010] * 4, [0.012] * 4], [[0.015] * 4] * 2, [[0.006] * 4] * 2)
    found = figures(trial).values
    assert found["compute_step_time_s"] == pytest.approx(0.012)
    assert found["exposed_communication_s"] == pytest.approx(0.003)
    assert found["communication_time_s"] == pytest.approx(0.006)
    assert found["communication_overlap"] == pytest.approx(0.5)


def test_of_one_rank_nothing_is_communicated_and_nobody_is_late():
    found = figures(compared([[0.010] * 4], [[0.011] * 4])).values
    assert "communication_overlap" not in found
    assert "slowest_rank_excess" not in found


def test_the_slowest_rank_is_named_with_its_share_and_excess():
    late = slowest(compared([[0.010] * 5, [0.012, 0.012, 0.012, 0.012, 0.009], [0.010] * 5], [[0.02] * 5] * 3))
    assert late is not None
    assert (late.rank, late.share) == (1, 0.8)
    assert late.excess == pytest.approx(0.14)


def test_few_steps_name_nobody():
    assert slowest(compared([[0.01] * 2, [0.02] * 2], [[0.02] * 2] * 2)) is None

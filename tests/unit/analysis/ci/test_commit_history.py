"""What is kept of a commit; and slow drift: small steps that pass one by one, and are proven together."""

import math
import random

import msgspec
import pytest
from ci_results import BASE, ERROR, HEAD, OPEN, SAME, SLOWER, a_commit, a_point, an_entry, assessed

from torchstone.analysis.ci import NothingToKeep, history_entry, traces
from torchstone.core.errors import ExitCode
from torchstone.core.schema.ci import CiBenchmark, HistoryEntry, HistoryPoint, State
from torchstone.core.stats.student import normal_quantile


def test_steps_that_pass_alone_are_proven_together():
    (one,) = traces([an_entry(number, a_point(0.008)) for number in range(1, 31)])
    assert one.drift is not None
    assert one.drift.ratio.trials == 30
    assert one.drift.ratio.value == pytest.approx(math.exp(0.24))
    assert (one.drift.ratio.low or 0.0) < one.drift.ratio.value < (one.drift.ratio.high or 0.0)
    assert one.steps[-1].total.value == pytest.approx(math.exp(0.24))
    half = normal_quantile(0.975) * ERROR * math.sqrt(30)
    assert one.steps[-1].total.low == pytest.approx(math.exp(0.24 - half)), "independent errors add in squares"


@pytest.mark.parametrize("step", [0.4, -0.4])
def test_a_step_that_is_proven_alone_is_no_drift_and_hides_none(step):
    (one,) = traces([an_entry(1, a_point(0.0)), an_entry(2, a_point(abs(step)))])
    assert one.drift is None
    logs = [0.008] * 20 + [step]
    (one,) = traces([an_entry(number, a_point(log)) for number, log in enumerate(logs, 1)])
    assert one.drift is not None
    assert one.drift.ratio.trials == 20
    assert one.drift.ratio.value == pytest.approx(math.exp(0.16))
    assert one.steps[-1].total.value == pytest.approx(math.exp(0.16 + step)), "the chain has it"


def test_a_drift_that_ended_long_ago_is_not_told_again_by_the_newest():
    logs = [0.02] * 10 + [0.0] * 200
    (one,) = traces([an_entry(number, a_point(log)) for number, log in enumerate(logs, 1)])
    assert one.drift is None


def test_equal_code_drifts_in_less_than_one_history_of_twenty():
    rng = random.Random(7)
    found = 0
    for _ in range(400):
        logs = [rng.gauss(0.0, ERROR) for _ in range(40)]
        # At the limit itself: the worst case of "not slower by more than the limit".
        logs[-5] += math.log1p(0.02)
        (one,) = traces([an_entry(number, a_point(log)) for number, log in enumerate(logs, 1)])
        found += one.drift is not None
    assert found <= 400 * 0.05


def test_a_gap_begins_a_new_chain():
    entries = [an_entry(1, a_point(0.5)), an_entry(3, a_point(0.01)), an_entry(4), an_entry(5, a_point(0.01))]
    (one,) = traces(entries)
    assert [step.begins for step in one.steps] == [True, True, True]
    assert one.steps[-1].total.value == pytest.approx(math.exp(0.01))


def test_commits_of_one_second_are_in_the_order_of_their_bases():
    at = "2026-11-01T00:00:00+00:00"
    (one,) = traces([an_entry(number, a_point(0.01), at=at) for number in (3, 1, 2)])
    assert [step.total.run_id for step in one.steps] == [a_commit(1), a_commit(2), a_commit(3)]
    assert [step.begins for step in one.steps] == [True, False, False]


def test_a_ring_and_an_interval_that_is_none_end():
    ring = [an_entry(1, a_point(0.01), base=2), an_entry(2, a_point(0.01), base=1)]
    assert len(traces(ring)[0].steps) == 2
    bent = HistoryPoint("a", "slower", 1.0, 1.2, 1.1, 0.99)
    assert traces([an_entry(1, bent, HistoryPoint("b", "failed"))]) == []


def test_an_entry_has_the_ratio_of_each_benchmark_and_is_read_back_as_it_was():
    failed = CiBenchmark("c", (), State.FAILED, why="it fell over")
    kept = history_entry(assessed({"a": SLOWER, "b": OPEN}, others=[failed], more={"device": "d" * 300}))
    assert (kept.commit, kept.base, kept.committed_utc, kept.limit) == (HEAD, BASE, "2026-11-21T09:00:00+00:00", 0.02)
    assert [(one.name, one.verdict) for one in kept.points] == [("a", "slower"), ("b", "undecided"), ("c", "failed")]
    assert [(one.ratio, one.low, one.high) for one in kept.points] == [SLOWER, OPEN, (None, None, None)]
    assert [one.level for one in kept.points[:2]] == [0.995, 0.995]
    assert msgspec.json.decode(msgspec.json.encode(kept), type=HistoryEntry) == kept


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"ratios": {"a": SAME}, "base": None, "why_no_base": "origin/main is gone"}, "origin/main is gone"),
        ({"ratios": {"a": None}}, "no benchmark has a ratio"),
        ({"ratios": {"a": SAME}, "control": SLOWER}, "differs from itself"),
    ],
)
def test_a_commit_without_a_ratio_that_can_be_relied_on_is_not_kept(changes, why):
    with pytest.raises(NothingToKeep, match=why) as fault:
        history_entry(assessed(**changes))
    assert fault.value.exit_code is ExitCode.FAILED

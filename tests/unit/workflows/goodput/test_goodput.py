"""The search for goodput against a simulated queue: what it takes, in which order, and what it leaves."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from loads import a_load, a_load_case

from torchstone.analysis.goodput import load_reading
from torchstone.core.schema.procedure import Procedure
from torchstone.core.schema.trial import Outcome, Purpose, Status
from torchstone.core.stats.rate_search import crossed
from torchstone.execution.controller.active_run import OutOfTime
from torchstone.workflows.goodput import Search, paced

SERVICE, BOUND_S = 200.0, 0.05  # an M/M/1 queue of 200 queries/s
TRUTH = SERVICE - math.log(100.0) / BOUND_S


class Queue:
    """An open run whose loads are those of a queue, and a clock that they move."""

    bound_s, max_wait_s = BOUND_S, 0.0

    def __init__(self, within_s=200.0, load_s=5.0, alone_s=0.005, stops_after=math.inf):
        self.session = SimpleNamespace(procedure=Procedure(within_s=within_s))
        self.taken, self.now_s, self.stages = [], 0.0, []
        self._load_s, self._alone_s, self._stops_after = load_s, alone_s, stops_after
        self._dice = np.random.default_rng(7)

    def at(self, rate):
        return a_load_case(rate)

    def of(self, scenario, **settings):
        return a_load_case(scenario=scenario, **settings)

    def add(self, case):
        pass

    def elapsed_s(self):
        return self.now_s

    def stage(self, text):
        self.stages.append(text)

    def ended(self, case, trial):
        pass

    def take(self, case, number, purpose):
        if len(self.taken) >= self._stops_after:
            raise OutOfTime
        self.now_s += self._load_s
        trial = self._loaded(case, number, purpose)
        self.taken.append((case, trial))
        return trial

    def _loaded(self, case, number, purpose):
        rate = float(case.configuration["target_qps"])
        if not rate:
            return a_load(case, 0, 1000, p99_s=4 * self._alone_s, number=number, purpose=purpose)
        gaps, times = self._dice.exponential(1 / rate, 10_000), self._dice.exponential(1 / SERVICE, 10_000)
        walk = np.concatenate([[0.0], np.cumsum(times[:-1] - gaps[1:])])
        late = int((walk - np.minimum.accumulate(walk) + times > BOUND_S).sum())
        return a_load(case, late, 10_000, number=number, purpose=purpose)


def searched(queue, rounds=None):
    return Search(queue, queue, queue, rounds).carry_out()


def finals(queue):
    return [(c, t) for c, t in queue.taken if t.purpose == Purpose.REPLICATE]


def test_it_finds_the_limit_of_a_queue_in_the_time_it_has():
    queue = Queue()
    assert searched(queue) is None
    found = crossed([load_reading(float(c.configuration["target_qps"]), t.facts) for c, t in finals(queue)])
    assert found is not None
    assert found.x == pytest.approx(TRUTH, rel=0.05)
    assert found.low is not None
    assert found.high is not None
    assert found.low < TRUTH < found.high
    assert queue.now_s <= 200.0
    assert len(finals(queue)) % 3 == 0
    assert [c.configuration["scenario"] for c, _ in queue.taken[:3]] == ["offline", "single_stream", "server"]
    assert queue.taken[1][0].configuration["batch_size"] == 1


def test_trials_of_one_case_are_numbered_one_after_another():
    queue = Queue()
    searched(queue)
    seen: dict[str, list[int]] = {}
    for case, trial in queue.taken:
        seen.setdefault(case.case_id, []).append(trial.number)
    assert all(numbers == list(range(len(numbers))) for numbers in seen.values())


def test_so_many_rounds_as_asked_for():
    queue = Queue(within_s=10_000.0)
    searched(queue, rounds=2)
    assert len(finals(queue)) == 6


def test_a_bound_below_the_latency_alone_ends_it_after_two_loads():
    queue = Queue(alone_s=0.06)
    assert searched(queue) == "the median latency of a query that is alone is above the bound"
    assert len(queue.taken) == 2


def test_without_a_capacity_there_is_nothing_to_search():
    queue = Queue()
    queue._loaded = lambda case, number, purpose: a_load(  # type: ignore[method-assign]
        case, measurements=(), outcome=Outcome(Status.CRASHED, "it broke"), facts={}
    )
    assert searched(queue) == "the capacity is not known: crashed"
    assert len(queue.taken) == 1


def test_a_search_that_takes_half_of_the_time_leaves_the_rest_to_the_rounds():
    queue = Queue(within_s=40.0)
    searched(queue)
    assert len(finals(queue)) >= 6, "two rounds at least"


def test_out_of_time_is_told_to_who_called():
    with pytest.raises(OutOfTime):
        searched(Queue(stops_after=9))


def test_loads_are_as_long_as_the_time_lets_them():
    assert paced(Procedure()).within_s == 120.0
    assert paced(Procedure()).budget_s == 5.0
    assert paced(Procedure(within_s=40.0)).budget_s == 2.0
    assert paced(Procedure(within_s=5.0)).budget_s == 1.0
    assert paced(Procedure(within_s=600.0, budget_s=20.0)).budget_s == 20.0

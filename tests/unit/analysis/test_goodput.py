"""Goodput read from a run: the rate where 1 % of the queries are late, and what LoadGen called VALID."""

from pathlib import Path

import msgspec
import pytest
from loads import a_load, a_load_case, a_search

from torchstone.analysis.goodput import goodputs, load_reading
from torchstone.analysis.summary import summarize
from torchstone.core.schema.facts import Facts
from torchstone.core.schema.trial import Outcome, Purpose, Status
from torchstone.core.stats.rate_search import LoadReading
from torchstone.storage.query import entry_of


def found_in(run):
    (found,) = goodputs(summarize(entry_of(run, Path())))
    return found


def test_the_rate_is_where_one_in_a_hundred_is_late_with_an_interval_of_the_rounds():
    found = found_in(a_search())
    assert found.rate == pytest.approx(100.0, rel=0.01)
    assert found.low < 100.0 < found.high
    assert (found.trials, found.rates, found.bound_s) == (9, 3, 0.05)
    assert found.valid == (92.0, 3)
    assert found.alone_p50_s == pytest.approx(0.0025)
    assert found.met_any


def test_probes_alone_make_a_rate_without_an_interval():
    run = a_search()
    probes = [t for t in run.trials if t.purpose == Purpose.PROBE]
    near = [
        a_load(a_load_case(rate), late, 100_000, purpose=Purpose.PROBE) for rate, late in ((92.0, 300), (108.0, 3000))
    ]
    found = found_in(msgspec.structs.replace(run, trials=(*probes, *near)))
    assert found.rate == pytest.approx(100.0, rel=0.03)
    assert (found.low, found.high, found.trials) == (None, None, 0)


def test_where_no_rate_meets_the_bound_there_is_none():
    late = [a_load(a_load_case(rate), 50_000, 100_000, p99_s=0.07) for rate in (80.0, 92.0)]
    found = found_in(a_search(trials=late))
    assert (found.rate, found.valid, found.met_any) == (None, None, False)
    assert (found.lowest, found.lowest_p99_s) == (80.0, pytest.approx(0.07))


def test_a_search_that_ended_before_any_rate_has_what_it_knows():
    found = found_in(a_search(trials=[a_load(a_load_case(batch_size=1), p99_s=0.4)]))
    assert (found.rate, found.lowest, found.met_any) == (None, None, False)
    assert found.alone_p50_s == pytest.approx(0.1)


def test_failed_loads_do_not_count():
    run = a_search()
    broken = msgspec.structs.replace(run.trials[-1], outcome=Outcome(Status.CRASHED, "gone"), facts=Facts())
    found = found_in(msgspec.structs.replace(run, trials=(*run.trials[:-1], broken)))
    assert found.trials == 8
    assert load_reading(5.0, Facts()) == LoadReading(5.0, 0.0, 0.0)
    assert not load_reading(5.0, Facts()).met

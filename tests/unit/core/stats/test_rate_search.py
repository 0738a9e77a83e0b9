"""The search for the highest rate that meets a bound: bracket, rates of a round, and the crossing."""

import pytest

from torchstone.core.stats.rate_search import Bracket, Reading, bracket, crossed, middle_of, moved, rates_about


def bracketed(limit, capacity=1000.0):
    """Answer as a queue would that keeps to its bound up to `limit`; return the bracket and the rates tried."""
    search, tried = bracket(capacity), []
    rate = next(search)
    while True:
        tried.append(rate)
        try:
            rate = search.send(rate <= limit)
        except StopIteration as end:
            return end.value, tried


@pytest.mark.parametrize("limit", [50.0, 300.0, 700.0, 950.0, 2400.0])
def test_the_bracket_holds_the_limit_and_is_narrow(limit):
    found, tried = bracketed(limit)
    assert found.met <= limit * 1.005  # rates are rounded to three digits
    assert limit <= found.missed * 1.005
    assert found.missed / found.met <= 1.101
    assert len(tried) <= 13


def test_where_no_rate_meets_the_bound_the_search_ends():
    found, tried = bracketed(0.0)
    assert found.met is None
    assert min(tried) > 1000.0 / 32.0 * 0.9
    assert middle_of(found) is None


def test_where_every_rate_meets_it_the_search_ends_too():
    found, tried = bracketed(1e9)
    assert found.missed is None
    assert max(tried) <= 8000.0
    assert middle_of(found) == found.met


def test_the_rates_of_a_round_lie_about_the_brackets_middle_and_follow_what_was_read():
    middle = middle_of(Bracket(100.0, 110.25))
    assert middle is not None
    assert rates_about(middle) == (96.6, 105.0, 113.0)
    late = {96.6: 10.0, 105.0: 30.0, 113.0: 60.0, 120.0: 100.0}
    assert moved(105.0, [Reading(rate, count, 10_000.0) for rate, count in late.items()]) == pytest.approx(
        120.0, rel=0.03
    )
    at_105 = [Reading(rate, count, 10_000.0) for rate, count in ((97.0, 50.0), (105.0, 100.0), (113.0, 200.0))]
    assert moved(105.0, at_105) == 105.0, "close enough: replicates of the same rates"


def test_a_round_that_only_misses_or_only_meets_moves_on():
    missed = [Reading(rate, 8_000.0, 10_000.0) for rate in (97.0, 105.0, 113.0)]
    assert moved(105.0, missed) == pytest.approx(105.0 / 1.2)
    assert moved(105.0, [Reading(r.rate, 0.0, r.of) for r in missed]) == pytest.approx(105.0 * 1.2)
    assert moved(105.0, []) == 105.0


def test_readings_of_failed_and_overloaded_loads_do_not_count():
    good = [Reading(96.0, 50.0, 10_000.0), Reading(100.0, 100.0, 10_000.0), Reading(104.0, 200.0, 10_000.0)]
    alone = crossed(good)
    assert alone is not None
    assert alone.x == pytest.approx(100.0, rel=0.01)
    assert crossed([*good, Reading(100.0, 0.0, 0.0), Reading(112.0, 9_000.0, 10_000.0)]) == alone
    assert crossed([]) is None

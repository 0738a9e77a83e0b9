"""The search for the highest rate that meets a bound: bracket, rates of a round, and the crossing."""

import math

import pytest

from torchstone.core.stats.rate_search import (
    Bracket,
    Count,
    LoadReading,
    bracket,
    crossed,
    crossing,
    middle_of,
    next_rate,
    rates_about,
)


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
    assert next_rate(105.0, [LoadReading(rate, count, 10_000.0) for rate, count in late.items()]) == pytest.approx(
        120.0, rel=0.03
    )
    at_105 = [LoadReading(rate, count, 10_000.0) for rate, count in ((97.0, 50.0), (105.0, 100.0), (113.0, 200.0))]
    assert next_rate(105.0, at_105) == 105.0, "close enough: replicates of the same rates"


def test_a_round_that_only_misses_or_only_meets_moves_on():
    missed = [LoadReading(rate, 8_000.0, 10_000.0) for rate in (97.0, 105.0, 113.0)]
    assert next_rate(105.0, missed) == pytest.approx(105.0 / 1.2)
    assert next_rate(105.0, [LoadReading(r.rate, 0.0, r.of) for r in missed]) == pytest.approx(105.0 * 1.2)
    assert next_rate(105.0, []) == 105.0


def test_readings_of_failed_and_overloaded_loads_do_not_count():
    good = [LoadReading(96.0, 50.0, 10_000.0), LoadReading(100.0, 100.0, 10_000.0), LoadReading(104.0, 200.0, 10_000.0)]
    alone = crossed(good)
    assert alone is not None
    assert alone.x == pytest.approx(100.0, rel=0.01)
    assert crossed([*good, LoadReading(100.0, 0.0, 0.0), LoadReading(112.0, 9_000.0, 10_000.0)]) == alone
    assert crossed([]) is None


def on_the_line(xs, slope=0.5, at=10.0, share=0.01, of=1e6):
    return [Count(x, of * share * math.exp(slope * (x - at)), of) for x in xs]


def test_counts_on_a_line_cross_where_the_line_does():
    found = crossing(on_the_line([8.0, 9.0, 10.0, 11.0]), 0.01)
    assert found is not None
    assert found.x == pytest.approx(10.0, rel=1e-6)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 10.0 < found.high
    assert found.high - found.low < 0.1


def test_noisier_counts_have_a_wider_interval():
    def width(noise):
        counts = [Count(c.x, c.counted * factor, c.of) for c, factor in zip(
            on_the_line([8.0, 8.0, 10.0, 10.0, 12.0, 12.0]), [1 + noise, 1 - noise] * 3, strict=True)]  # fmt: skip
        found = crossing(counts, 0.01)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(0.05) < width(0.2) < width(0.4)


@pytest.mark.parametrize(
    "counts",
    [
        [],
        [Count(1.0, 5.0, 100.0)],
        [Count(1.0, 5.0, 100.0)] * 4,  # one x
        [Count(1.0, 0.0, 100.0), Count(2.0, 0.0, 100.0)],  # nothing was counted
        [Count(1.0, 9.0, 100.0), Count(2.0, 5.0, 100.0), Count(3.0, 1.0, 100.0)],  # it falls
        [Count(1.0, 0.0, 0.0), Count(2.0, 1.0, 100.0)],  # of nothing
    ],
)
def test_counts_that_show_no_growth_have_no_crossing(counts):
    assert crossing(counts, 0.01) is None


def test_two_counts_have_a_crossing_without_an_interval():
    found = crossing(on_the_line([9.0, 11.0]), 0.01)
    assert found is not None
    assert found.x == pytest.approx(10.0, rel=1e-6)
    assert found.low is None
    assert found.high is None


def test_growth_that_is_not_significant_has_no_interval():
    found = crossing([Count(1.0, 2.0, 100.0), Count(2.0, 1.0, 100.0), Count(3.0, 3.0, 100.0)], 0.01)
    assert found is None or (found.low is None and found.high is None)


def test_a_share_outside_0_and_1_is_refused():
    with pytest.raises(ValueError, match="not between 0 and 1"):
        crossing([], 1.0)

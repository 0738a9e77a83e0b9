"""Goodput of simulated queues whose truth is known: is the rate found, does its interval hold it?"""

import math

import numpy as np
import pytest

from torchstone.core.stats.rate_search import ALLOWED, LoadReading, bracket, crossed, middle_of, next_rate, rates_about

QUERIES, ROUNDS, SEARCHES = 8000, 4, 80


def latencies(dice, rate, queries, service):
    """Times from arrival to answer: one server, Poisson arrivals, a mean service time of 1 (Lindley 1952)."""
    gaps = dice.exponential(1.0 / rate, queries)
    times = dice.exponential(1.0, queries) if service == "M" else np.ones(queries)
    walk = np.concatenate([[0.0], np.cumsum(times[:-1] - gaps[1:])])
    return walk - np.minimum.accumulate(walk) + times


def truth(bound, service):
    """M/M/1: exponential with rate 1 - arrivals (Kleinrock 1975, §3.2). M/D/1: a very long simulation."""
    if service == "M":
        return 1.0 - math.log(1.0 / ALLOWED) / bound
    low, high = 0.1, 0.999
    for _ in range(12):
        middle = (low + high) / 2
        late = (latencies(np.random.default_rng(1), middle, 2_000_000, service) > bound).mean()
        low, high = (middle, high) if late <= ALLOWED else (low, middle)
    return low


def searched(seed, bound, service):
    dice = np.random.default_rng(seed)

    def late(rate):
        return float((latencies(dice, rate, QUERIES, service) > bound).sum())

    search = bracket(1.0)
    rate = next(search)
    try:
        while True:
            rate = search.send(late(rate) <= ALLOWED * QUERIES)
    except StopIteration as end:
        found = end.value
    readings: list[LoadReading] = []
    middle = middle_of(found)
    assert middle is not None
    for _ in range(ROUNDS):
        readings += [LoadReading(one, late(one), QUERIES) for one in rates_about(middle)]
        middle = next_rate(middle, readings)
    return crossed(readings)


@pytest.mark.parametrize(("service", "bound"), [("M", 10.0), ("M", 30.0), ("D", 5.0), ("D", 12.0)])
def test_the_rate_found_is_the_true_one_and_its_interval_holds_it(service, bound):
    true = truth(bound, service)
    found = [one for seed in range(SEARCHES) if (one := searched(seed, bound, service)) is not None]
    assert len(found) >= 0.97 * SEARCHES
    errors = np.array([one.x / true - 1.0 for one in found])
    assert abs(errors.mean()) < 0.01
    assert np.median(abs(errors)) < 0.025
    assert (abs(errors) < 0.05).mean() > 0.88
    ends = [(one.low, one.high) for one in found if one.low is not None and one.high is not None]
    assert len(ends) >= 0.8 * SEARCHES
    held = np.mean([low <= true <= high for low, high in ends])
    # 95 % claimed; 3 standard errors of so many searches below, and for the few without an interval.
    assert held > 0.95 - 3.0 * math.sqrt(0.95 * 0.05 / len(ends)) - 0.02

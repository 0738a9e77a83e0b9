"""What would decide an undecided benchmark, and what it costs."""

import msgspec
import pytest
from ci_results import OPEN, a_comparison

from torchstone.analysis.ci import of_the_job, price_of, within_words
from torchstone.core.messages import not_compared
from torchstone.core.schema.advice import Statement, Value
from torchstone.core.schema.comparison import OtherThreads

COMMAND = ("torchstone", "ab", "a", "b", "--config", "x.yaml")
ELAPSED_S = 36.0  # 12 pairs, one every 3 s


def test_more_pairs_take_their_share_of_the_time_and_cost_what_it_costs():
    found = price_of(a_comparison(OPEN, trials_to_settle=36), COMMAND, per_hour=25.0)
    assert found.pairs == 48
    assert found.within_s is not None
    elapsed_s = found.within_s / 4.0
    assert ELAPSED_S <= elapsed_s <= 60.0, "the time of the processes, or of the test as a whole"
    assert found.cost == pytest.approx(25.0 * found.within_s / 3600.0)
    assert found.words == (*COMMAND, "--within", within_words(found.within_s))


def test_the_sooner_of_two_ways_is_told():
    other = OtherThreads(1, 3, 1.01, 14, 41.0)
    found = price_of(a_comparison(OPEN, trials_to_settle=36, with_other_threads=other), COMMAND)
    assert found.words[-4:] == ("--axis", "threads=1", "--within", "50s")
    assert (found.pairs, found.within_s, found.cost) == (14, 41.0, None)


def test_where_no_time_decides_the_margin_that_would_is_told():
    found = price_of(a_comparison(OPEN), COMMAND)
    assert (found.words, found.within_s, found.margin) == ((), None, 0.05)


@pytest.mark.parametrize("more", [0, -5, 10**12])
def test_a_stranger_s_number_of_pairs_is_no_advice(more):
    assert price_of(a_comparison(OPEN, trials_to_settle=more), COMMAND).within_s is None


@pytest.mark.parametrize("other", [(0, 5, 5.0), (1, -1, 5.0), (1, 5, float("nan")), (1, 5, -3.0), (1, 5, 1e300)])
def test_a_stranger_s_threads_are_no_advice(other):
    threads, pairs, within_s = other
    run = a_comparison(OPEN, with_other_threads=OtherThreads(threads, 3, 1.0, pairs, within_s))
    assert price_of(run, COMMAND).words == ()


def test_without_a_ratio_or_words_nothing_is_made_up():
    assert price_of(a_comparison(None), COMMAND).margin is None
    assert price_of(msgspec.structs.replace(a_comparison(OPEN), answer=None), COMMAND).within_s is None
    assert price_of(a_comparison(OPEN, trials_to_settle=5), ()).words == ()


def test_a_time_that_is_enough_is_that_of_the_whole_job():
    values: dict[str, Value] = {"pairs": 0, "fewest": 6, "budget": "10.5", "needed_s": 15.0}
    told = of_the_job(Statement("short.enough", values), 2)
    assert told == Statement("short.enough_for_all", {**values, "within": "50s"}), "two of 15 s in 70 % of the time"
    assert not_compared(told.id, told.values) == (
        "10.5 s are too short for a pair of processes; 6 pairs are needed; torchstone ci measure --within 50s is enough"
    )
    assert of_the_job(Statement("nothing_measured"), 2) == Statement("nothing_measured")


@pytest.mark.parametrize(("seconds", "words"), [(41, "50s"), (60, "60s"), (60.1, "2m"), (360, "6m")])
def test_a_time_is_rounded_up(seconds, words):
    assert within_words(seconds) == words


def test_flags_stand_before_a_program():
    found = price_of(a_comparison(OPEN, trials_to_settle=36), ("torchstone", "ab", "a", "b", "--", "python", "x.py"))
    assert found.words[-3:] == ("--", "python", "x.py")
    assert "--within" in found.words[:-3]

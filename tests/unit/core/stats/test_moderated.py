"""How much a spread is drawn towards others; whether the intervals cover: tests/statistics/test_moderated.py."""

import math

import pytest
from scipy import special, stats

from torchstone.core.stats.moderated import (
    Prior,
    Spread,
    digamma,
    half_width,
    inverse_trigamma,
    of_history,
    of_pooled,
    of_siblings,
    trial_spread,
    trigamma,
    typical_spread,
)

OWN = Spread(0.0004, 2)


def test_a_spread_is_the_sample_variance():
    assert trial_spread([1.0, 2.0, 3.0]) == Spread(1.0, 2)
    assert trial_spread([1.0]) is None


def test_without_a_prior_it_is_students():
    assert half_width(OWN, 3, None) == pytest.approx(stats.t.ppf(0.975, 2) * 0.02 / math.sqrt(3), rel=1e-9)


def test_a_prior_that_explains_the_trials_narrows_their_interval_and_one_that_does_not_leaves_it():
    alone = half_width(OWN, 3, None)
    assert half_width(OWN, 3, Prior(0.0004, 4.0, 0.2)) < 0.65 * alone
    wild = Spread(400.0 * 0.0004, 4)
    assert half_width(wild, 5, Prior(0.0004, 4.0, 0.2)) > 0.95 * half_width(wild, 5, None)


def test_a_hundred_trials_far_quieter_than_the_prior_have_the_interval_of_their_own():
    quiet = Spread(1e-10, 99)  # the densities of F at this ratio are below the least float
    assert half_width(quiet, 100, Prior(0.01, 4.0, 0.2)) == pytest.approx(half_width(quiet, 100, None), rel=1e-9)


def test_the_more_it_is_doubted_the_less_it_does():
    widths = [half_width(OWN, 3, Prior(0.0004, 4.0, doubt)) for doubt in (0.0, 0.2, 0.6, 1.0)]
    assert widths == sorted(widths)
    assert widths[-1] == pytest.approx(half_width(OWN, 3, None))


def test_equal_trials_have_an_interval_where_others_show_that_they_cannot_be_that_sure():
    assert half_width(Spread(0.0, 2), 3, Prior(0.0004, 4.0, 0.2)) > 0.0


def test_siblings_that_differ_by_chance_say_more_than_such_as_differ():
    alike, apart = [Spread(0.0004, 4)] * 6, [Spread(0.0004 * 10.0**k, 4) for k in range(-3, 3)]
    steady, loose = of_siblings(alike), of_siblings(apart)
    assert steady is not None
    assert loose is not None
    assert steady.variance == pytest.approx(0.0004)
    assert steady.df == 4.0 > loose.df


def test_one_sibling_counts_for_one_trial_and_none_for_nothing():
    assert of_siblings([Spread(0.0004, 9)]) == Prior(0.0004, 1.0, 0.2)
    assert of_siblings([]) is None
    assert of_siblings([Spread(0.0, 9)]) is None, "memory that never varies says nothing of time"


def test_history_counts_for_one_trial_and_is_doubted():
    prior = of_history(0.03)
    assert prior is not None
    assert prior.variance == pytest.approx(0.0009)
    assert prior.df == 1.0
    assert prior.doubt > 0.5
    assert of_history(0.0) is None


def test_a_pooled_spread_is_no_surer_than_what_stands_behind_it():
    assert of_pooled(Spread(0.01, 2)) == Prior(0.01, 1.0, 0.2)
    assert of_pooled(Spread(0.01, 500)) == Prior(0.01, 4.0, 0.2)


def test_the_usual_spread_is_freed_of_the_bias_of_few_trials():
    assert typical_spread([Spread(0.0009, 1e6)] * 3) == pytest.approx(0.03, rel=1e-3)
    assert typical_spread([]) is None


@pytest.mark.parametrize("x", [0.05, 0.25, 0.5, 1.0, 2.5, 7.99, 8.0, 40.0, 1e4])
def test_they_are_scipys(x):
    assert digamma(x) == pytest.approx(special.digamma(x), rel=1e-10, abs=1e-11)
    assert trigamma(x) == pytest.approx(special.polygamma(1, x), rel=1e-10)


@pytest.mark.parametrize("y", [1e-4, 0.05, 0.9, 1.0, 3.0, 500.0])
def test_the_inverse_gives_back_what_went_in(y):
    assert trigamma(inverse_trigamma(y)) == pytest.approx(y, rel=1e-9)


@pytest.mark.parametrize("function", [digamma, trigamma, inverse_trigamma])
def test_only_positive_numbers_have_one(function):
    with pytest.raises(ValueError, match="positive"):
        function(0.0)

"""The ratio of two runs: Welch's t, pairs, one trial, what trials of a run have in common, how many more it takes."""

import math

import numpy as np
import pytest
from scipy import stats

from torchstone.core.stats import comparing
from torchstone.core.stats.comparing import difference, drift_seen, of_independent, of_one, of_run, paired
from torchstone.core.stats.student import tail

A, B = [0.02, 0.05, -0.01, 0.03], [0.12, 0.08, 0.15]


def test_of_independent_values_it_is_welchs_t():
    found = difference(of_independent(A), of_independent(B))
    known = stats.ttest_ind(B, A, equal_var=False)
    assert found.p_value() == pytest.approx(known.pvalue)
    low, high = known.confidence_interval(0.95)
    assert found.interval(0.95) == pytest.approx((low, high))


def test_the_spread_of_a_run_is_that_of_its_batches_of_neighbours():
    calm = of_run([0.1, -0.1] * 6)  # each batch has the same mean
    drifting = of_run([0.1] * 6 + [-0.1] * 6)
    assert calm.variance == pytest.approx(np.var([0.1, -0.1] * 6, ddof=1) / 10), "means that agree by chance"
    assert drifting.variance > 3 * np.var([0.1, -0.1] * 6, ddof=1)
    assert (drifting.df, of_run(A[:2]).df) == (2.0, 1.0)
    three = of_run(A[:3])
    assert three.variance == pytest.approx(np.var(A[:3], ddof=1)), "three trials are three batches"
    many = [of_run(list(np.random.default_rng(seed).normal(size=10))).variance for seed in range(400)]
    assert np.mean(many) == pytest.approx(1.0, abs=0.1), "whatever the sizes of the batches"


def test_what_trials_of_a_run_have_in_common_is_not_lowered_by_more_of_them():
    found = difference(of_run(A), of_run(B))
    assert found.spread(10**6)[0] == pytest.approx(found.spread(10**7)[0], rel=1e-3)
    assert found.spread(10**6)[0] > 0.2 * math.sqrt(np.var(A) + np.var(B))


def test_runs_far_apart_and_runs_that_drift_are_known_less_well():
    near, far, farther, farthest = (of_run(A, apart).error() for apart in (0.0, 1.0, 3.0, 99.0))
    assert near < far < farther == farthest
    assert of_run(A, None).error() == of_run(A, -1.0).error() == near
    assert of_run(A, 0.0, 0.1).error() == pytest.approx(near + 0.01)
    assert of_run(A, 1.0, 0.1).error() == pytest.approx(far + 0.04), "it may have gone on"


def test_pairs_are_a_t_test_on_their_differences():
    found = paired(A[:3], B)
    known = stats.ttest_rel(B, A[:3])
    assert found.p_value() == pytest.approx(known.pvalue)
    assert found.log == pytest.approx(np.mean(B) - np.mean(A[:3]))


def test_one_trial_is_known_to_the_assumed_spread_and_no_better():
    found = difference(of_one(0.0, 0.01), of_one(0.3, 0.01))
    low, high = found.interval(0.95)
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(2 * (comparing.ASSUMED**2 + 1e-4)), rel=1e-3)
    assert low < 0.0 < high, "30 % of two processes is no news"
    with pytest.raises(ValueError, match="one trial"):
        of_run([0.1])
    with pytest.raises(ValueError, match="one value"):
        of_independent([0.1])


def test_bytes_that_are_equal_are_equal_whatever_their_logarithm():
    found = difference(of_run([math.log(3e9)] * 3), of_run([math.log(3e9)] * 5))
    assert (found.p_value(), found.interval(0.99)) == (1.0, (0.0, 0.0))
    other = difference(of_run([math.log(3e9)] * 3), of_run([math.log(4e9)] * 3))
    assert other.p_value() == 0.0


def test_how_many_more_trials_would_settle_it():
    found = difference(of_independent([0.00, 0.02, -0.02]), of_independent([0.03, 0.05, 0.01]))
    more = found.to_settle(0.95, 0.01)
    assert more is not None
    assert 1 <= more < 20
    error, df = found.spread(more)
    assert abs(found.log) > (stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * error, "found 4 times in 5"
    error, df = found.spread(more - 1)
    assert abs(found.log) < (stats.t.ppf(0.975, df) + stats.t.ppf(0.8, df)) * error, "and not with one fewer"
    equal = difference(of_independent([0.00, 0.02, -0.02]), of_independent([0.001, 0.02, -0.02]))
    assert equal.to_settle(0.95, 0.02) is not None, "shown to be the same"
    drifting = difference(of_run([0.0, 0.2, -0.2]), of_run([0.03, 0.2, -0.2]))
    assert drifting.to_settle(0.95, 0.02) is None, "more of the same drift tells nothing"


def test_a_drift_is_seen_over_all_cases_of_a_run():
    rising = [([0.0, 2.0, 4.0], [0.0, 0.05, 0.10]), ([1.0, 3.0, 5.0], [1.025, 1.076, 1.125])]
    assert drift_seen(rising) == pytest.approx(0.15, abs=0.01), "over its six places"
    assert drift_seen([(places, logs[::-1]) for places, logs in rising]) < 0.0
    noise = [([0.0, 1.0, 2.0, 3.0], [0.1, -0.1, 0.11, -0.09])]
    assert drift_seen(noise) == 0.0
    assert drift_seen([([0.0, 1.0, 2.0], [0.0, 0.1, 0.2])]) == 0.0, "three trials of one case cannot tell"
    assert drift_seen([([1.0] * 4, [0.0, 0.1, 0.2, 0.3])]) == 0.0, "a record from elsewhere without an order"


@pytest.mark.parametrize("df", [1.0, 2.5, 30.0])
@pytest.mark.parametrize("t", [0.0, 0.3, 2.0, 40.0])
def test_the_tail_is_scipys(t, df):
    assert tail(t, df) == pytest.approx(stats.t.sf(t, df), rel=1e-9)


def test_the_tail_of_a_normal_and_of_nonsense():
    assert tail(1.96, math.inf) == pytest.approx(0.025, rel=1e-3)
    with pytest.raises(ValueError, match="no tail"):
        tail(-1.0, 3.0)


def test_more_trials_of_a_run_lower_its_error_and_add_no_batches():
    assert [of_run(A[:2]).freedom(more) for more in (0, 1, 50)] == [1.0, 2.0, 2.0]
    assert [of_independent(A).freedom(more) for more in (0, 50)] == [3.0, 53.0]
    assert [of_one(0.0).freedom(more) for more in (0, 50)] == [math.inf, 2.0], "then the spread is measured"

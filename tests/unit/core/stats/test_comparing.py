"""The ratio of two runs: Welch's t, pairs, one trial, what trials of a run have in common, how many more it takes."""

import math
import random
from statistics import fmean, stdev

import numpy as np
import pytest
from scipy import stats

from torchstone.core.stats import comparing
from torchstone.core.stats.comparing import (
    LogMean,
    benjamini_hochberg,
    by_rounds,
    difference,
    drift_seen,
    holm,
    log_mean,
    of_independent,
    of_one,
    paired,
    pooled,
    prior_of,
    ratio_interval,
    residual,
    run_mean,
)
from torchstone.core.stats.interval import over_trials
from torchstone.core.stats.moderated import Spread, half_width
from torchstone.core.stats.student import tail

A, B = [0.02, 0.05, -0.01, 0.03], [0.12, 0.08, 0.15]


def test_of_independent_values_it_is_welchs_t():
    found = difference(of_independent(A), of_independent(B))
    known = stats.ttest_ind(B, A, equal_var=False)
    assert found.p_value() == pytest.approx(known.pvalue)
    low, high = known.confidence_interval(0.95)
    assert found.interval(0.95) == pytest.approx((low, high))


def test_the_spread_of_a_run_is_that_of_its_batches_of_neighbours():
    calm = run_mean([0.1, -0.1] * 6)  # each batch has the same mean
    drifting = run_mean([0.1] * 6 + [-0.1] * 6)
    assert calm.variance == pytest.approx(np.var([0.1, -0.1] * 6, ddof=1) / 10), "means that agree by chance"
    assert drifting.variance > 3 * np.var([0.1, -0.1] * 6, ddof=1)
    assert (drifting.df, run_mean(A[:2]).df) == (2.0, 1.0)
    three = run_mean(A[:3])
    assert three.variance == pytest.approx(np.var(A[:3], ddof=1)), "three trials are three batches"
    many = [run_mean(list(np.random.default_rng(seed).normal(size=10))).variance for seed in range(400)]
    assert np.mean(many) == pytest.approx(1.0, abs=0.1), "whatever the sizes of the batches"


def test_what_trials_of_a_run_have_in_common_is_not_lowered_by_more_of_them():
    found = difference(run_mean(A), run_mean(B))
    assert found.spread(10**6)[0] == pytest.approx(found.spread(10**7)[0], rel=1e-3)
    assert found.spread(10**6)[0] > 0.2 * math.sqrt(np.var(A) + np.var(B))


def test_runs_far_apart_and_runs_that_drift_are_known_less_well():
    near, far, farther, farthest = (run_mean(A, apart).error() for apart in (0.0, 1.0, 3.0, 99.0))
    assert near < far < farther == farthest
    assert run_mean(A, None).error() == run_mean(A, -1.0).error() == near
    assert run_mean(A, 0.0, 0.1).error() == pytest.approx(near + 0.01)
    assert run_mean(A, 1.0, 0.1).error() == pytest.approx(far + 0.04), "it may have gone on"


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
        run_mean([0.1])
    with pytest.raises(ValueError, match="one value"):
        of_independent([0.1])


def test_bytes_that_are_equal_are_equal_whatever_their_logarithm():
    found = difference(run_mean([math.log(3e9)] * 3), run_mean([math.log(3e9)] * 5))
    assert (found.p_value(), found.interval(0.99)) == (1.0, (0.0, 0.0))
    other = difference(run_mean([math.log(3e9)] * 3), run_mean([math.log(4e9)] * 3))
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
    drifting = difference(run_mean([0.0, 0.2, -0.2]), run_mean([0.03, 0.2, -0.2]))
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
    assert [run_mean(A[:2]).freedom(more) for more in (0, 1, 50)] == [1.0, 2.0, 2.0]
    assert [of_independent(A).freedom(more) for more in (0, 50)] == [3.0, 53.0]
    assert [of_one(0.0).freedom(more) for more in (0, 50)] == [math.inf, 2.0], "then the spread is measured"


DRIFT = {0: 0.0, 1: 0.3, 2: -0.2, 3: 0.5}


def shifted(by, noise=()):
    return {number: log + by + (noise[number] if noise else 0.0) for number, log in DRIFT.items()}


def half(found):
    low, high = found.interval(0.95)
    return (high - low) / 2.0


def test_what_hits_a_whole_round_drops_out():
    found = by_rounds(shifted(0.1, (0.01, -0.01, 0.01, -0.01)), shifted(0.0))
    assert found is not None
    assert found.log == pytest.approx(0.1)
    assert half(found) < 0.03, "the rounds themselves differ by 0.7"
    assert found.candidate.trials == 4


def test_only_common_rounds_count_and_one_is_too_few():
    assert by_rounds({0: 1.0, 1: 2.0}, {1: 1.0, 2: 5.0}) is None
    found = by_rounds({0: 1.0, 1: 2.0, 7: 99.0}, {0: 0.0, 1: 1.0})
    assert found is not None
    assert (found.log, found.candidate.trials) == (1.0, 2)


def test_other_cases_of_the_run_tell_how_far_two_may_differ_by_chance():
    noise = (0.01, -0.01, 0.012, -0.008)
    cases = [shifted(0.1 * k, noise[k:] + noise[:k]) for k in range(4)]
    fortunate = [shifted(0.0), shifted(0.001), *cases]
    alone, beside = (by_rounds(fortunate[0], fortunate[1], prior) for prior in (None, prior_of(fortunate)))
    assert alone is not None
    assert beside is not None
    assert half(alone) < 1e-6 < half(beside)
    moderated = half_width(Spread(0.0, 3), 4, prior_of(fortunate))
    assert half(beside) == pytest.approx(moderated, rel=0.01), "at 95 % that of figures"


def test_trials_of_one_template_share_something_of_it():
    pair = shifted(0.1, (0.01, -0.01, 0.01, -0.01)), shifted(0.0)
    shared, apart = (by_rounds(*pair, None, dict(zip(range(4), of, strict=True))) for of in ("aaaa", "abcd"))
    assert shared is not None
    assert apart is not None
    assert shared.spread()[0] > apart.spread()[0]


def test_the_residual_of_a_layout_with_a_hole():
    whole = [shifted(0.0), shifted(1.0), shifted(2.0)]
    del whole[1][2]
    found = residual(whole)
    assert found is not None
    assert found.variance == pytest.approx(0.0, abs=1e-12)
    assert found.df == 11 - 3 - 4 + 1
    assert residual([{0: 1.0}, {1: 2.0}]) is None


def test_holm_steps_down():
    flags, level = holm([0.01, 0.04, 0.03, 0.005], 0.05)
    assert flags == [True, False, False, True]
    assert level == pytest.approx(1 - 0.05 / 3)
    assert holm([0.2], 0.05) == ([False], 0.95)
    flags, level = holm([0.013, 0.5, 0.5, 0.5], 0.05)
    assert flags == [False] * 4, "a lone one needs more"
    assert level == pytest.approx(1 - 0.05 / 4)


def test_benjamini_and_hochberg_step_up():
    flags, level = benjamini_hochberg([0.01, 0.02, 0.03, 0.04, 0.9], 0.05)
    assert flags == [True, True, True, True, False]
    assert level == pytest.approx(1 - 0.05 * 4 / 5)
    flags, level = benjamini_hochberg([0.5, 0.6], 0.05)
    assert flags == [False, False]
    assert level == pytest.approx(0.975)


@pytest.mark.parametrize("correct", [holm, benjamini_hochberg])
def test_an_interval_of_the_level_leaves_1_out_exactly_where_a_difference_stands(correct):
    dice = random.Random(3)
    for _ in range(300):
        p_values = [dice.random() ** dice.choice((1, 8)) for _ in range(dice.randint(1, 12))]
        flags, level = correct(p_values, 0.05)
        assert flags == [p <= 1.0 - level + 1e-15 for p in p_values]


def test_no_figures_and_a_wrong_share():
    assert holm([], 0.05)[0] == []
    assert benjamini_hochberg([], 0.05)[0] == []
    with pytest.raises(ValueError, match="between 0 and 1"):
        holm([0.1], 1.0)


def measured(dice, true, deviation, trials):
    found = over_trials([true * dice.lognormvariate(0.0, deviation) for _ in range(trials)])
    return log_mean(found.value, found.low, found.high, trials)


def test_what_stood_behind_an_interval_comes_back():
    values = [10.0, 11.0, 9.5, 10.4]
    found = over_trials(values)
    back = log_mean(found.value, found.low, found.high, 4)
    assert back is not None
    assert back.log == pytest.approx(fmean(map(math.log, values)))
    assert back.deviation == pytest.approx(stdev(map(math.log, values)))


@pytest.mark.parametrize("ends", [(None, None, 3), (1.0, 3.0, 1), (0.0, 3.0, 3), (2.5, 3.0, 3)])
def test_no_interval_no_mean(ends):
    low, high, trials = ends
    assert log_mean(2.0, low, high, trials) is None


def test_the_interval_of_a_ratio_holds_the_true_one_95_times_of_100():
    dice = random.Random(5)
    held = 0
    for _ in range(1500):
        low, high = ratio_interval(measured(dice, 3.0, 0.02, 3), measured(dice, 2.0, 0.06, 5))
        held += low <= 1.5 <= high
    assert 0.93 <= held / 1500 <= 0.97


def test_two_without_any_spread_have_an_exact_ratio():
    assert ratio_interval(LogMean(math.log(3.0), 0.0, 3), LogMean(math.log(2.0), 0.0, 3)) == pytest.approx((1.5, 1.5))


def test_spread_is_pooled_by_degrees_of_freedom():
    deviation, df = pooled([LogMean(0.0, 0.1, 2), LogMean(1.0, 0.2, 4)])
    assert df == 4
    assert deviation == pytest.approx(math.sqrt((0.1**2 + 3 * 0.2**2) / 4))
    with pytest.raises(ValueError, match="no spread"):
        pooled([])

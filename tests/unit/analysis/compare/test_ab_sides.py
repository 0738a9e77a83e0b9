"""What the trials of a live comparison tell of its two sides: figures beside each other, items a step."""

import pytest
from build import a_case, a_trial

from torchstone.analysis.compare.ab_sides import figures_of_sides, is_narrow, items_ratio, other_results
from torchstone.core.schema.comparison import Comparison, Judgement, Side
from torchstone.core.schema.estimate import Estimate
from torchstone.core.schema.trial import Status


def sides(a, b):
    return [a_trial(**told, facts={"side": side}) for side, told in (("A", a), ("B", b))]


def compared(low=0.55, high=0.65):
    ratio = Estimate(0.6, low, high, 0.99, "ratio", "pairs", 10, 100)
    old, new = Side("old", "", a_case().case_id), Side("new", "", a_case().case_id)
    return Comparison(old, new, "step_time_mean", ratio, Judgement.BETTER, 0.02)


def test_times_and_rates_are_compared_by_the_pairs_and_memory_by_the_medians():
    held = [{"peak_rss_bytes": [size]} for size in (1e9, 2e9)]
    trials = sides({"items": 4, "steady": held[0]}, {"items": 8, "steady": held[1]})
    ratios = {one.name: one.ratio for one in figures_of_sides(compared(), trials)}
    assert ratios["step_time_mean"] == pytest.approx((1.2, 1.1, 1.3)), (
        "0.6 times the time of an item, for twice the items"
    )
    assert ratios["throughput"] == pytest.approx((1.0 / 0.6, 1.0 / 0.65, 1.0 / 0.55))
    assert ratios["peak_rss_bytes"] == (2.0, None, None)
    wide = {one.name: one.ratio for one in figures_of_sides(compared(0.1, 0.9), trials)}
    assert (wide["step_time_mean"], wide["throughput"]) == (None, None), "hardly known, and so not told"


def test_the_figures_of_the_sides_divide_to_the_ratio_though_medians_of_bursts_do_not():
    a = {"steps_s": (0.001, 0.001, 0.001, 0.037), "items": 4}  # three prefetched batches, and one that is waited for
    b = {"steps_s": (0.005, 0.005, 0.006, 0.006), "items": 4}
    shown = {one.name: one for one in figures_of_sides(compared(), sides(a, b))}
    for name, ratio in (("step_time_mean", 0.6), ("throughput", 1.0 / 0.6)):
        assert (shown[name].ratio or (0.0,))[0] == pytest.approx(ratio)
        assert shown[name].b / shown[name].a == pytest.approx(ratio)
    middle = (shown["step_time_mean"].a * shown["step_time_mean"].b) ** 0.5
    assert middle == pytest.approx((0.010 * 0.0055) ** 0.5), "of the means, not the medians"
    unknown = {one.name: one for one in figures_of_sides(compared(0.1, 0.9), sides(a, b))}
    assert unknown["step_time_mean"].a == pytest.approx(0.010), "as measured, where the pairs give no ratio"


def test_a_process_that_failed_has_no_figure():
    trials = sides({}, {"status": Status.CRASHED})
    assert figures_of_sides(compared(), trials) == []


def test_the_items_of_a_step():
    assert items_ratio(sides({"items": 4}, {"items": 8})) == 2.0
    assert items_ratio(()) == 1.0


def test_equal_results_are_no_other_results():
    prints = ({"steady": {"fingerprint": [1.5, value]}} for value in (2.0, 2.0001))
    assert other_results(compared(), sides(*prints), ()) is None


def test_a_narrow_interval_reaches_half_as_much_again_to_each_side():
    assert is_narrow(0.55, 0.65)
    assert is_narrow(1.0, 2.25)
    assert not is_narrow(1.0, 2.26)
    assert not is_narrow(0.0, 0.1)

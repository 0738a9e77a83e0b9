"""The time of an item on either side."""

import pytest
from comparable import a_stored_run

from torchstone.analysis.compare.compare import ComparisonRequest, compare, item_time_ratios
from torchstone.analysis.compare.inputs import ComparedInput
from torchstone.core.schema.comparison import Judgement

BASE = (0.0100, 0.0101, 0.0099, 0.0100)


def side(letter, by, minutes=0.0):
    run = a_stored_run([time_s * by for time_s in BASE], minutes=minutes)
    return ComparedInput(letter, letter, letter, (run,))


@pytest.mark.parametrize(
    ("by", "verdict", "faster"),
    [(0.5, Judgement.BETTER, "B"), (2.0, Judgement.WORSE, "A"), (1.0, Judgement.SAME, None)],
)
def test_the_ratio_of_times_is_that_of_the_rates_turned_over(by, verdict, faster):
    compared = compare((side("A", 1.0), side("B", by, minutes=1.0)), ComparisonRequest())
    (one,) = item_time_ratios(compared)
    rates = next(j.comparison for j in compared.judged if j.comparison.metric == "throughput")
    assert rates.ratio is not None
    assert rates.ratio.low is not None
    assert rates.ratio.high is not None
    assert (one.baseline, one.candidate, one.verdict, one.faster) == ("A", "B", verdict, faster)
    assert one.ratio == pytest.approx(by)
    assert (one.low, one.high) == pytest.approx((1.0 / rates.ratio.high, 1.0 / rates.ratio.low))
    assert one.low < one.ratio < one.high

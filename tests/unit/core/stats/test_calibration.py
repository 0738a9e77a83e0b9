"""Where a share that grows with a setting reaches a value: the crossing of a log-linear fit, and when there is none."""

import math

import pytest

from torchstone.core.stats.calibration import Count, crossing


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

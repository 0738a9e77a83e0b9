"""Fewer points, the same extremes."""

import random

import pytest

from torchstone.core.charts.vega_lite import MOST_POINTS, short_names, thinned, without_middle


def walk(count: int) -> list[tuple[float, float]]:
    dice = random.Random(count)
    return [(float(place), dice.gauss(0.0, 1.0)) for place in range(count)]


def test_few_points_stay_as_they_are():
    points = walk(MOST_POINTS)
    assert thinned(points) == points
    assert thinned([]) == []


@pytest.mark.parametrize("most", [4, 7, 100, 2000])
@pytest.mark.parametrize("count", [2001, 50_000])
def test_the_first_the_last_and_both_extremes_are_kept_in_order(most, count):
    points = walk(count)
    kept = thinned(points, most)
    assert len(kept) <= most
    assert kept == sorted(kept)
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    heights = [y for _, y in points]
    assert {min(heights), max(heights)} <= {y for _, y in kept}
    assert set(kept) <= set(points)


def test_a_spike_of_one_step_in_a_million_is_seen():
    points = [(float(place), 1.0) for place in range(1_000_000)]
    points[654_321] = (654_321.0, 50.0)
    assert (654_321.0, 50.0) in thinned(points, 400)


def test_under_four_points_cannot_keep_all_of_that():
    with pytest.raises(ValueError, match="at least 4"):
        thinned(walk(10), 3)


def test_a_long_name_loses_its_middle_and_what_steers_a_terminal():
    assert without_middle("owner/model-of-a-very-long-name-v2", 16) == "owner/mo…name-v2"
    assert len(without_middle("x" * 10_000, 40)) == 40
    assert without_middle("a\x1b[31m\nb", 40) == "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b"


def test_names_that_would_be_the_same_are_numbered():
    found = short_names([f"{'a' * 30}{n}{'b' * 30}" for n in range(3)], 20)
    assert len(set(found.values())) == 3
    assert all(len(name) <= 20 for name in found.values())
    assert short_names(["x", "x"]) == {"x": "x"}

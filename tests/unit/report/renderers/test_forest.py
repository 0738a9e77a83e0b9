"""A forest plot: every interval in its place on one logarithmic scale, with its words, and odd ratios draw nothing."""

import math

import msgspec
import pytest

from torchstone.report.document import Ratio, Ratios, Text
from torchstone.report.renderers._forest import forest, joined


def ratio(value, low, high, verdict="unclear", case="cnn"):
    return Ratio(case, "throughput", value, low, high, verdict, higher_is_better=True)


def plotted(*rows, margin=0.02, most=60):
    found = forest(Ratios(rows, margin, 0.95), most, lambda text, most: str(text)[:most])
    assert found is not None
    return found


def test_places_are_on_a_logarithmic_scale_around_one():
    (row,) = plotted(ratio(1.0, 0.5, 2.0, "same")).rows
    assert row.middle == 0.5
    assert row.low + row.high == pytest.approx(1.0)
    assert row.high == pytest.approx(0.5 + 0.5 / 1.1)
    assert row.cut == (False, False)
    assert (row.label, row.text) == ("cnn: throughput", "–, same")
    assert plotted(ratio(1.2, 1.1, 1.3)).rows[0].text == "1.2 [1.1, 1.3], unclear"


def test_the_band_is_the_margin_and_is_seen_beside_narrow_intervals():
    found = plotted(ratio(1.001, 1.0, 1.002), margin=0.02)
    assert found.band == pytest.approx((0.5 - 0.5 / 2.2, 0.5 + 0.5 / 2.2))
    assert [text for _, text in found.ticks] == ["0.98", "1", "1.02"]
    assert found.ticks[1][0] == 0.5
    assert found.caption.endswith("shaded: the equivalence margin of 2 %")


@pytest.mark.parametrize("margin", [0.0, -1.0, math.nan, math.inf])
def test_without_a_margin_there_is_no_band(margin):
    found = plotted(ratio(1.1, 1.0, 1.2), margin=margin)
    assert found.band == (0.5, 0.5)
    assert "shaded" not in found.caption


def test_those_that_ask_for_something_come_first_and_all_are_counted():
    verdicts = ["same", "unclear", "not_comparable", "better", "worse", "same"]
    found = plotted(*(ratio(1.1, 1.0, 1.2, verdict) for verdict in verdicts))
    told = [row.text.split(", ")[-1] for row in found.rows]
    assert told == ["worse", "better", "unclear", "same", "same", "not comparable"]
    assert found.caption.startswith("1 worse, 1 better, 1 unclear, 2 same, 1 not comparable; candidate ÷ baseline")
    assert len({row.colour for row in found.rows}) == 4


def test_an_interval_far_wider_than_the_others_is_cut_and_marked():
    found = plotted(*[ratio(1.1, 1.0, 1.2)] * 9, ratio(1.1, 0.01, 90.0), ratio(1.0, 0.0, math.inf))
    assert {row.cut for row in found.rows[:9]} == {(False, False)}
    assert found.rows[0].high > 0.7, "the others are still told apart"
    assert [(row.low, row.high, row.cut) for row in found.rows[9:]] == [(0.0, 1.0, (True, True))] * 2


@pytest.mark.parametrize("value", [None, math.nan, -1.0])
def test_what_is_no_ratio_has_words_and_no_place(value):
    odd, sound = plotted(ratio(value, None, value), ratio(1.1, 1.0, 1.2)).rows
    assert (odd.low, odd.middle, odd.high) == (None, None, None)
    assert odd.text.endswith("unclear")
    assert sound.middle > 0.5


@pytest.mark.parametrize("value", [0.0, math.inf])
def test_no_dot_stands_where_the_scale_has_no_place(value):
    assert plotted(ratio(value, None, None)).rows[0].middle is None


def test_what_is_beyond_the_scale_stands_at_its_end():
    (row,) = plotted(ratio(1e6, 1e5, 1e300)).rows
    assert (row.low, row.middle, row.high) == (1.0, 1.0, 1.0)


def test_ratios_beside_each_other_are_one_plot_where_they_mean_the_same():
    one, other = (Ratios((ratio(1.1, 1.0, 1.2, case=case),), 0.02, 0.95) for case in ("a", "b"))
    text, wider = Text("x"), msgspec.structs.replace(one, margin=0.05)
    both = Ratios((*one.rows, *other.rows), 0.02, 0.95)
    assert joined((one, other, wider, text, one)) == [both, wider, text, one]
    assert joined(()) == []


def test_more_rows_than_people_read_are_said():
    rows = [ratio(1.0, 0.9, 1.1)] * 100
    found = plotted(*rows)
    assert len(found.rows) == 60
    assert found.caption.endswith("; 40 more rows: see the table")
    assert plotted(*rows, most=99).caption.endswith("; 1 more row: see the table")
    assert forest(Ratios((), 0.02, 0.95), 60, lambda text, most: str(text)) is None

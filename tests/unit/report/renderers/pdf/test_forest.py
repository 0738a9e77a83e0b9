"""A forest plot: every interval in its place on one logarithmic scale, with its words, and odd ratios draw nothing."""

import math

import pytest

from torchstone.report.document import Ratio, Ratios
from torchstone.report.renderers.pdf.forest import forest
from torchstone.report.renderers.pdf.pages import _Draft


def ratio(value, low, high, verdict="unclear", case="cnn"):
    return Ratio(case, "throughput", value, low, high, verdict, higher_is_better=True)


def plotted(*rows, margin=0.02):
    plot, told = forest(Ratios(rows, margin, 0.95), _Draft(any_font=False))
    return plot, told["text"].replace("\xa0", " ")


def test_places_are_on_a_logarithmic_scale_around_one():
    plot, told = plotted(ratio(1.0, 0.5, 2.0, "same"))
    low, middle, high = plot["rows"][0]["places"]
    assert middle == 0.5
    assert low + high == pytest.approx(1.0)
    assert high == pytest.approx(0.5 + 0.5 / 1.1)
    assert plot["rows"][0]["text"].endswith(", same")
    assert plot["rows"][0]["label"] == "cnn: throughput"
    assert told == "ratio: candidate ÷ baseline, 95 % confidence interval; shaded: the equivalence margin of 2.0 %"


def test_the_band_is_the_margin_and_is_seen_beside_narrow_intervals():
    plot, _ = plotted(ratio(1.001, 1.0, 1.002), margin=0.02)
    low, high = plot["band"]
    assert (low, high) == pytest.approx((0.5 - 0.5 / 2.2, 0.5 + 0.5 / 2.2))
    assert [tick["text"] for tick in plot["ticks"]] == ["0.98", "1", "1.02"]
    assert plot["ticks"][1]["at"] == 0.5


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0, 0.0])
def test_what_is_no_ratio_has_words_and_no_place(value):
    plot, _ = plotted(ratio(value, None, value), ratio(1.1, 1.0, 1.2))
    assert plot["rows"][0]["places"] == [None, None, None]
    assert plot["rows"][1]["places"][1] > 0.5
    assert plot["rows"][0]["text"].endswith("unclear")


def test_what_is_beyond_the_scale_stands_at_its_end():
    plot, _ = plotted(ratio(1e6, 1e5, 1e300))
    assert plot["rows"][0]["places"] == [1.0, 1.0, 1.0]


def test_more_rows_than_people_read_are_said():
    plot, told = plotted(*[ratio(1.0, 0.9, 1.1)] * 100)
    assert len(plot["rows"]) == 60
    assert told.endswith("; 40 more rows are in the table")
    assert list(forest(Ratios((), 0.02, 0.95), _Draft(any_font=False))) == []

"""The forest plot: a row a ratio, by verdict, with the band of what is too small to matter."""

import math

import pytest

from torchstone.core.charts.picture import Divider, Dots, Reach, Stretch
from torchstone.report.charts.ratios import forest, ratios_chart
from torchstone.report.document import Ratio, Ratios


def row(verdict: str, ratio: float | None, half: float = 0.02, case: str = "train cnn, batch 8") -> Ratio:
    low, high = (None, None) if ratio is None else (ratio * (1 - half), ratio * (1 + half))
    return Ratio(case, "throughput", ratio, low, high, verdict, higher_is_better=True)


ROWS = (row("same", 1.0), row("better", 1.3), row("worse", 0.8), row("unclear", 1.01), row("better", 1.2))
FOUR = Ratios(ROWS, 0.02, 0.95)


def test_a_panel_a_verdict_what_is_worse_first_over_one_axis():
    picture = forest(FOUR)
    assert [panel.title for panel in picture.panels] == ["worse: 1", "better: 2", "unclear: 1", "same: 1"]
    assert len({panel.x.ends for panel in picture.panels}) == 1
    assert all(panel.x.logarithmic for panel in picture.panels)
    (ends,) = {panel.x.ends for panel in picture.panels}
    assert ends is not None
    assert ends[0] < 0.784
    assert ends[1] > 1.326
    assert picture.subtitle == "bars: 95 % confidence intervals; shaded: differences under 2 %"


def test_rows_have_their_interval_and_the_band_is_symmetric_in_ratios():
    better = forest(FOUR).panels[1]
    assert [value["ratio"] for value in better.values] == [1.2, 1.3]
    assert all(value["low"] < value["ratio"] < value["high"] for value in better.values)
    assert {type(mark) for mark in better.marks} == {Stretch, Divider, Reach, Dots}
    (band,) = (mark for mark in better.marks if isinstance(mark, Stretch))
    (ends,) = band.values
    assert ends["from"] * ends["to"] == pytest.approx(1.0)
    assert ends["to"] == 1.02


def test_without_a_margin_there_is_no_band():
    picture = forest(Ratios((row("better", 1.5),), 0.0, 0.99))
    assert not any(isinstance(mark, Stretch) for mark in picture.panels[0].marks)
    assert picture.subtitle == "bars: 99 % confidence intervals"


def test_a_ratio_that_is_not_known_is_counted_and_not_drawn():
    told = Ratios((row("better", 1.5), row("unclear", None), row("unclear", math.nan)), 0.02, 0.95)
    assert forest(told).subtitle.endswith("2 without a ratio")
    assert ratios_chart(Ratios((row("unclear", None),), 0.02, 0.95)) is None
    assert ratios_chart(Ratios((), 0.02, 0.95)) is None


def test_one_wide_interval_does_not_squeeze_the_others():
    told = Ratios((row("better", 1.1), Ratio("x", "y", 1.0, 1e-6, 1e6, "unclear", higher_is_better=True)), 0.02, 0.95)
    ends = forest(told).panels[0].x.ends
    assert ends is not None
    assert 0.5 < ends[0] < 1.0
    assert 1.1 < ends[1] < 2.0


def test_what_all_cases_begin_with_is_in_the_title():
    told = Ratios(tuple(row("same", 1.0, case=f"B vs A, train cnn batch_size {n}") for n in (8, 16)), 0.02, 0.95)
    picture = forest(told)
    assert picture.title == "Candidate ÷ baseline: B vs A, train cnn"
    assert [value["row"] for value in picture.panels[0].values] == [
        "batch_size 8: throughput",
        "batch_size 16: throughput",
    ]
    assert forest(FOUR).title == "Candidate ÷ baseline: train cnn, batch 8"
    assert {value["row"] for value in forest(FOUR).panels[0].values} == {"throughput"}
    apart = Ratios((row("same", 1.0, case="train a"), row("same", 1.0, case="infer b")), 0.02, 0.95)
    assert forest(apart).title == "Candidate ÷ baseline"


def test_rows_of_the_same_name_stay_apart_and_of_very_many_both_ends_are_shown():
    twins = forest(Ratios((row("same", 1.0), row("same", 1.001)), 0.02, 0.95)).panels[0]
    assert len({value["row"] for value in twins.values}) == 2
    many = Ratios(tuple(row("better", 1.0 + n / 100, case=f"case {n}") for n in range(1, 101)), 0.02, 0.95)
    (panel,) = forest(many).panels
    assert panel.title == "better: 100, 60 in the middle left out"
    shown = [value["ratio"] for value in panel.values]
    assert (len(shown), min(shown), max(shown)) == (40, 1.01, 2.0)

"""The forest plot: a row a ratio, by verdict, with the band of what is too small to matter."""

import json
import math

import pytest
from marks import kinds, layers, names_of, rows, shades_of, title_of

from torchstone.core.charts.vega_lite import Panel, Picture, vega_lite
from torchstone.report.charts.forest_plot import Ratio, forest, ratios_chart


def row(verdict: str, ratio: float | None, half: float = 0.02, case: str = "train cnn, batch 8") -> Ratio:
    low, high = (None, None) if ratio is None else (ratio * (1 - half), ratio * (1 + half))
    return Ratio(case, "throughput", ratio, low, high, verdict)


ROWS = (row("same", 1.0), row("better", 1.3), row("worse", 0.8), row("unclear", 1.01), row("better", 1.2))


def plot(*rows: Ratio, margin: float = 0.02, level: float = 0.95) -> Picture:
    return forest(rows, margin, level)


def ends_of(panel: Panel) -> tuple[float, float]:
    low, high = panel.channel("x")["scale"]["domain"]
    return low, high


def ticks_of(panel: Panel) -> list[float]:
    ticks: list[float] = panel.channel("x")["axis"]["values"]
    return ticks


def test_what_is_worse_comes_first_and_each_verdict_has_a_colour_and_a_shape():
    picture = plot(*ROWS)
    (panel,) = picture.panels
    assert [value["verdict"] for value in panel.values] == ["worse", "better", "better", "unclear", "same"]
    assert [value["ratio"] for value in panel.values] == [0.8, 1.2, 1.3, 1.01, 1.0]
    assert names_of(panel) == ("worse", "better", "unclear", "same")
    (dots,) = layers(panel, "dots")
    shapes = dots["encoding"]["shape"]["scale"]
    assert shapes["domain"] == list(names_of(panel))
    assert len(set(shades_of(panel))) == len(set(shapes["range"])) == 4
    assert panel.channel("x")["scale"]["type"] == "log"
    assert ends_of(panel)[0] < 0.784
    assert ends_of(panel)[1] > 1.326
    assert panel.title == "worse: 1, better: 2, unclear: 1, same: 1"
    assert picture.subtitle == "bars: 95 % confidence intervals; shaded: differences under 2 %"


def test_rows_have_their_interval_and_figures_and_the_band_is_symmetric_in_ratios():
    (panel,) = plot(*ROWS).panels
    assert all(value["low"] < value["ratio"] < value["high"] for value in panel.values)
    assert panel.values[0]["figures"] == "0.800 [0.784, 0.816]"
    assert set(kinds(panel)) == {"stretch", "divider", "reach", "arrow", "dots", "words"}
    (ends,) = rows(panel, "stretch")
    assert ends["from"] * ends["to"] == pytest.approx(1.0)
    assert ends["to"] == 1.02


def test_without_a_margin_there_is_no_band():
    picture = plot(row("better", 1.5), margin=0.0, level=0.99)
    assert "stretch" not in kinds(picture.panels[0])
    assert picture.subtitle == "bars: 99 % confidence intervals"


def test_a_ratio_that_is_not_known_is_counted_and_not_drawn():
    told = (row("better", 1.5), row("unclear", None), row("unclear", math.nan))
    assert plot(*told).subtitle.endswith("2 without a ratio")
    (chart,) = ratios_chart(told, 0.02, 0.95)
    assert len(chart.picture.panels[0].values) == 1
    assert list(ratios_chart((row("unclear", None),), 0.02, 0.95)) == []
    assert list(ratios_chart((), 0.02, 0.95)) == []


@pytest.mark.parametrize(("low", "high"), [(1e-6, 1e6), (0.0, 1.0), (math.nan, 1.0), (1.0, math.inf), (-1.0, 2.0)])
def test_an_interval_of_any_size_does_not_squeeze_the_others_and_what_goes_beyond_has_an_arrow(low, high):
    picture = plot(row("better", 1.1), Ratio("x", "y", 1.0, low, high, "unclear"))
    (panel,) = picture.panels
    assert 0.5 < ends_of(panel)[0] < 1.0
    assert 1.1 < ends_of(panel)[1] < 2.0
    drawn = vega_lite(picture)["concat"][0]["layer"]
    arrows = [layer for layer in drawn if "triangle-left" in str(layer["mark"])]
    assert len(arrows) == 1
    assert f"datum.low < {ends_of(panel)[0]}" in arrows[0]["transform"][0]["filter"]
    assert json.dumps(drawn)


@pytest.mark.parametrize("ratio", [1.001, 1.01, 1.2, 1.9, 5.0, 90.0, 1e4, 1e9, 0.001, 1e-9])
def test_the_axis_has_round_numbers_and_one_among_them(ratio):
    (panel,) = plot(row("better", ratio, half=0.0)).panels
    low, high = ends_of(panel)
    assert 1.0 in ticks_of(panel)
    assert len(ticks_of(panel)) <= 7
    assert all(low <= tick <= high for tick in ticks_of(panel))
    assert len(ticks_of(panel)) >= 2 or not 0.002 < ratio < 1e4


def test_what_all_cases_begin_with_is_in_the_title_and_the_figure_that_all_have_along_the_axis():
    told = tuple(row("same", 1.0, case=f"B vs A, train cnn batch_size {n}") for n in (8, 16))
    picture = plot(*told)
    assert picture.title == "Candidate ÷ baseline: B vs A, train cnn"
    assert [value["row"] for value in picture.panels[0].values] == ["batch_size 8", "batch_size 16"]
    assert title_of(picture.panels[0], "x") == "throughput"
    both = plot(*told, Ratio("B vs A, train cnn batch_size 8", "loss", 1.0, 0.9, 1.1, "same"))
    assert title_of(both.panels[0], "x") == "ratio"
    assert both.panels[0].values[0]["row"] == "batch_size 8: throughput"
    assert plot(*ROWS).title == "Candidate ÷ baseline: train cnn, batch 8"
    assert plot(row("same", 1.0)).panels[0].values[0]["row"] == "throughput"
    apart = plot(row("same", 1.0, case="train a"), row("same", 1.0, case="infer b"))
    assert apart.title == "Candidate ÷ baseline"


def test_rows_of_the_same_name_stay_apart_and_very_many_fill_panels_over_one_axis():
    (twins,) = plot(row("same", 1.0), row("same", 1.001)).panels
    assert len({value["row"] for value in twins.values}) == 2
    many = plot(*(row("better", 1.0 + n / 100, case=f"case {n}") for n in range(1, 101)))
    assert many.subtitle.endswith("4 more are in the tables")
    assert len({ends_of(panel) for panel in many.panels}) == 1
    assert [len(panel.values) for panel in many.panels] == [16] * 6

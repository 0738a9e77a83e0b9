"""A curve in characters: a line a batch size, as wide as it may be, failures and intervals included."""

import charted
import pytest

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.report.charts.batch_sizes import THROUGHPUT, batch_size_charts
from torchstone.report.renderers._table import cell_width
from torchstone.report.renderers.terminal import characters

X = vl.steps("batch", "batch size", ("8", "16", "32"))
Y = vl.number_axis("value", "images/s")
VALUES = (
    {"batch": "8", "value": 1000.0, "low": 800.0, "high": 1200.0},
    {"batch": "16", "value": 2000.0, "low": None, "high": None},
)


def of(*marks, values=VALUES, **changes):
    return Picture("Throughput", (vl.panel("speed", X, Y, (*marks, vl.line(), vl.interval_bar()), values, **changes),))


def test_a_line_a_place_its_figures_and_its_interval():
    _, _, heading, eight, sixteen, why = characters(of(subtitle="95 % confidence intervals over 3 trials"), 60)
    assert heading == "speed: images/s by batch size"
    assert eight.split()[:3] == ["8", "1,000", "±20.0"]
    drawn = eight[eight.index("├") :]
    assert drawn[0] == "├"
    assert drawn[-1] == "┤"
    assert drawn.count("●") == 1
    assert sixteen.split() == ["16", "2,000", "●"]
    assert sixteen.index("●") == 60 - 1, "the greatest value reaches the edge"
    assert why == "  95 % confidence intervals over 3 trials"


def test_what_failed_is_told_below():
    lines = list(characters(of(*vl.failures([{"batch": "32", "word": "out of memory"}])), 80))
    assert lines[-1] == "  no value: 32 out of memory"


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("run", [charted.three_devices, charted.hostile, charted.many_settings, charted.one_trial])
def test_no_line_is_wider_than_the_terminal_and_nothing_steers_it(run, width):
    chart = next(one for one in batch_size_charts(charted.summary_of(run())) if one.name == THROUGHPUT)
    lines = list(characters(chart.picture, width))
    assert len(lines) > 3
    assert [line for line in lines if cell_width(line) > width] == []
    assert all(line.isprintable() for line in lines)


def test_a_narrow_terminal_has_the_figures_alone():
    assert not any("●" in line for line in characters(of(), 30))
    assert any("2,000" in line for line in characters(of(), 30))


def test_pictures_over_numbers_are_no_lines():
    over_numbers = vl.panel("p", vl.number_axis("x", "s"), Y, (vl.line(),), ({"x": 1.0, "value": 2.0},))
    assert list(characters(Picture("", (over_numbers,)), 80)) == []
    nothing = vl.panel("p", X, Y, (vl.line(),), ())
    assert len(list(characters(Picture("", (nothing,)), 80))) == 2

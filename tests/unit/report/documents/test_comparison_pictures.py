"""The pictures of a comparison: which there are, under which names, and what their lines are called."""

import charted
import compared_results
import pytest
from marks import names_of, rows, shades_of, title_of

from torchstone.report.document import Chart, Section, Text
from torchstone.report.documents.comparison import comparison_pictures, folder_name, over_all


@pytest.fixture(scope="module")
def machines() -> dict[str, Chart]:
    return {chart.name: chart for chart in over_all(charted.three_machines(), {"A": 2.0, "B": 1.0})}


@pytest.fixture(scope="module")
def trainings() -> dict[str, Chart]:
    return {chart.name: chart for chart in over_all(charted.two_trainings())}


def test_a_line_a_machine_and_a_word_where_one_failed(machines):
    (panel,) = machines["comparison_throughput"].picture.panels
    assert names_of(panel) == (charted.A100.name, charted.MI300.name, charted.XEON.name)
    failure = rows(panel, "failure")
    assert failure == [{"x": 128, "word": f"out of memory: {charted.MI300.name}"}]
    pieces = {value["x"]: value["piece"] for value in panel.values if value["line"] == charted.XEON.name}
    assert pieces[8] != pieces[128], "32 was not tried there"
    assert machines["comparison_throughput"].picture.subtitle == "bars: 95 % confidence intervals over trials"


def test_costs_are_of_those_that_have_a_price(machines):
    (panel,) = machines["comparison_cost"].picture.panels
    assert {value["line"] for value in panel.values} == {charted.A100.name, charted.MI300.name}
    (speed,) = machines["comparison_throughput"].picture.panels
    rate = next(value["y"] for value in speed.values if value["line"] == charted.A100.name)
    assert panel.values[0]["y"] == pytest.approx(2.0e6 / 3600.0 / rate)
    assert "comparison_cost" not in {chart.name for chart in over_all(charted.three_machines())}


def test_trainings_are_in_one_picture_and_keep_their_colours(trainings):
    whole = trainings["comparative_metrics"].picture
    titles = [title_of(panel, "y") for panel in whole.panels]
    assert titles == ["loss", "accuracy", "device in use, %", "device memory in use, GiB", "device power, W"]
    seen: dict[str, set[str]] = {}
    for panel in whole.panels:
        for name, shade in zip(names_of(panel), shades_of(panel), strict=True):
            seen.setdefault(name, set()).add(shade)
    assert set(seen) == {f"{card.name} - {part}" for card in (charted.A100, charted.MI300) for part in ("Train", "Val")}
    assert {len(shades) for shades in seen.values()} == {1}
    assert "no intervals" in whole.subtitle


def test_the_sections_of_a_page_those_of_each_are_folded():
    over, each = comparison_pictures(charted.three_machines())
    assert isinstance(over, Section)
    assert each.folded
    assert [chart.name for chart in each.parts if isinstance(chart, Chart)] == [
        f"{folder_name(one)}_performance" for one in charted.three_machines()
    ]
    assert comparison_pictures([]) == ()


def test_of_forty_machines_the_first_and_the_fastest_have_a_colour_and_the_rest_is_told():
    sides = [compared_results.a_side(f"L{n}", f"card {n}", 2.0 - n / 40, (8, 16)) for n in range(40)]
    drawn = {chart.name: chart.picture for chart in over_all(sides)}
    panel = drawn["comparison_throughput"].panels[0]
    assert list(names_of(panel)) == ["card 0", *(f"card {n}" for n in range(33, 40))]
    assert len(set(shades_of(panel))) == len(names_of(panel))
    assert drawn["comparison_throughput"].subtitle.endswith("the first line and the fastest; 32 more are in the tables")
    *charts, told = comparison_pictures(sides)[1].parts
    assert len(charts) == 8
    assert isinstance(told, Text)
    assert told.text.startswith("of L8 to L39 there are no pictures here")

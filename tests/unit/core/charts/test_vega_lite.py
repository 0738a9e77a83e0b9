"""Charts as Vega-Lite: every mark, axis and colour, by the keys that vl-convert reads."""

from typing import Any

import pytest

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import PALETTE, Panel, Picture, vega_lite
from torchstone.core.schema.metric import PHASES

BATCH = vl.steps("batch", "batch size", ("8", "32"))
RATE = vl.number_axis("rate", "images/s")
VALUES = ({"batch": "8", "rate": 10.0, "low": 9.0, "high": 11.0, "card": "A100"},)
SIDE_BY_SIDE = {"labelAngle": 0, "labelOverlap": "greedy"}
TWO = vl.colours("card", ("A100", "H100"), ())


def panel(*marks: Any, x: Any = BATCH, y: Any = RATE, values: Any = VALUES, color: Any = None, **more: Any) -> Panel:
    return vl.panel("a panel", x, y, marks, values, color, **more)


def drawn(one: Panel) -> dict[str, Any]:
    (found,) = vega_lite(Picture("", (one,)))["concat"]
    return found


def test_a_picture_has_its_titles_its_rows_and_one_legend_where_colours_are_shared():
    whole = vega_lite(Picture("Memory", (panel(vl.line()),), "run x", columns=2, one_legend=True))
    assert whole["title"] == {"text": "Memory", "subtitle": "run x", "fontSize": 16, "offset": 14}
    assert (whole["columns"], len(whole["concat"])) == (2, 1)
    assert whole["resolve"]["scale"] == {"color": "shared", "shape": "shared", "y": "independent"}
    alone = vega_lite(Picture("", (panel(vl.line()),)))
    assert "title" not in alone
    assert alone["resolve"]["scale"]["color"] == "independent"
    assert vega_lite(Picture("", ()))["concat"] == []


def test_groups_stand_below_each_other_under_their_titles():
    one, other = panel(vl.line(), group="train a"), panel(vl.line(), group="train b")
    whole = vega_lite(Picture("a run", (one, one, other)))
    told = [(rows["title"]["text"], len(rows["concat"])) for rows in whole["vconcat"]]
    assert told == [("train a", 2), ("train b", 1)]
    assert "concat" not in whole


def test_a_panel_has_its_sizes_its_values_and_a_subtitle_where_it_has_one():
    found = drawn(panel(vl.line(), subtitle="case x", width=640, height=160))
    assert found["title"] == {"text": "a panel", "subtitle": "case x"}
    assert (found["width"], found["height"], found["data"]) == (640, 160, {"values": list(VALUES)})
    assert found["encoding"] == {"x": BATCH, "y": RATE}
    assert drawn(panel(vl.line()))["title"] == "a panel"


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (BATCH, {"type": "ordinal", "axis": SIDE_BY_SIDE, "scale": {"domain": ["8", "32"]}}),
        (vl.steps("batch", "batch size"), {"type": "ordinal", "axis": SIDE_BY_SIDE}),
        (vl.number_axis("batch", "batch size"), {"type": "quantitative"}),
        (
            vl.count_axis("batch", "batch size", [{"batch": n} for n in range(40)]),
            {"type": "quantitative", "axis": {"tickMinStep": 1, "format": "d"}, "scale": vl.TIGHT},
        ),
        (
            vl.name_axis("batch", "batch size", ("cat", "zebra")),
            {"type": "nominal", "sort": ["cat", "zebra"], "axis": {"labelAngle": -45, "ticks": False, "domain": False}},
        ),
    ],
    ids=["steps", "steps as they come", "numbers", "counted", "names"],
)
def test_what_stands_along_x(x, expected):
    assert drawn(panel(vl.line(), x=x))["encoding"]["x"] == {"field": "batch", "title": "batch size", **expected}


def test_what_is_counted_has_whole_ticks_where_they_are_few():
    few = vl.count_axis("epoch", "epoch", [{"epoch": n} for n in (1.0, 2.0)])
    assert few["axis"] == {"tickMinStep": 1, "format": "d", "values": [1, 2]}
    assert vl.count_axis("epoch", "epoch", ())["axis"] == {"tickMinStep": 1, "format": "d"}


def test_an_axis_of_numbers_may_begin_elsewhere_be_logarithmic_or_have_its_ends():
    assert vl.number_axis("x", "x", zero=False)["scale"] == {"zero": False}
    assert vl.number_axis("x", "x", log=True)["scale"] == {"type": "log"}
    assert vl.number_axis("x", "x", log=True, ends=(0.5, 2.0))["scale"] == {
        "type": "log", "domain": [0.5, 2.0], "nice": False,
    }  # fmt: skip
    assert vl.number_axis("x", "x", ends=(0.0, 1.0))["scale"] == {"zero": False, "domain": [0.0, 1.0], "nice": False}


def test_a_line_has_dots_where_they_are_few():
    (line,) = panel(vl.line()).layers
    assert line["mark"] == {"type": "line", "point": {"size": 60}}
    many = [{"batch": n, "rate": 1.0} for n in range(31)]
    assert panel(vl.line(), values=many).layers[0]["mark"] == {"type": "line"}
    guide = panel(vl.guide(VALUES)).layers[0]["mark"]
    assert guide == {"type": "line", "strokeDash": [6, 4]}, "no measurement"


def test_colours_are_those_of_the_palette_with_a_legend_where_there_are_several():
    found = drawn(panel(vl.line(), color=TWO))["encoding"]["color"]
    assert (found["field"], found["title"]) == ("card", None)
    assert found["scale"] == {"domain": ["A100", "H100"], "range": ["#0072b2", "#e69f00"]}
    assert (found["legend"]["orient"], found["legend"]["columns"]) == ("bottom", 2)
    assert drawn(panel(vl.line(), color=vl.colours("card", ("A100",), ())))["encoding"]["color"]["legend"] is None
    assert vega_lite(Picture("", ()))["config"]["mark"]["color"] == PALETTE[0], "what has no colours has the first"


def test_a_name_has_the_colour_of_its_place_among_all_whoever_else_is_shown():
    assert vl.colours("x", ["MI300X"], ("A100", "MI300X"))["scale"] == {"domain": ["MI300X"], "range": [PALETTE[1]]}
    found = vl.colours("device", ["c", "b", "new"], ("a", "b", "c"))["scale"]
    assert found == {"domain": ["b", "c", "new"], "range": [PALETTE[1], PALETTE[2], PALETTE[3]]}
    nine = vl.colours("x", "abcdefghi", tuple("abcdefghi"))["scale"]["range"]
    assert nine[8] == nine[0]
    assert len(set(nine)) == 8


def test_a_legend_has_as_many_columns_as_have_room():
    def columns(*names):
        found = drawn(panel(vl.line(), color=vl.colours("card", names, ())))
        return found["encoding"]["color"]["legend"]["columns"]

    assert columns("data", "forward", "backward", "rest") == 4
    assert columns("NVIDIA A100-SXM4-80GB", "AMD Instinct MI300X", "Intel Xeon") == 2
    assert columns("x" * 60, "y") == 1


def test_shapes_stand_in_the_legend_of_the_colours():
    shades = {"better": "#0072b2", "worse": "#d55e00"}
    found = drawn(
        panel(vl.dots(vl.shaded("verdict", shades, ["circle", "square"])), color=vl.shaded("verdict", shades))
    )
    shape, color = found["layer"][0]["encoding"]["shape"], found["encoding"]["color"]
    assert shape["legend"] == color["legend"]
    assert shape["scale"] == {"domain": ["better", "worse"], "range": ["circle", "square"]}


def test_intervals_are_drawn_where_their_ends_are_known():
    known = [{"filter": "isValid(datum.low) && isValid(datum.high)"}]
    up, along = vl.interval_bar(), vl.interval_bar(along="x", clip=True)
    assert up["transform"] == along["transform"] == known
    assert up["encoding"] == {"y": {"field": "low"}, "y2": {"field": "high"}}
    assert along["encoding"] == {"x": {"field": "low"}, "x2": {"field": "high"}}
    assert along["mark"] == {"type": "rule", "strokeWidth": 1.5, "clip": True}
    band = vl.band(clip=True)
    assert (band["transform"], band["encoding"]) == (known, along["encoding"])
    assert band["mark"] == {"type": "area", "orient": "horizontal", "opacity": 0.2, "clip": True}


def test_bars_are_stacked_in_their_order_and_may_be_shares():
    assert vl.bars()["encoding"]["order"] == {"field": "place"}
    share = vl.share_axis("share", "of the step")
    assert (share["stack"], share["axis"]) == ("normalize", {"format": ".0%"})


def test_what_is_no_measurement_has_values_and_a_colour_of_its_own():
    one = panel(
        *vl.failures([{"batch": "32", "word": "out of memory"}]),
        vl.level_lines("from", "to", [{"from": 1, "to": 9, "rate": 10.0}]),
        vl.stretches([{"from": 1, "to": 2}]),
        *vl.dividers([{"batch": 4.5, "word": "2×"}]), color=TWO,
    )  # fmt: skip
    failure, level, stretch, divider, word = one.layers
    assert vl.failed(one) == [{"batch": "32", "word": "out of memory"}]
    assert failure["encoding"]["y"] == {"value": "height"}
    assert (level["encoding"]["x"], level["encoding"]["x2"]) == ({"field": "from"}, {"field": "to"})
    assert (stretch["encoding"]["x"], stretch["encoding"]["y"]) == ({"field": "from"}, None)
    assert (divider["mark"]["strokeDash"], divider["encoding"]["y"]) == ([4, 4], None)
    assert word["encoding"]["text"] == {"field": "word"}
    assert all("value" in layer["encoding"]["color"] for layer in one.layers)
    assert len(vl.dividers([{"batch": 1.0}])) == 1, "no word"
    assert vl.failures(()) == []


def test_pieces_of_a_line_are_not_joined_and_a_faint_one_has_no_dots():
    assert vl.line("part")["encoding"]["detail"] == {"field": "part", "type": "nominal"}
    (thin,) = panel(vl.line(faint=True)).layers
    assert thin["mark"] == {"type": "line", "point": False, "strokeWidth": 1, "opacity": 0.7}


def test_words_stand_beside_their_points_over_a_white_rim():
    for rim, words in (vl.words("card"), vl.values_above("rate")):
        assert rim["mark"] == {**words["mark"], "stroke": "white", "strokeWidth": 4}
        assert rim["encoding"] == words["encoding"]
    assert vl.aside("card")["encoding"]["x"] == {"value": "width"}, "right of the panel"
    assert vl.words("card")[1]["encoding"]["text"] == {"field": "card"}
    assert vl.values_above("rate")[1]["encoding"]["text"]["format"] == ".3s"


def test_counts_that_double_are_equally_far_apart_and_each_has_its_number():
    x = vl.doubled("ranks", "ranks", (8, 1, 2, 2))
    assert x["axis"]["values"] == [1, 2, 8]
    assert (x["scale"]["type"], x["scale"]["base"]) == ("log", 2)


def test_an_interval_that_goes_beyond_the_axis_has_an_arrow_at_its_end():
    before, behind = vl.arrows(0.5, 2.0)
    assert [one["mark"]["shape"] for one in (before, behind)] == ["triangle-left", "triangle-right"]
    assert [one["encoding"]["x"]["datum"] for one in (before, behind)] == [0.5, 2.0]
    assert before["transform"][0]["filter"].endswith("datum.low < 0.5")
    assert behind["transform"][0]["filter"].endswith("datum.high > 2.0")


def test_long_titles_are_broken_and_a_record_cannot_bring_what_steers():
    title = drawn(vl.panel("word " * 60, BATCH, RATE, (vl.line(),), VALUES, subtitle="model\x1b[31m"))["title"]
    assert len(title["text"]) == 3
    assert title["text"][-1].endswith("…")
    assert title["subtitle"] == "model\N{REPLACEMENT CHARACTER}[31m"


def test_cells_are_as_dark_as_their_share_and_their_numbers_can_be_read():
    cell, number = vl.cells("share", "of the row", "items")
    assert cell["encoding"]["color"]["scale"] == {"scheme": "blues", "domain": [0, 1]}
    assert cell["encoding"]["color"]["legend"] == {"format": "%", "title": "of the row"}
    assert vl.row_axis("is", "is", ("cat", "dog"))["sort"] == ["cat", "dog"]
    assert number["encoding"]["text"] == {"field": "items"}
    assert number["encoding"]["color"]["condition"] == {"test": "datum.share > 0.5", "value": "white"}
    assert len(vl.cells("share", "of the row")) == 1


def test_every_phase_has_a_colour_of_its_own():
    every = vl.phase_colours(set(PHASES))["scale"]
    assert tuple(every["domain"]) == PHASES
    assert len(set(every["range"])) == len(PHASES)
    assert vl.phase_colours({"forward", "data"})["scale"]["domain"] == ["data", "forward"]


@pytest.mark.parametrize("marks", [
    (vl.line(), vl.interval_bar()), (vl.bars(),), (vl.dots(),), (vl.band(), vl.line()),
    (*vl.failures([{"batch": "8", "word": "no"}]), *vl.dividers([{"batch": "8", "word": "here"}])),
    (vl.guide(VALUES), *vl.words("card"), vl.line(faint=True)), vl.cells("rate", "x"),
])  # fmt: skip
def test_vl_convert_takes_it(marks):
    vl_convert = pytest.importorskip("vl_convert")
    assert vl_convert.vegalite_to_svg(vega_lite(Picture("", (panel(*marks, color=TWO),)))).startswith("<svg")

"""A picture as Vega-Lite: every mark, axis and colour, by the keys that vl-convert reads."""

from typing import Any

import pytest

from torchstone.core.charts.phase_colours import phase_colours
from torchstone.core.charts.picture import (
    Band,
    Bars,
    Cells,
    Colours,
    Coordinate,
    Divider,
    Dots,
    Failure,
    Guide,
    Interval,
    Kind,
    Level,
    Line,
    Panel,
    Picture,
    Reach,
    Stretch,
    Words,
)
from torchstone.core.charts.vega_lite import vega_lite
from torchstone.core.schema.phase import PHASES

BATCH = Coordinate("batch", "batch size", Kind.STEPS, ("8", "32"))
RATE = Coordinate("rate", "images/s")
VALUES = ({"batch": "8", "rate": 10.0, "low": 9.0, "high": 11.0, "card": "A100"},)
SIDE_BY_SIDE = {"labelAngle": 0, "labelOverlap": "greedy"}
TWO = Colours("card", ("A100", "H100"))


def panel(*marks: Any, x: Coordinate = BATCH, values: Any = VALUES, **changes: Any) -> Panel:
    return Panel("a panel", x, marks, values, **changes)


def drawn(one: Panel) -> dict[str, Any]:
    (found,) = vega_lite(Picture("", (one,)))["concat"]
    return found


def layers(one: Panel) -> list[dict[str, Any]]:
    return drawn(one)["layer"]


def test_a_picture_has_its_titles_its_rows_and_one_legend_where_colours_are_shared():
    whole = vega_lite(Picture("Memory", (panel(Line(RATE)),), "run x", columns=2, one_legend=True))
    assert whole["title"] == {"text": "Memory", "subtitle": "run x", "fontSize": 16, "offset": 14}
    assert (whole["columns"], len(whole["concat"])) == (2, 1)
    assert whole["resolve"]["scale"] == {"color": "shared", "shape": "shared", "y": "independent"}
    alone = vega_lite(Picture("", (panel(Line(RATE)),)))
    assert "title" not in alone
    assert alone["resolve"]["scale"]["color"] == "independent"
    assert vega_lite(Picture("", ()))["concat"] == []


def test_groups_stand_below_each_other_under_their_titles():
    one, other = panel(Line(RATE), group="train a"), panel(Line(RATE), group="train b")
    whole = vega_lite(Picture("a run", (one, one, other)))
    told = [(rows["title"]["text"], len(rows["concat"])) for rows in whole["vconcat"]]
    assert told == [("train a", 2), ("train b", 1)]
    assert "concat" not in whole


def test_a_panel_has_its_sizes_its_values_and_a_subtitle_where_it_has_one():
    found = drawn(panel(Line(RATE), subtitle="case x", width=640, height=160))
    assert found["title"] == {"text": "a panel", "subtitle": "case x"}
    assert (found["width"], found["height"], found["data"]) == (640, 160, {"values": list(VALUES)})
    assert drawn(panel(Line(RATE)))["title"] == "a panel"


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (BATCH, {"type": "ordinal", "axis": SIDE_BY_SIDE, "scale": {"domain": ["8", "32"]}}),
        (Coordinate("batch", "batch size", Kind.STEPS), {"type": "ordinal", "axis": SIDE_BY_SIDE}),
        (Coordinate("batch", "batch size"), {"type": "quantitative"}),
        (
            Coordinate("batch", "batch size", from_zero=False, whole=True),
            {"type": "quantitative", "axis": {"tickMinStep": 1, "format": "d"},
             "scale": {"zero": False, "nice": False, "padding": 12}},
        ),
        (
            Coordinate("batch", "batch size", Kind.NAMES, ("cat", "zebra")),
            {"type": "nominal", "sort": ["cat", "zebra"], "axis": {"labelAngle": -45, "ticks": False, "domain": False}},
        ),
    ],
    ids=["steps", "steps as they come", "numbers", "counted", "names"],
)  # fmt: skip
def test_what_stands_along_x(x, expected):
    assert drawn(panel(Line(RATE), x=x))["encoding"]["x"] == {"field": "batch", "title": "batch size", **expected}


def test_what_is_counted_has_whole_ticks_where_they_are_few():
    epochs = Coordinate("epoch", "epoch", from_zero=False, whole=True)
    few = tuple({"epoch": float(n), "rate": 1.0} for n in (1, 2))
    axis = drawn(panel(Line(RATE), x=epochs, values=few))["encoding"]["x"]["axis"]
    assert axis == {"tickMinStep": 1, "format": "d", "values": [1, 2]}
    many = tuple({"epoch": float(n), "rate": 1.0} for n in range(40))
    assert "values" not in drawn(panel(Line(RATE), x=epochs, values=many))["encoding"]["x"]["axis"]


def test_a_line_has_dots_where_they_are_few_and_the_first_colour_where_it_has_no_other():
    (line,) = layers(panel(Line(RATE)))
    assert line["mark"] == {"type": "line", "point": {"size": 60, "color": "#0072b2"}, "color": "#0072b2"}
    assert line["encoding"] == {
        "y": {"field": "rate", "type": "quantitative", "title": "images/s", "scale": {"zero": True, "nice": True}}
    }
    many = tuple({"batch": n, "rate": 1.0} for n in range(31))
    assert layers(panel(Line(RATE), values=many))[0]["mark"]["point"] is False


def test_labels_have_a_white_rim_below_them():
    _, rim, label = layers(panel(Line(RATE, labelled=True)))
    assert rim["mark"] == {**label["mark"], "stroke": "white", "strokeWidth": 4}
    assert rim["encoding"] == label["encoding"]
    assert label["encoding"]["text"] == {"field": "rate", "type": "quantitative", "format": ".3s"}


def test_colours_are_those_of_the_palette_with_a_legend_where_there_are_several():
    (line,) = layers(panel(Line(RATE), colours=TWO))
    assert line["mark"] == {"type": "line", "point": {"size": 60}}
    colour = line["encoding"]["color"]
    assert (colour["field"], colour["title"]) == ("card", None)
    assert colour["scale"] == {"domain": ["A100", "H100"], "range": ["#0072b2", "#e69f00"]}
    assert (colour["legend"]["orient"], colour["legend"]["columns"]) == ("bottom", 2)
    (alone,) = layers(panel(Line(RATE), colours=Colours("card", ("A100",))))
    assert alone["encoding"]["color"]["legend"] is None
    (nine,) = layers(panel(Line(RATE), colours=Colours("card", tuple("abcdefghi"))))
    shades = nine["encoding"]["color"]["scale"]["range"]
    assert shades[8] == shades[0]
    assert len(set(shades)) == 8


def test_a_legend_has_as_many_columns_as_have_room():
    def columns(*names):
        (line,) = layers(panel(Line(RATE), colours=Colours("card", names)))
        return line["encoding"]["color"]["legend"]["columns"]

    assert columns("data", "forward", "backward", "rest") == 4
    assert columns("NVIDIA A100-SXM4-80GB", "AMD Instinct MI300X", "Intel Xeon") == 2
    assert columns("x" * 60, "y") == 1


def test_intervals_and_dots_are_drawn_where_their_ends_are_known():
    interval, dots = layers(panel(Interval(RATE), Dots(RATE), colours=TWO))
    assert interval["transform"] == [{"filter": "isValid(datum.low) && isValid(datum.high)"}]
    assert (interval["encoding"]["y"]["field"], interval["encoding"]["y2"]) == ("low", {"field": "high"})
    assert interval["encoding"]["y"]["title"] == "images/s", "or the axis would have two titles"
    assert dots["mark"] == {"type": "point", "filled": True, "size": 40}
    assert interval["encoding"]["color"] == dots["encoding"]["color"]


@pytest.mark.parametrize(("shares", "stack"), [(False, "zero"), (True, "normalize")])
def test_bars_are_stacked_in_their_order(shares, stack):
    (bars,) = layers(panel(Bars(RATE, "place", shares=shares), colours=TWO))
    assert bars["mark"] == {"type": "bar"}
    assert bars["encoding"]["order"] == {"field": "place"}
    assert bars["encoding"]["y"]["stack"] == stack
    assert bars["encoding"]["y"].get("axis") == ({"format": ".0%"} if shares else None)
    assert bars["encoding"]["color"]["legend"]["columns"] == 2


def test_levels_dividers_and_failures_have_values_of_their_own():
    failure, level, divider, word = layers(
        panel(
            Level(RATE, "from", "to", ({"from": 1, "to": 9, "rate": 10.0},)),
            Divider("what", ({"batch": 4.5, "what": "2×"},)),
            Failure("why", ({"batch": "32", "why": "out of memory"},)), height=160, colours=TWO,
        )
    )  # fmt: skip
    assert level["data"]["values"][0]["to"] == 9
    assert (level["encoding"]["x"]["field"], level["encoding"]["x2"]) == ("from", {"field": "to"})
    assert divider["mark"]["strokeDash"] == [4, 4]
    assert (word["mark"]["dy"], word["encoding"]) == (-70.0, {"text": {"field": "what"}})
    assert failure["encoding"] == {"y": {"value": 152}, "text": {"field": "why"}}
    assert not [one for one in (level, divider, word, failure) if "color" in one.get("encoding", {})]


def test_pieces_of_a_line_are_not_joined_and_a_faint_one_has_no_dots():
    (line,) = layers(panel(Line(RATE, piece="part"), colours=TWO))
    assert line["encoding"]["detail"] == {"field": "part", "type": "nominal"}
    (thin,) = layers(panel(Line(RATE, faint=True)))
    assert thin["mark"] == {"type": "line", "point": False, "color": "#0072b2", "strokeWidth": 1, "opacity": 0.7}


def test_an_axis_of_ratios_has_its_ends_and_what_reaches_beyond_is_cut():
    along = Coordinate("rate", "ratio", logarithmic=True, ends=(0.5, 2.0))
    rows = Coordinate("card", "", Kind.NAMES, ("A100",))
    found = drawn(panel(Reach(rows), Band(RATE), x=along))
    assert found["encoding"]["x"]["scale"] == {"type": "log", "domain": [0.5, 2.0], "nice": False}
    reach, before, behind, band = found["layer"]
    assert [one["mark"]["shape"] for one in (before, behind)] == ["triangle-left", "triangle-right"]
    assert [one["encoding"]["x"]["datum"] for one in (before, behind)] == [0.5, 2.0]
    assert (reach["mark"]["type"], reach["mark"]["clip"]) == ("rule", True)
    assert (reach["encoding"]["x"]["field"], reach["encoding"]["x2"]) == ("low", {"field": "high"})
    assert reach["encoding"]["y"]["sort"] == ["A100"]
    assert (band["mark"]["type"], band["mark"]["orient"]) == ("area", "horizontal")
    high = drawn(panel(Line(Coordinate("rate", "s", logarithmic=True))))["layer"][0]["encoding"]["y"]
    assert high["scale"] == {"type": "log"}


def test_guides_and_stretches_have_values_of_their_own():
    limit = Guide(RATE, ({"batch": "8", "rate": 20.0, "card": "A100"},))
    guide, shade = layers(panel(limit, Stretch("from", "to", ({"from": 1, "to": 2},)), colours=TWO))
    assert guide["mark"] == {"type": "line", "strokeDash": [6, 4]}
    assert guide["encoding"]["color"]["field"] == "card"
    assert shade["mark"]["type"] == "rect"
    assert (shade["encoding"]["x"]["field"], shade["encoding"]["x2"]) == ("from", {"field": "to"})


def test_words_stand_beside_their_points_over_a_white_rim():
    rim, words = layers(panel(Words(RATE, "card")))
    assert rim["mark"]["stroke"] == "white"
    assert rim["encoding"] == words["encoding"]
    assert words["encoding"]["text"] == {"field": "card"}


def test_long_titles_are_broken_and_a_record_cannot_bring_what_steers():
    one = Panel("word " * 60, BATCH, (Line(RATE),), VALUES, subtitle="model\x1b[31m")
    title = drawn(one)["title"]
    assert len(title["text"]) == 3
    assert title["text"][-1].endswith("…")
    assert title["subtitle"] == "model\N{REPLACEMENT CHARACTER}[31m"


def test_cells_are_as_dark_as_their_share_and_their_numbers_can_be_read():
    y = Coordinate("is", "is", Kind.NAMES, ("cat", "dog"))
    cell, number = layers(panel(Cells(y, "share", "of the row", "items")))
    assert cell["encoding"]["color"]["scale"] == {"scheme": "blues", "domain": [0, 1]}
    assert cell["encoding"]["color"]["legend"] == {"format": "%", "title": "of the row"}
    assert cell["encoding"]["y"]["sort"] == ["cat", "dog"]
    assert number["encoding"]["text"] == {"field": "items"}
    assert number["encoding"]["color"]["condition"] == {"test": "datum.share > 0.5", "value": "white"}
    assert len(layers(panel(Cells(y, "share", "of the row")))) == 1


def test_every_phase_has_a_colour_of_its_own():
    every = phase_colours(set(PHASES))
    assert every.names == PHASES
    assert len(set(every.shades)) == len(PHASES)
    assert phase_colours({"forward", "data"}).names == ("data", "forward")


@pytest.mark.parametrize("marks", [
    (Line(RATE, labelled=True), Interval(RATE)), (Bars(RATE, "rate"),), (Dots(RATE),),
    (Divider("card", VALUES), Failure("card", VALUES)),
    (Guide(RATE, VALUES), Words(RATE, "card"), Line(RATE, faint=True)),
    (Cells(Coordinate("card", "card", Kind.NAMES), "rate", "x"),),
])  # fmt: skip
def test_vl_convert_takes_it(marks):
    vl_convert = pytest.importorskip("vl_convert")
    assert vl_convert.vegalite_to_svg(vega_lite(Picture("", (panel(*marks, colours=TWO),)))).startswith("<svg")

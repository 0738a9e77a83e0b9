"""The pictures of a Document as files: all of them, each under a name of its own, the same bytes again."""

import pytest

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.report.charts.forest_plot import Ratio, ratios_chart
from torchstone.report.document import Chart, Document, Section, Text
from torchstone.report.pictures import charts_of, drawn, with_links, without_charts
from torchstone.report.translation.documents import translated

VALUES = ({"x": "8", "y": 1.5}, {"x": "16", "y": 2.5})
PANEL = vl.panel("a panel", vl.steps("x", "batch size"), vl.number_axis("y", "ms"), (vl.line(),), VALUES)
PICTURE = Picture("a title", (PANEL,))
(RATIOS,) = ratios_chart((Ratio("train", "throughput", 1.2, 1.1, 1.3, "better"),), 0.02, 0.95)
PAGE = Document("t", (
    Text("the answer"), RATIOS, Chart("speed", "says", PICTURE),
    Section("more", (Chart("speed", "again", PICTURE), Section("deep", (Chart("../../etc/x y", "a path", PICTURE),)))),
    Section("pictures alone", (Chart("last", "says", PICTURE),)),
))  # fmt: skip


def test_every_picture_is_found_in_order_under_a_name_that_is_a_file_s():
    assert [chart.name for chart in charts_of(PAGE)] == ["ratios", "speed", "speed_2", "etc_x_y", "last"]
    assert charts_of(Document("t", (Text("none"),))) == ()


def test_the_plot_of_ratios_speaks_the_language_of_its_document():
    korean = charts_of(translated(PAGE, "ko"))[0]
    assert korean.name == "ratios"
    assert korean.picture.title.startswith("비교 대상 ÷ 기준")
    assert korean.picture.subtitle == "막대: 95 % 신뢰구간; 음영: 2 % 미만의 차이"
    assert [panel.title for panel in korean.picture.panels] == ["향상: 1"]


def test_each_is_drawn_as_svg_and_png_the_same_again():
    pytest.importorskip("vl_convert")
    files = drawn(PAGE)
    assert list(files)[:4] == ["ratios.svg", "ratios.png", "speed.svg", "speed.png"]
    assert files["speed.svg"].startswith(b"<svg")
    assert files["speed.png"].startswith(b"\x89PNG")
    assert drawn(PAGE) == files
    assert list(drawn(PAGE, (".png",))) == [name for name in files if name.endswith(".png")]


def test_a_page_that_links_its_pictures_names_their_files():
    page = with_links(PAGE, "../plots")
    assert [part.name for part in page.parts if isinstance(part, Chart)] == ["../plots/ratios", "../plots/speed"]
    more = page.parts[3]
    assert isinstance(more, Section)
    assert isinstance(more.parts[0], Chart)
    assert more.parts[0].name == "../plots/speed_2"


def test_a_page_without_files_has_no_links_and_no_empty_section():
    page = without_charts(PAGE)
    assert charts_of(page) == ()
    assert [part.title for part in page.parts if isinstance(part, Section)] == []
    kept = Document("t", (Section("facts", (Text("one"), Chart("x", "says", PICTURE))), Section("empty", ())))
    assert without_charts(kept).parts == (Section("facts", (Text("one"),)), Section("empty", ()))

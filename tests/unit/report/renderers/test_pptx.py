"""Slides: they open again, nothing overlaps or leaves the slide, tables are native, notes say how it was measured."""

import builtins
import io
import zipfile
from functools import cache
from itertools import combinations

import pytest

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import Chart, Column, CommandLine, Document, Doubt, Fields, Role, Section, Table, Text
from torchstone.report.renderers.pptx import coded
from torchstone.report.rendering import renderer

pptx = pytest.importorskip("pptx", reason="slides need python-pptx")
MSO_SHAPE_TYPE = pytest.importorskip("pptx.enum.shapes").MSO_SHAPE_TYPE
qn = pytest.importorskip("pptx.oxml.ns").qn

HOSTILE = "<a:t>&amp; ]]> #import \x1b\u202e\x00\ud800 \ufffe _x001B_ {=1}"
X, RATE, ROWS = (
    vl.number_axis("x", "batch size"),
    vl.number_axis("y", "images/s"),
    ({"x": 8, "y": 1.0}, {"x": 16, "y": 2.0}),
)
PANEL = vl.panel("cpu", X, RATE, (vl.line(),), ROWS)
CHART = Chart("speed", "images/s rise with the batch size", Picture("Speed", (PANEL,)))
LEAD = (
    Text("Fastest: batch size 16.", Role.HEADLINE),
    Text("host: a card, torch 2.9.0"),
    Text("3 trials a case, at most 5 s a window"),
)


def opened(*parts, title="run of cnn"):
    return pptx.Presentation(io.BytesIO(renderer("pptx").render(Document(title, parts))))


def texts(slide):
    return [line for shape in slide.shapes if shape.has_text_frame for line in shape.text_frame.text.split("\n")]


def tables(shown):
    return [shape.table for slide in shown.slides for shape in slide.shapes if shape.has_table]


def cells(table):
    return [[cell.text_frame.text.replace("\xa0", " ") for cell in row.cells] for row in table.rows]


def test_the_first_slide_has_the_answer_the_machine_and_the_title():
    shown = opened(*LEAD, Section("train cnn", (Text("fast"),)))
    first, second = shown.slides
    assert texts(first)[:4] == ["run of cnn", *(part.text for part in LEAD)]
    assert texts(second)[:2] == ["train cnn", "fast"]
    assert shown.slide_width / shown.slide_height == pytest.approx(16 / 9)


def test_slides_of_a_korean_document_are_korean():
    parts = (*LEAD, Text("느림", Role.NOTE), Section("train cnn", (Text("빠름"), Section("x", (), folded=True))))
    made = renderer("pptx").render(Document("실행", parts, language="ko"))
    first, *others = pptx.Presentation(io.BytesIO(made)).slides
    assert texts(first)[-1] == f"1/{1 + len(others)}"
    assert any("참고 느림" in texts(one) for one in (first, *others))
    assert first.notes_slide.notes_text_frame.text.startswith("측정 방법:")
    assert any("이 슬라이드에 없는 것: x" in one.notes_slide.notes_text_frame.text for one in others)
    assert {run.get("lang") for one in others for run in one.element.iter(qn("a:rPr"))} == {"ko-KR"}


def test_what_is_said_of_the_whole_stands_on_the_first_slide_wherever_the_document_has_it():
    best = (Text("best"), Text("1.9", Role.DETAIL))
    settings = Section("settings", (Text("batch size 16"),))
    shown = opened(LEAD[0], *best, settings, Text("to run:"), CommandLine("x"), *LEAD[1:])
    assert texts(shown.slides[0])[:4] == ["run of cnn", *(part.text for part in LEAD)]
    _, *others = (texts(slide)[:-1] for slide in shown.slides)
    assert others == [["run of cnn", "best", "1.9"], ["settings", "batch size 16"], ["run of cnn", "to run:", "x"]]


def test_notes_say_how_it_was_measured_and_the_details():
    shown = opened(*LEAD, Section("train cnn", (Text("precision bf16", Role.DETAIL), Text("fast"))))
    notes = shown.slides[1].notes_slide.notes_text_frame.text.split("\n")
    assert notes == ["How it was measured:", LEAD[1].text, LEAD[2].text, "precision bf16"]
    assert "precision bf16" not in texts(shown.slides[1])


def test_the_details_of_a_text_stand_below_it_and_in_the_notes():
    details = ["1,900 images/s ±1.5 %", "safe"]
    shown = opened(Section("best", (Text("batch size 16"), *(Text(line, Role.DETAIL) for line in details))))
    assert texts(shown.slides[1])[:4] == ["best", "batch size 16", *details]
    assert shown.slides[1].notes_slide.notes_text_frame.text.split("\n") == details


def test_a_table_is_native_and_goes_on_with_its_head_on_the_next_slide():
    column = tuple(f"case {n}" for n in range(70))
    shown = opened(Section("rates", (Table((Column("case", column, left=True), Column("images/s", column))),)))
    found = tables(shown)
    assert len(found) > 1
    assert all(cells(table)[0] == ["case", "images/s"] for table in found)
    told = [row[0] for table in found for row in cells(table)[1:]]
    assert told == list(column[: len(told)])
    assert len(told) == 43  # three slides
    titles = [slide.shapes.title.text_frame.text for slide in shown.slides]
    assert titles == ["run of cnn", *["run of cnn (continued)"] * (len(titles) - 1)]
    assert f"{70 - len(told)} more rows in the CSV beside it" in texts(shown.slides[-1])


def test_what_people_ask_all_of_is_as_short_as_the_document_has_it():
    shown = opened(Section("rates", (Table((Column("case", ("a", "b", "c")),), most=1),)))
    assert cells(tables(shown)[0]) == [["case"], ["a"]]
    folded = opened(Section("more", (Text("hidden"),), folded=True, how="--full"))
    assert not any("hidden" in text for slide in folded.slides for text in texts(slide))
    notes = folded.slides[0].notes_slide.notes_text_frame.text
    assert notes == "Not on these slides: more: torchstone report --format html"
    assert len(folded.slides) == 1


def test_facts_commands_and_doubts():
    shown = opened(
        *LEAD, Fields((("record", "x.jsonl"),)), CommandLine("torchstone show x"),
        Doubt(Severity.WARNING, "batch 16", "others were busy", "measure again"),
    )  # fmt: skip
    assert cells(tables(shown)[0]) == [["record", "x.jsonl"]]
    assert texts(shown.slides[1])[:3] == [
        "Findings", "torchstone show x", "Warning batch 16: others were busy. measure again",
    ]  # fmt: skip


def test_a_section_after_one_with_slides_of_its_own_stands_under_its_own_title():
    inner = Section("inner", (Section("part", (Text("a"),)), Text("b")))
    shown = opened(Section("outer", (inner, Text("c"))))
    assert [texts(slide)[:-1] for slide in shown.slides][1:] == [["inner", "part", "a", "b"], ["outer", "c"]]


def test_a_picture_has_its_words_for_who_cannot_see_it():
    pytest.importorskip("vl_convert")
    shown = opened(Section("speed", (CHART,)))
    (picture,) = [shape for slide in shown.slides for shape in slide.shapes if shape.shape_type == 13]
    assert picture._element.nvPicPr.cNvPr.get("descr") == CHART.says
    assert picture.image.content_type == "image/png"
    width, height = picture.image.size
    assert picture.width / picture.height == pytest.approx(width / height, rel=0.01)


def test_a_picture_has_a_slide_of_its_own_under_its_own_title():
    pytest.importorskip("vl_convert")
    shown = opened(Section("Pictures", (Text("as measured"), Text("by ab", Role.DETAIL), CHART, Text("behind"))))
    titles = [slide.shapes.title.text_frame.text for slide in shown.slides]
    assert titles == ["run of cnn", "Pictures", "Speed", "Pictures"]
    only = opened(Section("Pictures", (Text("by ab", Role.DETAIL), CHART)))
    assert [slide.shapes.title.text_frame.text for slide in only.slides] == ["run of cnn", "Speed"]
    assert only.slides[1].notes_slide.notes_text_frame.text == "by ab"


def test_without_the_library_of_pictures_it_says_what_to_install(monkeypatch):
    def missing(picture):
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'")

    monkeypatch.setattr("torchstone.report.renderers.pptx.as_png", missing)
    shown = opened(CHART)
    assert any("pip install 'torchstone[charts]'" in text for slide in shown.slides for text in texts(slide))


def test_nothing_a_stranger_wrote_is_markup():
    shown = opened(
        Text(HOSTILE, Role.HEADLINE), Text(HOSTILE), Section(HOSTILE, (Text(HOSTILE, Role.DETAIL), Text("x"))),
        Table((Column(HOSTILE, (HOSTILE,)),)), CommandLine(HOSTILE), Doubt(Severity.ERROR, HOSTILE, HOSTILE, HOSTILE),
        title=HOSTILE,
    )  # fmt: skip
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in HOSTILE)
    assert texts(shown.slides[0])[:2] == [plain] * 2
    assert cells(tables(shown)[0]) == [[plain], [plain]]
    assert plain in shown.slides[1].notes_slide.notes_text_frame.text


LONG = "owner/" + "a-model-with-a-name-that-goes-on-" * 300
MANY = Document(LONG, (
    Text(LONG, Role.HEADLINE), Text(LONG), *[Text("word " * 400)] * 4,
    Section(LONG, (Table((
        Column("name", (LONG, "b") * 40, left=True, shorten=True), Column(LONG, (LONG, "b") * 40, left=True),
        *(Column(f"figure {n}", ("123,456.7 ms", "a b c " * 50) * 40, n) for n in range(30)),
    )),)),
    *[Section(f"case {n}", (Section("figures", (Fields(((LONG, LONG), ("a", "b"))),)),)) for n in range(90)],
))  # fmt: skip


@cache
def many():
    """The file of a document with more than slides have room for; it takes seconds."""
    return renderer("pptx").render(MANY)


@pytest.mark.parametrize("document", [
    MANY, Document("", ()), Document("t", (*LEAD, CHART, CHART)),
])  # fmt: skip
def test_nothing_overlaps_or_leaves_the_slide(document):
    file = many() if document is MANY else renderer("pptx").render(document)
    shown = pptx.Presentation(io.BytesIO(file))
    for slide in shown.slides:
        boxes = [(shape.left, shape.top, shape.left + shape.width, shape.top + high(shape)) for shape in slide.shapes]
        for left, top, right, bottom in boxes:
            assert left >= 0
            assert top >= 0
            assert right <= shown.slide_width
            assert bottom <= shown.slide_height
        for a, b in combinations(boxes, 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], texts(slide)
    assert len(shown.slides) <= 40


def high(shape):
    return sum(row.height for row in shape.table.rows) if shape.has_table else shape.height


def test_more_slides_than_people_watch_are_left_out_and_said():
    shown = pptx.Presentation(io.BytesIO(many()))
    assert len(shown.slides) == 40
    assert texts(shown.slides[-1])[:2] == [
        "More", "More is left out here; all of it: torchstone report --format html",
    ]  # fmt: skip


def test_the_same_document_is_the_same_file():
    document = Document("t", (*LEAD, CHART, Text("b", Role.DETAIL)))
    file = renderer("pptx").render(document)
    assert file == renderer("pptx").render(document)
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.testzip() is None


def test_without_python_pptx_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "pptx":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingError, match=r"PowerPoint slides need python-pptx: pip install 'torchstone\[report\]'"):
        renderer("pptx").render(Document("t", ()))


def test_what_is_typed_is_set_as_code_and_a_single_backtick_stays():
    assert coded("type `make` now") == ["type ", "make", " now"]
    assert coded("a ` alone") == ["a ` alone"]
    slides = opened(*LEAD, Section("s", (Text("type `make` now"),))).slides
    runs = [
        run
        for slide in slides
        for shape in slide.shapes
        if shape.has_text_frame
        for run in shape.text_frame.paragraphs[0].runs
    ]
    (typed,) = [run for run in runs if run.text == "make"]
    assert typed.font.name is not None
    assert next(run for run in runs if run.text == " now").font.name is None


def test_an_empty_cell_makes_no_row_taller():
    column = Column("a", ("x", ""), left=True)
    (table,) = tables(opened(*LEAD, Section("s", (Table((column, Column("b", ("1", "2")))),))))
    (nothing,) = table.rows[2].cells[0].text_frame.paragraphs[0].runs
    assert (nothing.text.strip(), nothing.font.size.pt) == ("", 11.0)

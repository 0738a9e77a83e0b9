"""PDF files: they open again, contain every text as text, are tagged, and are the same for the same Document."""

import builtins
import io
import re

import pytest

from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import (
    Attachment,
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers.pdf import RENDERER

pytest.importorskip("typst", reason="PDF needs typst")
pypdf = pytest.importorskip("pypdf", reason="the tests read PDF through pypdf")

HOSTILE = '#import "x": * $x^2$ \\ [a](b) @ref <label> *b* _i_ // c /* d */ `r` ~ -- \x1b\u202e\x00 #sys.inputs'
X, RATE, ROWS = (
    vl.number_axis("x", "batch size"),
    vl.number_axis("y", "images/s"),
    ({"x": 8, "y": 1.0}, {"x": 16, "y": 2.0}),
)
PANEL = vl.panel("cpu", X, RATE, (vl.line(),), ROWS)
CHART = Chart("speed", "images/s rise with the batch size", Picture("Speed", (PANEL,)))


def opened(document):
    return pypdf.PdfReader(io.BytesIO(RENDERER.render(document)), strict=True)


def texts(document):
    """The text of the pages in one line, without blanks: lines break anywhere."""
    return re.sub(r"[\s\u200b]", "", "".join(page.extract_text() for page in opened(document).pages))


def test_every_part_is_there_in_its_order():
    document = Document("run of cnn", (
        Text("Fastest: batch size 16.", Role.HEADLINE),
        Table((Column("batch size", ("8", "16"), left=True), Column("images/s", ("1,000", "1,900")))),
        Section("causes", (Text("a cause"), Text("usually slow", Role.DETAIL), Text("all in all", Role.NOTE))),
        Doubt(Severity.WARNING, "batch 16", "others were busy", "measure again"),
        CommandLine("torchstone run cnn --trials 10"),
        Fields((("record", "outputs/records/x.jsonl"),)),
    ))  # fmt: skip
    told = [
        "runofcnn", "Fastest:batchsize16.", "batchsizeimages/s", "81,000161,900", "causes", "acause", "usuallyslow",
        "Note:allinall", "Warningbatch16:otherswerebusy.measureagain", "torchstoneruncnn--trials10",
        "recordoutputs/records/x.jsonl",
    ]  # fmt: skip
    assert [found for found in told if found not in texts(document)] == []
    places = [texts(document).index(found) for found in told]
    assert places == sorted(places)


def test_a_table_without_titles_has_a_line_a_row_with_words_apart():
    columns = ("step_time_p50", "steps"), ("22.67 ms", "10"), ("median step", "of the window")
    table = Table(tuple(Column("", cells, left=True) for cells in columns))
    (page,) = opened(Document("t", (table,))).pages
    told = [re.sub(r"\s+", " ", line).strip() for line in page.extract_text().splitlines()]
    assert "step_time_p50 22.67 ms median step" in told
    assert "steps 10 of the window" in told


def test_it_is_tagged_with_title_language_and_headings():
    file = opened(Document("run of cnn", (Section("a", (Section("b", (Text("c"),)),)),)))
    assert file.metadata.title == "run of cnn"
    root = file.trailer["/Root"]
    assert root["/MarkInfo"]["/Marked"]
    assert root["/Lang"].startswith("en")
    assert "/StructTreeRoot" in root
    assert [entry.title for entry in flat(file.outline)] == ["run of cnn", "a", "b"]
    assert b"pdfuaid:part" in root["/Metadata"].get_data()


def flat(outline):
    for one in outline:
        if isinstance(one, list):
            yield from flat(one)
        else:
            yield one


@pytest.mark.parametrize("place", ["title", "text", "cell", "fact", "command", "section", "doubt"])
def test_nothing_a_stranger_wrote_is_markup(place):
    documents = {
        "title": Document(HOSTILE, ()),
        "text": Document("t", (Text(HOSTILE, Role.HEADLINE),)),
        "cell": Document("t", (Table((Column(HOSTILE, (HOSTILE,)),)),)),
        "fact": Document("t", (Fields(((HOSTILE, HOSTILE),)),)),
        "command": Document("t", (CommandLine(HOSTILE),)),
        "section": Document("t", (Section(HOSTILE, (Text("x"),)),)),
        "doubt": Document("t", (Doubt(Severity.ERROR, HOSTILE, HOSTILE, HOSTILE),)),
    }
    shown = HOSTILE.replace("\x1b\u202e\x00", "\N{REPLACEMENT CHARACTER}" * 3)
    bare = re.sub(r"[\s`]", "", shown)  # what stands between backticks is set as what is typed
    assert bare in texts(documents[place]).replace("`", "")


def test_ten_thousand_characters_are_bounded_and_stay_on_the_page():
    long = "x" * 10_000
    document = Document(long, (Text(long), Fields(((long, long),)), Table((Column(long, (long,)),)), CommandLine(long)))
    told = texts(document)
    assert "x…" in told
    assert len(told) < 20_000
    for page in opened(document).pages:
        page.extract_text(visitor_text=lambda text, _, matrix, *rest: 0 <= matrix[4] < 596 or pytest.fail(text))


def test_a_korean_document_is_set_in_the_shipped_font():
    parts = (Text("가장 빠름: 배치 크기 16.", Role.HEADLINE), Text("모두 측정함", Role.NOTE), CHART)
    file = opened(Document("실행", parts, language="ko"))
    told = "".join(page.extract_text() for page in file.pages).replace(" ", "")
    assert [found for found in ("가장빠름:배치크기16.", "참고:모두측정함", "실행", "1/1") if found not in told] == []
    assert "\\u" not in told
    assert file.trailer["/Root"]["/Lang"] == "ko"


@pytest.mark.parametrize("name", ["模型🔥", "e\u0301", "שלום", "\U0001f9ff"])
def test_characters_of_other_scripts_are_there_or_their_codes(name):
    told = texts(Document("t", (Text(f"model {name} end"),)))
    assert "model" in told
    assert "end" in told
    assert name in told or "\\" in told or "é" in told


def test_a_long_table_repeats_its_head_and_says_what_is_left_out():
    cells = tuple(f"case {n}" for n in range(700))
    file = opened(Document("t", (Table((Column("name", cells, left=True), Column("n", cells))),)))
    pages = [page.extract_text() for page in file.pages]
    full = [page for page in pages if "case" in page]
    assert len(full) > 3
    assert all("name" in page for page in full)
    assert "200 more rows in the CSV beside it" in " ".join(pages[-1].split())
    assert "case 499" in "".join(pages)
    assert "case 500" not in "".join(pages)


def test_columns_without_room_are_in_the_csv():
    wide = (Column("batch", ("8",)), *(Column(f"figure {n}", ("123,456.7 ms",), n) for n in range(12)))
    (page,) = opened(Document("t", (Table(wide),))).pages
    text = " ".join(page.extract_text().split())
    assert "figure 0" in text
    assert "figure 11" not in text
    assert re.search(r"\d more columns in the CSV", text)


def test_a_picture_has_its_words_for_who_cannot_see_it():
    pytest.importorskip("vl_convert")
    document = Document("t", (CHART,))
    assert "images/srisewiththebatchsize" in texts(document)
    assert b"images/s rise with the batch size" in b"".join(decoded(opened(document)))


def decoded(file):
    """The alternative texts of a file."""
    for n in range(1, file.trailer["/Size"]):
        found = file.get_object(n)
        if isinstance(found, dict) and "/Alt" in found:
            yield str(found["/Alt"]).encode()


def test_without_the_library_of_pictures_it_says_what_to_install(monkeypatch):
    def missing(picture):
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'")

    monkeypatch.setattr("torchstone.report.renderers.pdf.as_svg", missing)
    assert "(picturesneedvl-convert-python:pipinstall'torchstone[charts]')" in texts(Document("t", (CHART,)))


def test_attachments_are_in_it_under_a_name_that_is_no_path():
    content = bytes(range(256)) * 40
    attached = (
        Attachment("../../run.jsonl", "application/jsonl", content), Attachment("b", "no type", b"1"),
        Attachment("b", "text/plain", b"2"),
    )  # fmt: skip
    found = opened(Document("t", (), attached)).attachments
    assert found == {"_.._run.jsonl": [content], "b": [b"1"], "2-b": [b"2"]}


def test_the_same_document_is_the_same_file():
    document = Document("t", (Text("a"), CHART), (Attachment("a", "text/plain", b"a"),))
    assert RENDERER.render(document) == RENDERER.render(document)


def test_without_typst_it_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "typst":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingError, match=r"^PDF needs typst: pip install 'torchstone\[report\]'$"):
        RENDERER.render(Document("t", ()))


def test_two_pictures_of_one_row_stand_on_a_page():
    pytest.importorskip("vl_convert")
    assert len(opened(Document("t", (Section("Pictures", (CHART, CHART)),))).pages) == 1


def test_a_few_facts_stay_on_one_page():
    facts = Fields(tuple((f"name {n}", "value") for n in range(9)))
    pages = opened(Document("t", tuple(Section(f"device {n}", (facts,)) for n in range(8)))).pages
    told = [page.extract_text() for page in pages]
    assert len(told) > 1
    assert all(page.count("device") == page.count("name 0") == page.count("name 8") for page in told)

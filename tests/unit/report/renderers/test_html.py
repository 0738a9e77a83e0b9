"""The page as text: what it says, that it is well formed, that nothing of a stranger's runs, and what it carries."""

import base64
import hashlib
import itertools
import json
import os
import re
import sys
from functools import cache
from pathlib import Path

import comparable
import msgspec
import pytest
from build import a_sweep
from over import over
from stored import store
from web_pages import Page, compared, pictured
from zoo import HOSTILE, PAGES, ZOO

from torchstone.analysis.summary import summarize
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.vega_lite import Picture
from torchstone.core.errors import MissingError
from torchstone.core.schema.estimate import Severity
from torchstone.core.units import plain
from torchstone.report.attached import attached
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
from torchstone.report.documents.run import run_document
from torchstone.report.pictures import without_charts
from torchstone.report.renderers.html import RENDERER
from torchstone.report.renderers.html import charts as drawing
from torchstone.report.renderers.html.page import SAID, asset
from torchstone.report.translation.documents import translated
from torchstone.storage.query import find

GOLDEN = Path(__file__).parents[3] / "golden" / "html"
RENEW = "TORCHSTONE_RENEW_GOLDEN"
pytestmark = pytest.mark.xdist_group("html")  # each page is drawn once for its tests
DOCUMENTS = [*ZOO, ("pictures", pictured), ("ratios", compared)]
each = over("make", DOCUMENTS)
BATCH, RATE = vl.steps("batch", "batch size", ("8", "16")), vl.number_axis("y", "images/s")
SPEED = vl.panel("cnn", BATCH, RATE, (vl.line(),), ({"batch": "8", "y": 100.0}, {"batch": "16", "y": 1234.56}))


@cache
def drawn(make):
    """A document and its page, drawn once for all tests."""
    document = make()
    return document, RENDERER.render(document).decode()


def text_of(document):
    return RENDERER.render(document).decode()


def page_of(*parts, attachments=()):
    return Page(text_of(Document("title", parts, attachments)))


def line(text):
    """One printable line, as a page shows any text."""
    return text if text.isprintable() else plain(" ".join(text.split()))


def texts_of(parts):
    for part in parts:
        match part:
            case Text():
                yield part.text
            case CommandLine():
                yield part.words
            case Fields():
                yield from itertools.chain.from_iterable(part.rows)
            case Table():
                yield from (c for column in part.columns if is_there(column) for c in (column.title, *column.cells))
            case Doubt():
                yield from (part.subject, part.message, part.advice)
            case Section():
                yield from (part.title, *texts_of(part.parts))


def is_there(column):
    return column.rank == 0 or any(cell not in ("", "–") for cell in column.cells)


# ── every document ──────────────────────────────────────────────────────────────────────────────────────────


@each
def test_a_page_is_well_formed_and_has_no_id_twice(make):
    page = Page(drawn(make)[1])
    assert len(set(page.ids)) == len(page.ids)
    levels = [level for level, _ in page.headings]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in itertools.pairwise(levels)), "no level is left out"
    assert all(href[1:] in page.ids for href in page.of("href"))
    assert {"lang", "charset"} <= {name for _, name, _ in page.attributes}


@each
def test_nothing_but_our_script_and_styles_can_run_or_load(make):
    page = Page(drawn(make)[1])
    assert [one.type for one in page.scripts].count("") == 1
    assert {one.type for one in page.scripts} <= {"", "application/json", "application/octet-stream"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in ("style", "src", "srcset")]
    assert not {tag for tag, *_ in page.attributes} & {"link", "iframe", "object", "embed", "base", "form", "img", "a "}
    (policy,) = (value for _, name, value in page.attributes if name == "content" and value.startswith("default-src"))
    (script,) = (one.text for one in page.scripts if not one.type)
    for directive, text in (("script-src", script), ("style-src", page.styles[0])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@each
def test_a_page_says_all_that_its_document_does(make):
    document, page = drawn(make)
    text = Page(page).text
    # A mark or a verdict is an element of its own, so blanks do not count.
    flat = text.replace(" ", "")
    missing = [t for t in texts_of(document.parts) if line(t).replace(" ", "") not in flat]
    assert [t for t in missing if _as_code(line(t)).replace(" ", "") not in flat] == []


@each
def test_the_answer_comes_first(make):
    document, page = drawn(make)
    if document.headline is not None and isinstance(document.parts[0], Text):
        after = Page(page).text.split(line(document.title), 2)[2].replace(" ", "")
        assert after.startswith(_as_code(line(document.headline)).replace(" ", ""))


def _as_code(text):
    """Without the backticks around what a page sets as code."""
    return re.sub(r"`([^`]+)`", r"\1", text)


def test_what_stands_between_backticks_is_code_and_still_escaped():
    page = text_of(Document("t", (Text("type `torchstone <run>`, or a lone ` mark"),)))
    assert "<p>type <code>torchstone &lt;run&gt;</code>, or a lone ` mark</p>" in page


def test_what_a_stranger_wrote_is_text():
    name = "\"><script>alert(1)</script><img src=x onerror=alert(2)>' onload='x"
    page = page_of(
        Text(name), CommandLine(name), Fields(((name, name),)), Table((Column(name, (name, f"{name}*"), left=False),)),
        Doubt(Severity.WARNING, name, name, name), Section(name, (Text(name, Role.NOTE),), folded=True),
        Chart(name, name, Picture(name, (vl.panel(name, BATCH, RATE, (vl.line(),), ({"batch": name, "y": 1.0},)),))),
        attachments=(Attachment(name, name, b"x"),),
    )  # fmt: skip
    assert not {tag for tag, *_ in page.attributes} & {"img"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert len(page.scripts) == 3


def test_what_steers_text_is_replaced_everywhere():
    page = text_of(Document(HOSTILE, (Text(HOSTILE), Table((Column(HOSTILE, (f"{HOSTILE}*", HOSTILE), left=True),)))))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


# ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_neighbours_of_one_kind_are_one_list_and_folded_sections_can_be_opened():
    text = text_of(Document("t", (
        Text("answer", Role.HEADLINE), Text("a", Role.NOTE), Text("b", Role.NOTE),
        Section("more", (Text("x"),), folded=True), Section("", (Text("y"),)),
    )))  # fmt: skip
    assert re.search(r'<ul class="notes">\s*<li>a</li>\s*<li>b</li>\s*</ul>', text)
    assert re.search(r"<details[^>]*><summary><h2>more</h2></summary>\s*<p>x</p>\s*</details>\s*<p>y</p>", text)
    assert '<div class="answer">\n<p>answer</p>' in text


def test_cases_that_have_sections_are_folded_where_they_are_three_or_more():
    case = Section("a case", (Section("MEMORY", (Text("1 GiB"),)),))
    two, three = (
        text_of(Document("t", (Section("REPORT", (Section("SYSTEM", (Text("x"),)), *([case] * n))),))) for n in (2, 3)
    )
    assert two.count("<details") == 0
    assert three.count('<details class="section"') == 3
    assert "<h3>SYSTEM</h3>" in three


def test_what_many_cases_explain_in_the_same_words_is_said_once_and_what_differs_where_it_is():
    def told(n):
        words = "of one case" if n == 3 else "of all"
        rows = Table(
            (
                Column("", ("speed", "size"), left=True),
                Column("", (f"{n} ms", "1 B")),
                Column("", ("how fast", words), left=True),
            )
        )
        return Section(f"case {n}", (Section("FIGURES", (rows,)),))

    few, many = (
        Page(text_of(Document("t", (Section("REPORT", (Text("x"), *map(told, range(count)))),)))) for count in (11, 12)
    )
    assert "What the figures are" not in few.text
    assert few.rows[0] == ["speed", "0 ms", "how fast"]
    assert many.rows[:3] == [["figure", "what it is"], ["speed", "how fast"], ["speed", "0 ms", ""]]
    assert many.rows[3] == ["size", "1 B", "of all"], "in one case it is another size"
    assert many.text.count("how fast") == 1
    assert many.text.index("What the figures are") < many.text.index("case 0")


def test_the_figures_of_very_many_cases_are_one_table_and_what_else_is_told_of_a_case_stays():
    def told(n):
        names = ("speed", "size") if n else ("speed",)
        rows = Table((
            Column("", names, left=True), Column("", tuple(f"{n} {name}" for name in names)),
            Column("", tuple(f"the {name}" for name in names), left=True),
        ))  # fmt: skip
        return Section(f"case {n}", (*((Text("it is odd"),) if n == 7 else ()), Section("FIGURES", (rows,))))

    page = Page(text_of(Document("t", (Section("REPORT", (Text("x"), *map(told, range(48)))),))))
    assert page.rows[:3] == [["case", "speed", "size"], ["case 0", "0 speed", ""], ["case 1", "1 speed", "1 size"]]
    assert page.rows[49:] == [["figure", "what it is"], ["speed", "the speed"], ["size", "the size"]]
    assert [title for _, title in page.headings][-2:] == ["What the figures are", "case 7"]
    assert page.text.count("it is odd") == 1


def test_what_is_left_of_very_many_cases_is_one_table_a_block():
    def told(n):
        rows = Table((
            Column("", ("speed", f"bounded by {n}", ""), left=True), Column("", (f"{n} ms", "9 %", "")),
            Column("", ("how fast", f"at {n}", "at most"), left=True),
        ))  # fmt: skip
        return Section(f"case {n}", (Section("ROOFLINE", (rows,)),))

    odd = Section("odd", (Text("it failed"), Section("TRIALS", (Text("timeout"),))))
    page = Page(text_of(Document("t", (Section("REPORT", (Text("x"), *map(told, range(48)), odd)),))))
    head = page.rows.index(["case", "figure", "value", "what it is"])
    assert page.rows[head + 1 :][:2] == [[f"case {n}", f"bounded by {n}", "9 %", f"at {n}; at most"] for n in (0, 1)]
    assert [title for _, title in page.headings][-3:] == ["ROOFLINE", "odd", "TRIALS"]


def test_a_page_of_many_sections_has_contents():
    sections = tuple(Section(f"part {n}", (Text("x"),)) for n in range(4))
    page = Page(text_of(Document("t", sections)))
    assert [href for href in page.of("href") if href != "#main"] == ["#s1", "#s2", "#s3", "#s4"]
    assert "nav" not in {tag for tag, *_ in Page(text_of(Document("t", sections[:3]))).attributes}


def test_a_table_says_its_marks_and_verdicts_and_repeats_a_name_that_was_left_empty():
    text = text_of(Document("t", (Table((
        Column("case", ("a", "", "b"), left=True),
        Column("rate", ("10*", "9=", "8")), Column("±", ("±1 %", "", ""), 1, of=1),
        Column("nothing", ("–", "–", "–"), 2), Column("of nothing", ("x", "", ""), 2, of=3),
        Column("verdict", ("better", "SUSPECT, 2 OOM", "ok"), left=True),
    )),)))  # fmt: skip
    assert '<table class="titled l1 l4">' in text
    assert re.search(r'<th scope="col" data-rank="1" data-of="1">±<', text)
    assert Page(text).rows == [
        ["case", "rate", "±", "verdict"], ["a", "10*", "±1 %", "better"], ["a", "9=", "", "SUSPECT, 2 OOM"],
        ["b", "8", "", "ok"],
    ]  # fmt: skip
    assert "<td>10<b>*</b><" in text
    assert '<td><span class="v open">SUSPECT</span>, 2 OOM<' in text


def test_a_table_without_titles_has_no_head():
    assert "<thead>" not in text_of(Document("t", (Table((Column("", ("a",), left=True), Column("", ("b",)))),)))


# ── pictures ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_picture_is_drawn_in_the_page_with_its_name_and_a_table_of_its_values():
    pytest.importorskip("vl_convert")
    page = page_of(Chart("speed", "it rises", Picture("Speed", (SPEED,))))
    names = [value for tag, name, value in page.attributes if (tag, name) == ("svg", "aria-label")]
    assert names[0] == "it rises cnn"
    assert page.rows == [["batch size", "images/s"], ["8", "100.0"], ["16", "1,235"]]
    assert "batch size: 8; images/s: 100" in page.told
    assert list(page.of("data-axes")) == ["linear", "logarithmic y"]


@pytest.mark.parametrize(
    ("panels", "more"),
    [(7, None), (9, "3 more: group 6; group 7; group 8"), (12, "6 more: group 6; group 7; group 8; …")],
)
def test_of_a_picture_of_many_panels_the_first_are_shown_and_the_others_folded(panels, more):
    many = tuple(msgspec.structs.replace(SPEED, group=f"group {n}") for n in range(panels))
    text = text_of(Document("title", (Chart("c", "c", Picture("", many)),)))
    shown, _, folded = text.partition('<details class="section more">')
    assert shown.count('class="panel"') == (panels if more is None else 6)
    assert folded.count('class="panel"') == (0 if more is None else panels - 6)
    assert more is None or folded.startswith(f"<summary>{more}</summary>")


def test_other_axes_are_offered_where_they_show_more():
    pytest.importorskip("vl_convert")

    def offered(values, *more):
        panel = vl.panel("", vl.number_axis("x", "x"), vl.number_axis("y", "y"), (vl.line(), *more), values)
        return list(page_of(Chart("c", "c", Picture("", (panel,)))).of("data-axes"))

    assert offered([{"x": 1, "y": 5.0}, {"x": 1000, "y": 6.0}]) == ["linear", "logarithmic x"]
    assert offered([{"x": 1, "y": 5.0}, {"x": 9, "y": 600.0}])[-1] == "logarithmic x and y"
    assert offered([{"x": 0, "y": 0.0}, {"x": 9, "y": 600.0}]) == ["linear"]
    low = [{"x": 1, "y": 5.0, "low": -1.0, "high": 9.0}, {"x": 2, "y": 600.0, "low": 500.0, "high": 900.0}]
    assert offered(low, vl.interval_bar()) == ["linear"], "an end of an interval has no logarithm"


def test_axes_that_are_logarithmic_already_are_named_and_others_offered_beside_them():
    pytest.importorskip("vl_convert")
    x, y = vl.number_axis("x", "x", log=True), vl.number_axis("y", "y")
    panel = vl.panel("", x, y, (vl.line(),), ({"x": 1, "y": 5.0}, {"x": 1000, "y": 600.0}))
    page = page_of(Chart("c", "c", Picture("", (panel,))))
    assert list(page.of("data-axes")) == ["logarithmic x", "logarithmic x and y"]


def test_a_long_line_tells_values_along_it_and_none_for_all_of_it():
    pytest.importorskip("vl_convert")
    values = tuple({"x": n, "y": 5.0 + n % 7, "line": name} for n in range(500) for name in ("a", "b"))
    x, y = vl.number_axis("x", "step"), vl.number_axis("y", "ms")
    panel = vl.panel("", x, y, (vl.line(),), values, vl.colours("line", "ab", "ab"))
    told = page_of(Chart("c", "c", Picture("", (panel,)))).told
    assert len(told) == len(set(told)) == 84
    assert "step: 0; ms: 5; line: a" in told
    assert any(one.startswith("step: 492; ") for one in told)


def test_ids_of_two_pictures_do_not_meet_and_their_places_are_found():
    pytest.importorskip("vl_convert")
    page = Page(text_of(pictured()))
    pointed = {found for _, _, value in page.attributes for found in re.findall(r"url\(#([^)]*)\)", value)}
    assert pointed <= set(page.ids)
    assert len(set(page.ids)) == len(page.ids)


def test_without_vl_convert_there_are_the_values_and_what_to_install(monkeypatch):
    def missing():
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'")

    monkeypatch.setattr(drawing, "import_vl_convert", missing)
    text = text_of(Document("t", (Chart("speed", "it rises", Picture("Speed", (SPEED,))),)))
    assert "pip install &#39;torchstone[charts]&#39;" in text
    assert '<details class="values" open>' in text
    assert "1,235" in text


def test_a_table_of_values_names_its_columns_by_the_axes_and_the_ends_of_intervals_by_themselves():
    row = {"batch": "8", "y": 100.0, "low": 90.0, "high": 111.0, "place": 1}
    panel = vl.panel("", BATCH, RATE, (vl.line("place"), vl.interval_bar(), *vl.dividers([])), [row])
    page = text_of(Document("t", (Chart("c", "c", Picture("", (panel,))),)))
    heads = re.findall(r'<th scope="?col"?>([^<]*)', page)
    assert heads == ["batch size", "images/s", "low", "high"]


def test_of_very_many_values_some_are_shown_evenly():
    panel = vl.panel("", vl.number_axis("x", "x"), vl.number_axis("y", "y"), (), [{"x": n} for n in range(3000)])
    page = page_of(Chart("c", "c", Picture("", (panel,))))
    assert len(page.rows) == 121
    assert page.rows[-1] == ["2975"]
    assert "2880 more values are left out" in page.text


# ── files ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_page_carries_files_that_can_be_read_back():
    files = (Attachment("a.jsonl", "application/jsonl", b"x" * 5000), Attachment("b", "text/plain", b"\x00</script>"))
    file = RENDERER.render(Document("t", (), files))
    assert attached(file) == list(files)
    assert file == RENDERER.render(Document("t", (), files))
    page = Page(file.decode())
    assert hashlib.sha256(files[0].content).hexdigest() in page.text
    assert "Files in this page" not in page_of().text


# ── as a whole ──────────────────────────────────────────────────────────────────────────────────────────────


def test_without_jinja_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingError, match=r"pip install 'torchstone\[report\]'"):
        RENDERER.render(Document("t", ()))


def test_336_cases_are_a_page_of_seven_hundred_kilobytes_at_most_without_pictures(tmp_path):
    sizes = [2**n for n in range(7)]
    points = [
        ({"num_workers": workers, "batch_size": size, "precision": precision, "compile": mode}, 0.01 + 1e-4 * size)
        for workers in range(12) for precision in ("fp32", "bf16") for mode in ("off", "default") for size in sizes
    ]  # fmt: skip
    phases = {"data": 0.3, "transfer": 0.02, "forward": 0.25, "backward": 0.35, "optimizer": 0.05, "rest": 0.03}
    run = a_sweep(points, phases=phases, utilization=0.6)
    store(tmp_path, [run])
    document = run_document(summarize(find(tmp_path, "latest")), every=True)
    assert len(points) == 336
    assert len(RENDERER.render(document)) <= 700_000  # without pictures


def test_what_the_scripts_say_is_in_the_language_of_the_page():
    words = {text for name in ("page", "tables", "charts") for text in SAID.findall(asset(f"{name}.js"))}
    assert len(words) > 15
    assert 'id="words"' not in drawn(compared)[1]
    page = RENDERER.render(translated(compared(), "ko")).decode()
    found = re.search(r'id="words">(.*?)</script>', page)
    assert found is not None
    told = json.loads(found[1])
    assert told.keys() == words
    assert all(re.search("[가-힣]", text) for text in told.values())
    assert re.search(r'<span class="v bad">저하</span>', page)


@pytest.mark.parametrize("name", ["show", "comparison"])
def test_a_page_is_as_it_was_looked_at(name, monkeypatch):
    monkeypatch.setattr(comparable, "_IDS", itertools.count(1))
    make = compared if name == "comparison" else next(page.make for page in PAGES if page.name == name)
    text = re.sub(r"<style>.*?</style>", "<style></style>", text_of(without_charts(make())), flags=re.DOTALL)
    text = re.sub(r"<script>.*?</script>", "<script></script>", text, flags=re.DOTALL)  # files of their own
    text = re.sub(r"sha256-[\w+/=]*", "sha256-", text)
    text = re.sub(r'(data-sha256="[0-9a-f]*">)[^<]*', r"\1", text)  # zlib's, of one version and another
    file = GOLDEN / f"{name}.html"
    if os.environ.get(RENEW) == "1":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert file.exists(), f"{RENEW}=1 writes it; then look at it"
    assert text == file.read_text(encoding="utf-8")

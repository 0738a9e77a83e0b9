"""A result as a notebook shows it: its answer first, in bounds, beside others on one page, and nothing of it runs."""

import re
import shutil
from collections import Counter

import pytest
from over import over
from web_pages import compared, pictured
from zoo import ZOO

from torchstone.core.errors import MissingError
from torchstone.report.document import Column, Document, Role, Section, Table, Text
from torchstone.report.renderers.html import charts as drawing
from torchstone.report.renderers.html.fragment import fragment

HOSTILE = [(name, make) for name, make in ZOO if "hostile" in name]
DOCUMENTS = [*HOSTILE, *ZOO[::6], ("pictures", pictured), ("ratios", compared)]
each = over("make", DOCUMENTS)
LONG = Document("long", (
    Text("The answer.", Role.HEADLINE),
    Table((Column("name", tuple(f"row {n}" for n in range(10_000)), left=True), *(
        Column(f"column {n}", ("1",) * 10_000) for n in range(300)
    ))),
    Text("x" * 100_000),
    *(Section(f"section {n}", (Text("word " * 1000),)) for n in range(200)),
))  # fmt: skip
EVIL = "</style><script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"


def without_style(text):
    return re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)


@each
def test_it_is_one_bounded_element_without_script_or_address(make):
    text = fragment(make())
    assert len(text.encode()) <= 600_000
    assert re.match(r'<div class="torchstone-result" lang="en">\n<style>\n?\.torchstone-result \{', text.lstrip())
    assert text.rstrip().endswith("</div>")
    assert "<script" not in text
    assert "url(" not in text.replace("url(#", ""), "nothing is loaded"
    assert not re.search(r'<[^>]*\s(?:src|srcset|href|action|style)="(?!#)', without_style(text)), "nor linked"
    (style,) = re.findall(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    outside = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    assert outside.count("{") == outside.count("}")
    while (less := re.sub(r"\{[^{}]*\}", "", outside)) != outside:
        outside = less
    assert set(outside.split()) == {".torchstone-result"}, "no rule is meant for the page around"
    assert not re.search(r"<[^>]*\son\w+=", without_style(text)), "no handlers"


def test_what_there_is_no_room_for_is_told():
    text = fragment(LONG)
    assert len(text) < 100_000
    assert text.index("The answer.") < text.index("row 0")
    assert re.search(r"and 9,?970 more rows and 277 more columns", text)
    assert "row 29<" in text
    assert "row 30<" not in text
    assert re.search(r"Left out here: \d+ more parts", text)


def test_drawings_that_are_too_large_are_left_out(monkeypatch):
    drawn = fragment(pictured())
    assert "<svg" in drawn
    monkeypatch.setattr("torchstone.report.renderers.html.fragment._MOST_BYTES", 5_000)
    assert "<svg" not in fragment(pictured())


def test_two_on_one_page_share_no_id():
    other = Document("another", compared().parts)
    ids = Counter(re.findall(r'\bid="([^"]*)"', fragment(pictured()) + fragment(compared()) + fragment(other)))
    assert ids
    assert set(ids.values()) == {1}
    assert set(re.findall(r'(?:url\(|href=")#([^")]*)', fragment(compared()))) <= set(ids)


def test_without_the_library_that_draws_it_shows_values(monkeypatch):
    def lacking():
        raise MissingError("pictures need vl-convert-python: pip install 'torchstone[charts]'")

    monkeypatch.setattr(drawing, "import_vl_convert", lacking)
    text = fragment(pictured())
    assert "pip install" in text
    assert "<svg" not in text
    assert "<details" in text


def test_nothing_of_a_record_executes_and_the_page_around_keeps_its_style(tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("needs Chromium: apt install chromium")
    evil = Document(EVIL, (Text(EVIL, Role.HEADLINE), Table((Column(EVIL, (EVIL,), left=True),)), Section(EVIL, ())))
    hostile = [*(make() for _, make in HOSTILE), evil, compared(), pictured()]
    file = tmp_path / "notebook.html"
    body = "".join(map(fragment, hostile))
    file.write_text(f"<!doctype html><meta charset=utf-8><title>t</title><h4 id=own>h</h4><p class=title>p</p>{body}")
    with sync_api.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium)
        seen: list[str] = []
        for dark in (False, True):
            page = browser.new_page(color_scheme="dark" if dark else "light", viewport={"width": 700, "height": 900})
            page.on("dialog", lambda one: seen.append(one.message))
            page.on("request", lambda one: seen.append(one.url) if one.url != file.as_uri() else None)
            page.on("console", lambda one: seen.append(one.text) if one.type == "error" else None)
            page.goto(file.as_uri())
            assert seen == []
            assert page.title() == "t"
            assert page.evaluate("getComputedStyle(document.querySelector('body > .title')).marginTop") == "16px"
            inside = "!e.closest('.scroll, .plot, .hidden, pre')"
            wide = f"[...document.querySelectorAll('.torchstone-result *')].filter(e => {inside}"
            wide += " && e.getBoundingClientRect().right > innerWidth).map(e => e.outerHTML.slice(0, 200))"
            assert page.evaluate(wide) == [], "wide tables scroll in place"
        browser.close()

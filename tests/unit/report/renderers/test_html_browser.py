"""The page in Chromium: it asks for nothing, nothing a stranger wrote runs, and it works by keyboard and on a phone."""

import itertools
import json
import re
import shutil

import pytest
from over import over
from web_pages import compared, pictured
from zoo import ZOO

from torchstone.report.document import Attachment, Chart, Column, Document, Section, Table, Text
from torchstone.report.renderers.html import RENDERER

sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("needs Chromium: apt install chromium", allow_module_level=True)

PHONE = {"width": 360, "height": 740}
NOTHING: dict[str, list[str]] = {"requests": [], "faults": [], "dialogs": []}
NAMED = dict(ZOO)
DOCUMENTS = [*ZOO, ("pictures", pictured), ("ratios", compared)]
NUMBERS = Document("t", (Section("speeds", (Table((
    Column("name", tuple(f"case {n}" for n in range(20)), left=True),
    Column("time", tuple(f"{value} {unit}" for value, unit in zip(
        itertools.cycle(("1.5", "20", "900")), ("ms", "s", "µs", "min") * 5, strict=False))),
    Column("±", tuple("±1 %" if n % 2 else "" for n in range(20)), 1, of=1),
    Column("rate", tuple("–" if n == 3 else f"{1000 * n:,}{'*' * (n == 7)}" for n in range(20)), 2),
)),)),))  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Open a Document; the page has `seen`: requests, errors on the console and dialogs."""
    contexts = []
    numbers = itertools.count()

    def open_(document, **how):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        contexts.append(context)
        page = context.new_page()
        seen: dict[str, list[str]] = {name: [] for name in NOTHING}
        file = tmp_path / f"{next(numbers)}.html"
        file.write_bytes(RENDERER.render(document))
        page.on("request", lambda r: seen["requests"].append(r.url) if r.url != file.as_uri() else None)
        page.on("console", lambda m: seen["faults"].append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda fault: seen["faults"].append(str(fault)))
        page.on("dialog", lambda d: seen["dialogs"].append(d.message))
        page.on("dialog", lambda d: d.dismiss())
        page.goto(file.as_uri())
        page.seen = seen
        return page

    yield open_
    for context in contexts:
        context.close()


def unfold(page):
    page.evaluate("for (const box of document.querySelectorAll('details')) box.open = true")


def column(page, place):
    return page.evaluate(
        f"[...document.querySelectorAll('tbody tr:not([hidden])')].map((row) => row.cells[{place}].textContent)"
    )


@over("make", DOCUMENTS[::12] + DOCUMENTS[-2:])
def test_a_document_asks_for_nothing_fails_nowhere_and_is_no_wider_than_a_phone(opened, make):
    page = opened(make(), viewport=PHONE)
    unfold(page)
    page.evaluate("for (const one of [...document.querySelectorAll('button.sort')].slice(0, 3)) one.click()")
    assert page.seen == NOTHING
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_what_a_stranger_wrote_does_nothing(opened):
    evil = "\"'><script>alert(1)</script><img src=http://a.example/x onerror=alert(2)>javascript:alert(3)"
    page = opened(Document(evil, (
        Text(evil), Table((Column(evil, (evil, "b"), left=True), Column(evil, (evil, "1"), 1))),
        Section(evil, (Text(evil),), folded=True),
    ), (Attachment(evil, evil, b"x"),)))  # fmt: skip
    unfold(page)
    for button in page.query_selector_all("button"):
        if not button.text_content().startswith("Save"):
            button.click()
    assert page.seen == NOTHING
    assert page.query_selector("img") is None


def test_tables_are_sorted_by_keyboard_with_units_and_what_is_missing_stays_last(opened):
    page = opened(NUMBERS)
    time = page.locator("th", has_text="time")
    time.locator("button").focus()
    page.keyboard.press("Enter")
    assert time.get_attribute("aria-sort") == "ascending"
    factors = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
    seconds = [float(text.split()[0]) * factors[text.split()[1]] for text in column(page, 1)]
    assert seconds == sorted(seconds)
    page.keyboard.press("Space")
    assert time.get_attribute("aria-sort") == "descending"
    assert column(page, 1) == column(page, 1)
    rate = page.locator("th", has_text="rate")
    rate.locator("button").press("Enter")
    rate.locator("button").press("Enter")
    assert time.get_attribute("aria-sort") == "none"
    assert column(page, 3)[:2] == ["19,000", "18,000"]
    assert column(page, 3)[-1] == "–"
    rate.locator("button").press("Enter")
    assert column(page, 0) == [f"case {n}" for n in range(20)], "the third time it is as it was"
    page.locator("th", has_text="name").locator("button").press("Enter")
    assert column(page, 0)[:3] == ["case 0", "case 1", "case 2"], "numbers in names are numbers"


def test_a_long_table_is_filtered_by_keyboard(opened):
    page = opened(NUMBERS)
    page.get_by_label("Filter").focus()
    page.keyboard.type("CASE min 9")
    assert column(page, 0) == ["case 11", "case 19"]
    assert page.locator(".tools output").text_content() == "2 of 20 rows"
    page.get_by_label("Filter").fill("")
    assert len(column(page, 0)) == 20


def heads(page):
    return [head.text_content() for head in page.query_selector_all("th") if head.is_visible()]


def test_columns_can_be_left_out(opened):
    page = opened(NUMBERS)
    assert heads(page) == ["name", "time", "±", "rate"]
    page.locator("summary", has_text="Columns: 4/4").press("Enter")
    page.get_by_label("time ±").press("Space")
    assert heads(page) == ["name", "time", "rate"]
    assert page.locator("summary", has_text="Columns: 3/4").is_visible()


@pytest.mark.parametrize("folded", [False, True])
def test_where_there_is_no_room_columns_of_low_priority_leave_first(opened, folded):
    broad = [Column(f"column of rank {rank}", ("1,234,567.89 items/s",), rank) for rank in range(6)]
    around = Column("±", ("±12.3 %",), 1, of=1)
    table = Table((Column("name", ("case",), left=True), *broad, around))
    document = Document("t", (Section("s", (table, Text("t")), folded=folded),))
    phone = opened(document, viewport=PHONE)
    unfold(phone)
    phone.wait_for_selector("table.h7", state="attached")
    shown = heads(phone)
    assert shown[:2] == ["name", "column of rank 0"], "what has no rank stays"
    assert "column of rank 5" not in shown
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    phone.get_by_label("column of rank 5").check()
    assert "column of rank 5" in heads(phone)
    middle = opened(document, viewport={"width": 820, "height": 600})
    unfold(middle)
    middle.wait_for_selector("table.h7", state="attached")
    left = [title for title in heads(middle) if title.startswith("column")]
    assert left == [f"column of rank {rank}" for rank in range(len(left))]
    assert 1 < len(left) < 6


def test_the_head_of_a_table_and_on_a_phone_its_first_column_stay_in_sight(opened):
    page = opened(compared(), viewport={"width": 360, "height": 400})
    box = page.locator("section .scroll")
    box.scroll_into_view_if_needed()
    before = page.locator("section .titled th").first.bounding_box()
    box.evaluate("(one) => { one.scrollTop = 120; one.scrollLeft = 150; }")
    assert page.locator("section .titled th").first.bounding_box() == before


def test_light_and_dark_follow_the_system_and_the_button(opened):
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = (opened(NUMBERS, color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.evaluate(paper) == "rgb(20, 23, 26)"
    dark.get_by_role("button", name="Light").press("Enter")
    assert dark.evaluate(paper) == "rgb(255, 255, 255)"
    dark.get_by_role("button", name="Dark").press("Enter")
    assert dark.evaluate(paper) == "rgb(20, 23, 26)"
    dark.emulate_media(media="print")
    assert dark.evaluate(paper) == "rgb(255, 255, 255)"
    assert not dark.get_by_role("button", name="Light").is_visible()


def test_a_word_beside_a_choice_is_not_broken_on_a_phone(opened):
    pytest.importorskip("vl_convert")
    page = opened(pictured(), viewport=PHONE)
    page.evaluate(
        "for (const one of document.querySelectorAll('option')) one.textContent += ' of a long name'.repeat(9)"
    )
    high = "(one) => one.getBoundingClientRect().height"
    rows = page.locator("figcaption + .tools label").evaluate_all(f"(all) => all.map({high})")
    assert rows
    assert max(rows) < 40, "Show is one line, not a letter a line"


def test_a_picture_tells_its_values_can_be_zoomed_and_has_other_axes(opened):
    pytest.importorskip("vl_convert")
    page = opened(pictured())
    panel = page.locator(".panel").first
    mark = panel.locator(".plot:not([hidden]) circle[data-v]").last
    mark.hover(force=True)  # its interval lies above it
    tip = page.locator(".tip")
    assert tip.is_visible()
    assert re.fullmatch(r"batch size: \d+\nimages/s: [\d,. to]+\nline: .+", tip.text_content())
    svg = panel.locator(".plot svg").first
    whole = svg.get_attribute("viewBox")
    panel.get_by_role("button", name="zoom in").press("Enter")
    assert svg.get_attribute("viewBox") != whole
    panel.get_by_role("button", name="whole picture").press("Enter")
    assert list(map(float, svg.get_attribute("viewBox").split())) == list(map(float, re.split(r"[\s,]+", whole)))
    panel.get_by_label("Axes").select_option("logarithmic y")
    assert not svg.is_visible()
    assert panel.locator(".plot svg").nth(1).is_visible()
    shown = page.locator("figure").first.get_by_label("Show")
    shown.select_option("twelve machines")
    assert not panel.is_visible()
    shown.select_option("all")
    assert panel.is_visible()
    assert page.seen == NOTHING


def test_files_can_be_saved_as_they_were(opened):
    document = compared()
    page = opened(document)
    unfold(page)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Save record.jsonl").press("Enter")
    assert saving.value.suggested_filename == "record.jsonl"
    with open(saving.value.path(), "rb") as file:
        assert file.read() == document.attachments[0].content


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name", ["run: a sweep, all of it", "compare: five machines", "tune", "diagnosis", "training", "pictures", "ratios"]
)
def test_axe_finds_no_serious_fault(opened, name, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python").Axe()
    page = opened(dict(DOCUMENTS)[name](), color_scheme=scheme)
    unfold(page)
    found = axe.run(page).response["violations"]
    told = [
        (one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found
        if one["impact"] in ("serious", "critical")
    ]  # fmt: skip
    assert told == [], json.dumps(told, indent=1)


def test_a_reader_without_scripts_misses_no_text(opened):
    section = pictured().parts[1]
    assert isinstance(section, Section)
    (chart, *_) = section.parts
    assert isinstance(chart, Chart)
    document = Document("t", (*NUMBERS.parts, *compared().parts, Chart("c", "it rises", chart.picture)))
    page = opened(document, java_script_enabled=False)
    assert page.locator("tbody tr").count() > 30
    assert page.locator("button").count() == 0
    assert page.locator("section .titled tr", has_text="same").first.is_visible()

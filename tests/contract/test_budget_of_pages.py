"""How much a usual run takes on pages and slides, on a quiet machine and on a busy one; what does not fit is folded."""

import csv
import io
import re
import shutil

import pytest
from reported import stored_summary
from six_cases import six_cases

from torchstone.cli import main

DESK, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
SCREENS, PAGES, SLIDES, LINES, COLUMNS = 3, 4, 5, 40, 7
FORMATS = "html,pdf,pptx,md"


@pytest.fixture(scope="module", params=[False, True], ids=["quiet", "busy"])
def written(request, tmp_path_factory):
    """The reports of a run of six cases, by their suffix."""
    pytest.importorskip("vl_convert", reason="pictures need vl-convert (pip install 'torchstone[report]')")
    folder = tmp_path_factory.mktemp("store")
    run = stored_summary(folder, six_cases(busy=request.param)).run_id
    there = folder / "reports"
    assert main(["report", run, "--format", FORMATS, "--output", str(there), "--output-dir", str(folder)]) == 0
    return {path.suffix: path for path in there.iterdir() if path.is_file()}


def test_a_pdf_has_few_pages(written):
    pypdf = pytest.importorskip("pypdf", reason="PDF is read through pypdf (pip install 'torchstone[dev]')")
    assert len(pypdf.PdfReader(written[".pdf"]).pages) <= PAGES


def test_there_are_few_slides_and_the_first_has_the_table(written):
    pptx = pytest.importorskip("pptx", reason="slides need python-pptx (pip install 'torchstone[report]')")
    slides = pptx.Presentation(written[".pptx"]).slides
    assert len(slides) <= SLIDES
    assert [len(shape.table.rows) for shape in slides[0].shapes if shape.has_table] == [7]


def test_what_has_no_room_on_pages_is_in_the_csv_beside_them(written):
    rows = list(csv.reader(io.StringIO(written[".csv"].read_text("utf-8-sig"))))
    (titles,) = [row for row in rows if "latency p99" in row]
    table = rows[rows.index(titles) + 1 :][:6]
    assert [row[:2] for row in table] == [[size, bits] for size in ("4", "16", "64") for bits in ("fp32", "bf16")]
    assert all(row[titles.index("latency p99")] for row in table)


def test_markdown_shows_an_answer_a_narrow_table_and_one_picture(written):
    text = written[".md"].read_text("utf-8")
    shown = re.sub(r"(?s)<details>.*?</details>", "", re.sub(r"(?s)<details>(?:(?!<details>).)*?</details>", "", text))
    assert len([line for line in shown.splitlines() if line]) <= LINES
    assert {line.count(" | ") + 1 for line in shown.splitlines() if line.startswith("| ")} == {COLUMNS}
    (picture,) = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert (written[".md"].parent / picture).read_bytes().startswith(b"<svg")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("needs Chromium: apt install chromium")
    with sync_api.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium)
        yield opened
        opened.close()


def test_a_page_has_few_screens_with_throughput_and_latency_side_by_side(written, browser):
    page = browser.new_page(viewport=DESK)
    page.goto(written[".html"].as_uri())
    assert page.evaluate("document.documentElement.scrollHeight") <= SCREENS * DESK["height"]
    panels = [panel.bounding_box() for panel in page.locator(".panel:visible").all()]
    assert len(panels) == 2
    assert panels[0]["y"] == panels[1]["y"]


def test_on_a_phone_settings_throughput_interval_and_status_stay(written, browser):
    page = browser.new_page(viewport=PHONE)
    page.goto(written[".html"].as_uri())
    table = page.locator("table.titled:visible").first
    # Columns leave once the page has its width: on a busy machine one did between two questions of this test.
    page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")
    heads = table.locator("thead th:visible").all_inner_texts()
    titles = [head.split("\n")[0].strip(" ↕\u00a0") for head in heads]
    assert titles[:2] == ["batch size", "precision"]
    assert titles[2].startswith("throughput")
    assert titles[3:5] == ["±", "status"]
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    box = table.bounding_box()
    assert box["x"] + box["width"] <= PHONE["width"]

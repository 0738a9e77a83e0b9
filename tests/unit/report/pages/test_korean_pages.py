"""The pages of `serve --lang ko`: nothing of their own is left in English, and what they lead to is the same."""

import html
import re

import pytest
from build import a_finding
from stored import a_stored_run, case, machine, store
from translatable import msgids

from torchstone.core.schema.estimate import Severity
from torchstone.report.translation.language import in_language
from torchstone.storage.index import sync

pytest.importorskip("starlette", reason="the pages need starlette (pip install 'torchstone[serve]')")

from asgi import get

from torchstone.cli._output import document_of
from torchstone.report.pages.guard import Guard
from torchstone.report.pages.server import application
from torchstone.report.pages.site import Site
from torchstone.report.pages.store import Store

# Texts of the pages without places; a single word may be somebody's name as well.
OURS = [
    text for text, where in msgids().items() if where.startswith("report/pages") and " " in text and "{" not in text
]
HOT = a_finding(
    "few_trials",
    Severity.WARNING,
    "one trial: the variation between trials is not known",
    "measure again with --trials 3",
    case().case_id,
)


@pytest.fixture(scope="module")
def korean(tmp_path_factory):
    folder = tmp_path_factory.mktemp("korean")
    runs = [
        a_stored_run(number, [(case(), 100.0), (case(batch_size=64), 300.0)], machine(), name="n", findings=[HOT])
        for number in range(60)
    ]
    store(folder, runs)
    assert sync(folder) == ()
    with in_language("ko"):
        site = Site(Store(folder), document_of)
    return application(site, Guard((), None, 8642)), [run.head.run_id for run in runs]


def shown(app, address):
    """What a reader has before them, and hears: texts, and labels."""
    page = get(app, address).text
    assert '<html lang="ko">' in page
    labels = " | ".join(re.findall(r'(?:aria-label|data-title|alt)="([^"]*)"', page))
    return html.unescape(" ".join(f"{labels} | {re.sub(r'<[^>]*>', ' | ', page)}".split()))


@pytest.mark.parametrize(
    "address",
    [
        "/runs", "/runs?q=nothing", "/history", "/history?q=nothing", "/findings", "/findings?q=nothing", "/runs/ID",
        "/runs/ID?every=1", "/runs/ID/pictures", f"/history/{case().case_id}", "/compare?a=ID&b=OTHER",
        "/compare?a=ID&b=OTHER&all=1", "/compare?a=ID", "/nowhere", "/runs/none", "/runs/2026",
    ],
)  # fmt: skip
def test_no_text_of_a_page_is_left_in_english(korean, address):
    app, ids = korean
    text = shown(app, address.replace("OTHER", ids[1]).replace("ID", ids[0]))
    assert "본문으로 건너뛰기" in text
    assert [one for one in OURS if re.search(rf"(?<![\w]){re.escape(one)}(?![\w])", text)] == []


def test_what_records_say_is_korean_too(korean):
    app, _ = korean
    page = shown(app, "/findings")
    assert "warning" not in page
    assert HOT.message not in page
    assert HOT.advice not in page


def test_tables_lead_where_the_english_ones_do(korean):
    app, ids = korean
    with in_language("en"):
        english = application(Site(app._site.store, document_of), Guard((), None, 8642))
    for address in (f"/history/{case().case_id}", f"/compare?a={ids[0]}&b={ids[1]}", f"/runs/{ids[0]}", "/runs"):
        links = [set(re.findall(r'href="([^"]*)"', get(one, address).text)) for one in (app, english)]
        assert links[0] == links[1]
        assert len(links[0]) > 8


def test_a_picture_has_korean_words(korean):
    pytest.importorskip("vl_convert", reason="pictures need vl-convert (pip install 'torchstone[charts]')")
    app, _ = korean
    page = get(app, f"/history/{case().case_id}").text
    (address,) = set(re.findall(r'<img src="([^"]*)"', page))
    assert re.search("[가-힣]{2}", get(app, html.unescape(address)).text)

"""Pictures on pages: each has an address, is drawn when it is asked for, and not sent twice. Many cases have pages."""

import os
import re
from xml.etree import ElementTree as ET

import pytest
from stored import a_stored_run, case, machine, store

from torchstone.storage.index import sync

pytest.importorskip("starlette", reason="the pages need starlette (pip install 'torchstone[serve]')")

from asgi import get

from torchstone.cli._output import document_of
from torchstone.report.pages import run_page
from torchstone.report.pages.guard import Guard
from torchstone.report.pages.server import application
from torchstone.report.pages.site import Site
from torchstone.report.pages.store import Store

EVIL = "</text><script>alert(1)</script>\u202e]]>&"
drawn = pytest.mark.skipif("not __import__('importlib.util').util.find_spec('vl_convert')", reason="needs vl-convert")


def app_of(folder, *runs):
    store(folder, runs)
    assert sync(folder) == ()
    return application(Site(Store(folder), document_of), Guard((), None, 8642))


def a_sweep(number=0, sizes=(8, 16, 32), factor=1.0, **about):
    cases = [(case(batch_size=size, **about), factor * (100.0 + size)) for size in sizes]
    return a_stored_run(number, cases, machine(), noise=0.002, name=about.get("model", "sweep"))


def images(reply):
    return re.findall(r'<img src="([^"]*)"', reply.text)


@drawn
def test_the_page_of_a_run_is_there_before_its_pictures(tmp_path):
    run = a_sweep()
    app, page = app_of(tmp_path, run), f"/runs/{run.head.run_id}"
    there = f"{page}/pictures"
    first = get(app, page)
    assert f'hx-get="{there}"' in first.text
    assert f'<a href="{there}">' in first.text, "without JavaScript"
    assert images(first) == []
    assert get(app, there).text.count(">Pictures</h") == 1
    found = images(get(app, there))
    assert f"{there}/throughput_vs_batch_size.svg" in found
    for address in found:
        reply = get(app, address)
        assert (reply.status, reply.headers["content-type"]) == (200, "image/svg+xml")
        assert ET.fromstring(reply.text).tag.endswith("svg")
    assert get(app, f"{there}/nothing.svg").status == 404


@drawn
def test_a_picture_is_sent_again_only_when_its_record_has_changed(tmp_path):
    run = a_sweep()
    app, address = app_of(tmp_path, run), f"/runs/{run.head.run_id}/pictures/throughput_vs_batch_size.svg"
    first = get(app, address)
    assert first.headers["cache-control"] == "private, no-cache", "it is asked for again each time"
    known = first.headers["etag"]
    again = get(app, address, if_none_match=known)
    assert (again.status, again.text) == (304, "")
    assert again.headers["content-security-policy"]
    assert get(app, address, if_none_match='"another"').status == 200
    (path,) = (tmp_path / "records").glob("*.jsonl")
    store(tmp_path, [a_sweep(factor=2.0)])
    os.utime(path, ns=(1, 1))
    sync(tmp_path)
    changed = get(app, address, if_none_match=known)
    assert changed.status == 200
    assert changed.headers["etag"] != known


@drawn
def test_a_comparison_has_a_forest_plot_of_its_ratios(tmp_path):
    runs = [a_sweep(number, factor=1.0 + number) for number in range(2)]
    app = app_of(tmp_path, *runs)
    page = get(app, f"/compare?a={runs[0].head.run_id}&b={runs[1].head.run_id}")
    assert any(re.search(r"/compare/pictures/ratios[^/]*\.svg\?a=", one) for one in images(page))
    for address in images(page):
        assert get(app, address.replace("&amp;", "&")).status == 200


@drawn
def test_names_in_a_picture_are_text(tmp_path):
    run = a_sweep(model=f"hf:{EVIL}")
    app = app_of(tmp_path, run)
    found = images(get(app, f"/runs/{run.head.run_id}/pictures"))
    assert found
    for address in found:
        reply = get(app, address)
        assert reply.status == 200
        assert {one.tag.rpartition("}")[2] for one in ET.fromstring(reply.text).iter()} & {
            "script",
            "a",
            "image",
        } == set()
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")


def test_a_record_that_is_gone_or_too_large_is_told(tmp_path, monkeypatch):
    run = a_sweep()
    app, address = app_of(tmp_path, run), f"/runs/{run.head.run_id}/pictures"
    monkeypatch.setattr(run_page, "_MOST_BYTES", 10)
    assert f"torchstone report {run.head.run_id} --format html" in get(app, address).text
    (path,) = (tmp_path / "records").glob("*.jsonl")
    path.unlink()
    reply = get(app, address)
    assert reply.status == 404
    assert "is not there any more" in reply.text
    assert get(app, "/runs/nothing/pictures").status == 404


def test_every_figure_of_many_cases_is_on_several_pages(tmp_path):
    run = a_sweep(sizes=range(1, 76))
    app, address = app_of(tmp_path, run), f"/runs/{run.head.run_id}?every=1"
    told = []
    while address:
        page = get(app, address).text
        told += re.findall(r"<h\d>.*?batch_size (\d+) on cpu: ", page)
        behind = re.search(r'<a href="([^"]*)">next</a>', page)
        address = behind[1].replace("&amp;", "&") if behind else ""
    assert told == [str(size) for size in range(1, 76)], "each once"
    for wrong in ("-1", "x", "9" * 300, "²", "500"):
        assert get(app, f"/runs/{run.head.run_id}?every=1&from={wrong}").status == 200
    small = a_sweep(1, sizes=(8, 16))
    app = app_of(tmp_path / "small", small)
    assert "every figure of the cases" not in get(app, f"/runs/{small.head.run_id}?every=1").text

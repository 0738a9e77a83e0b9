"""What a cell of a notebook shows that ends with a result: its page where there is Jinja2, else its text."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from stored import a_stored_run, case, machine, store
from zoo import HOSTILE

from torchstone.analysis.summary import summarize
from torchstone.api.benchmarking import Benchmark
from torchstone.api.diagnostics import DeviceUse, Diagnostics, GaugeReading, Utilization
from torchstone.api.recording import frame_of, shown
from torchstone.api.window import Window
from torchstone.core.errors import UsageError
from torchstone.core.schema.machine import DeviceInfo
from torchstone.storage.query import find


@pytest.fixture
def run(tmp_path):
    cases = [(case(batch_size=size), rate) for size, rate in ((8, 100.0), (16, 180.0))]
    store(tmp_path, [a_stored_run(0, cases, machine(), name=HOSTILE)])
    return shown(summarize(find(tmp_path, "latest")))


def answer(html):
    found = re.search(r'<div class="answer">\s*<p>(.*?)</p>', html)
    assert found
    return found[1]


def test_a_run_is_shown_with_its_answer_and_pictures(run):
    pytest.importorskip("vl_convert", reason="pictures need vl-convert (pip install 'torchstone[charts]')")
    html = run._repr_html_()
    assert "Fastest: batch_size 16, 181 images/s" in answer(html)
    assert "<svg" in html
    assert "<script" not in html
    assert Benchmark(run, Path("d"), Path("t"))._repr_html_() == html


def test_it_is_shown_in_the_language_of_the_environment(run, monkeypatch):
    monkeypatch.setenv("TORCHSTONE_LANG", "ko")
    html = run._repr_html_()
    assert '<div class="torchstone-result" lang="ko">' in html
    assert "가장 빠" in answer(html)
    monkeypatch.setenv("TORCHSTONE_LANG", "tlh")
    with pytest.raises(UsageError, match="unknown language 'tlh'"):
        run._repr_html_()


def test_it_is_the_same_run(run):
    again = find(Path(run.record).parents[1], "latest")
    assert str(run) == str(summarize(again)) == repr(run)
    assert run.cases == summarize(again).cases


def test_without_its_record_it_says_why_there_is_no_picture(run):
    Path(run.record).unlink()
    html = run._repr_html_()
    assert "Fastest: batch_size 16, 181 images/s" in answer(html)
    assert "no pictures: " in html
    assert "<svg" not in html


def test_without_jinja_the_text_is_shown(run, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert run._repr_html_() is None
    assert Utilization(1.0, (), {})._repr_html_() is None


def test_what_was_not_measured_yet_is_text():
    assert Window("mine")._repr_html_() is None
    assert Diagnostics(print)._repr_html_() is None


def test_the_accelerators():
    device = DeviceInfo("cuda", "cuda", "nvidia", 0, f"L4 {HOSTILE}")
    use = DeviceUse(device, {"device_power_w": GaugeReading(70.0, 60.0, 80.0, 9)}, ("almost idle", "it is throttled"))
    html = Utilization(2.0, (use,), {"mps": "not here"})._repr_html_()
    assert html is not None
    assert answer(html) == "cuda:0: almost idle; it is throttled."
    assert re.search(r"<td>device_power_w<td>70.*?W<td>60.*?W<td>80.*?W</table>", html)
    assert "<script" not in html
    nothing = Utilization(2.0, (), {"mps": HOSTILE})._repr_html_()
    assert nothing is not None
    assert answer(nothing) == "No accelerator found."
    assert "<script" not in nothing


ROWS: list[dict[str, Any]] = [{"size": 8, "rate": 1.5, "why": None}, {"size": None, "rate": None, "why": "no room"}]


def test_a_data_frame_keeps_whole_numbers_whole():
    pytest.importorskip("pandas")
    frame = frame_of(ROWS)
    assert list(frame.columns) == ["size", "rate", "why"]
    assert str(frame["size"].dtype) == "Int64"
    assert frame["size"][0] == 8
    assert frame["rate"][0] == 1.5


def test_without_pandas_they_are_rows(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert frame_of(ROWS) == ROWS

"""Drawing: what is written, what is missing for it, and names that no picture of ours has."""

import os
import signal
import sys
from unittest import mock

import msgspec
import pytest

from torchstone.core.charts import drawing
from torchstone.core.charts import vega_lite as vl
from torchstone.core.charts.drawing import _drawn, as_png, as_svg, begin, draw, drawing_elsewhere, drawing_process
from torchstone.core.charts.vega_lite import Picture, vega_lite
from torchstone.core.errors import MissingError, UsageError

X, Y, VALUES = vl.steps("x", "batch size"), vl.number_axis("y", "ms"), ({"x": 8, "y": 1.5}, {"x": 16, "y": 2.5})
ONE = Picture("a title", (vl.panel("a panel", X, Y, (vl.line(),), VALUES),))
CLIPPED = vl.stretches([{"from": 8, "to": 12}])  # is drawn as far as the axes reach


def test_the_suffix_decides_what_is_written(tmp_path):
    pytest.importorskip("vl_convert")
    assert draw(ONE, tmp_path / "new" / "x.svg").read_text(encoding="utf-8") == as_svg(ONE)
    assert draw(ONE, tmp_path / "x.PNG").read_bytes()[:8] == as_png(ONE)[:8] == b"\x89PNG\r\n\x1a\n"
    assert ">a title<" in as_svg(ONE)


def test_it_is_drawn_once_and_would_be_the_same_again(monkeypatch):
    vl_convert = pytest.importorskip("vl_convert")
    monkeypatch.setattr(drawing, "_drawn", _drawn)  # conftest.py has put another in its place
    real = mock.Mock(wraps=vl_convert.vegalite_to_svg)
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", real)
    clipped = Picture("a title", (vl.panel("a panel", X, Y, (vl.line(), CLIPPED), VALUES),))
    _drawn.cache_clear()
    first, same = as_svg(clipped), as_svg(clipped)
    as_png(clipped)
    assert real.call_count == 1
    _drawn.cache_clear()
    assert as_svg(clipped) == first == same
    assert real.call_count == 2
    assert 'id="clip0"' in first, "Vega counts its clips on: the second time it had another number"


def test_what_another_process_drew_is_the_same_and_not_drawn_here(monkeypatch):
    vl_convert = pytest.importorskip("vl_convert")
    monkeypatch.setattr(drawing, "_drawn", _drawn)
    _drawn.cache_clear()
    here = as_svg(ONE)
    _drawn.cache_clear()
    monkeypatch.setattr(vl_convert, "vegalite_to_svg", mock.Mock(side_effect=AssertionError("drawn in this process")))
    with drawing_elsewhere():
        begin(vega_lite(ONE))
        assert as_svg(ONE) == here
    assert drawing._process is None


def test_a_drawing_process_that_was_killed_takes_no_picture_with_it():
    with drawing_process(_pid) as process:
        (pid,) = {process.drawn(b"1"), process.drawn(b"2")}
        assert int(pid) != os.getpid()
        os.kill(int(pid), signal.SIGKILL)
        assert process.drawn(b"3") == str(os.getpid())


def test_a_picture_that_cannot_be_drawn_says_so_from_the_other_process():
    with drawing_process(_refused) as process:
        process.begin(b"1")
        with pytest.raises(ValueError, match="no picture"):
            process.drawn(b"1")


def _pid(spec: bytes) -> str:
    return str(os.getpid())


def _refused(spec: bytes) -> str:
    raise ValueError("no picture")


def test_korean_is_drawn_where_the_machine_has_no_font_for_it():
    pytest.importorskip("vl_convert")
    one, other = (as_png(msgspec.structs.replace(ONE, title=title)) for title in ("처리량", "시간별"))
    assert one != other  # boxes would be the same


def test_without_the_library_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingError, match=r"pip install 'torchstone\[charts\]'"):
        draw(ONE, tmp_path / "new" / "x.png")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["x.jpg", "x", "x.vega.json"])
def test_a_suffix_that_is_no_picture_of_ours_is_refused_before_anything_is_made(tmp_path, name):
    with pytest.raises(UsageError, match="written as PNG or SVG"):
        draw(ONE, tmp_path / "new" / name)
    assert not (tmp_path / "new").exists()

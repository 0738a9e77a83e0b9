"""The README's picture of a terminal: benchmarks/terminal.py."""

import re
import sys
from xml.etree import ElementTree

import pytest
from terminal import paced, recorded, svg, typed

TEXT = "{http://www.w3.org/2000/svg}text"


def test_a_command_is_recorded_as_its_screen_changes():
    pytest.importorskip("pyte")
    code = "import time; print('one', end=''); import sys; sys.stdout.flush(); time.sleep(0.4); print('\\rtwo\\nthree')"
    screens = recorded([sys.executable, "-c", code], columns=20, rows=4)
    assert screens[0][1] == ("one", "", "", "")
    assert screens[-1][1] == ("two", "three", "", "")
    assert screens[-1][0] - screens[0][0] == pytest.approx(0.4, abs=0.3)


def test_pauses_are_shortened_and_what_cannot_be_read_is_left_out():
    screens = [(0.0, ("a",)), (0.01, ("b",)), (9.0, ("c",)), (9.2, ("d",))]
    shown = paced(screens)
    assert [lines for _, lines in shown] == [("b",), ("c",), ("d",)]
    assert [length_s for length_s, _ in shown] == pytest.approx([0.5, 0.2, 12.0])


def test_each_line_is_drawn_for_as_long_as_it_stays():
    drawn = svg([(1.0, ("$ x",)), (1.0, ("$ x", "1 of 2")), (2.0, ("$ x", "done <&>"))], "x")
    texts = {text.text: text for text in ElementTree.fromstring(drawn).iter(TEXT)}
    assert set(texts) == {"$ x", "1 of 2", "done <&>"}
    assert len(texts["$ x"]) == 0, "it is always there"
    begin, *end = re.findall(r"0\.\d+", texts["1 of 2"][0].get("keyTimes") or "")
    assert (float(begin), float(end[0])) == (0.25, 0.5)
    assert texts["1 of 2"].get("visibility") == "hidden", "where nothing is played, the last screen is shown"
    assert texts["done <&>"].get("visibility") is None


def test_a_command_is_typed_letter_by_letter():
    assert [lines for _, lines in typed("ls")] == [("$ ",), ("$ l",), ("$ ls",)]

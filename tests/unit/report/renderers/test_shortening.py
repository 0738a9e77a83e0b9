"""A column of names of any length keeps both ends of each where there is no room for all of it."""

import pytest

from torchstone.report.document import Column, Document, Table
from torchstone.report.renderers._table import shortened
from torchstone.report.renderers.terminal import terminal


@pytest.mark.parametrize(
    ("text", "most", "found"),
    [("name", 4, "name"), ("a-long-name", 7, "a-l…ame"), ("a-long-name", 6, "a-l…me"), ("a-long-name", 1, "…")],
)
def test_a_long_text_loses_its_middle(text, most, found):
    assert shortened(Column("name", (text,), shorten=True), most).cells == (found,)
    assert shortened(Column("name", (text,)), most).cells == (text,)
    assert len(found) <= most


def drawn(width, *columns):
    return terminal(Document("", (Table(columns),)), width).splitlines()


@pytest.mark.parametrize("width", [30, 40, 60, 200])
def test_names_take_the_room_that_is_left(width):
    name = Column("name", ("begin" + "-" * 40 + "end", "short"), left=True, shorten=True)
    lines = drawn(width, name, Column("items", ("1", "2")))
    assert max(map(len, lines)) == min(width, 48 + 2 + 5)
    assert lines[2].startswith("begin")
    assert lines[2].split()[0].endswith("end")
    assert ("…" in lines[2]) is (width < 55)
    assert lines[3].split() == ["short", "2"]


def test_two_such_columns_share_it():
    long = Column("name", ("x" * 60,), left=True, shorten=True)
    lines = drawn(60, long, long)
    assert [len(cell) for cell in lines[2].split()] == [29, 29]


def test_what_fits_no_further_leaves_by_rank():
    long = Column("name", ("x" * 60,), left=True, shorten=True)
    lines = drawn(30, long, Column("device", ("y" * 20,), 2))
    assert len(lines[2]) == 30, "the name has the room of what left"
    assert " ".join(lines[3:]).split() == ["more", "columns", "in", "a", "wider", "terminal"]

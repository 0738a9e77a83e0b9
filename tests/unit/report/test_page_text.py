"""What a page shows, whatever its markup."""

import pytest

from torchstone.core.errors import UsageError
from torchstone.report.page_text import (
    PageText,
    Shown,
    differences,
    page_text,
    without_carried,
    without_drawings,
)

PAGE = b"""<!doctype html><html><head><title>A  report</title><style>p { color: red }</style></head><body>
<h1>Fast <em>enough</em></h1><p>One &amp; two<br>three</p><script>"unseen"</script>
<table><caption>Rates</caption><tr><th>case<th>rate</tr><tr><td>a</td><td>1 <b>item/s</b></td></tr></table>
<img alt="a chart"><svg><text>0.5</text></svg></body></html>"""


def test_texts_are_named_after_where_they_stand():
    found = page_text(PAGE)
    assert found.texts == (
        Shown("title", "A report"), Shown("heading", "Fast"), Shown("heading", "enough"), Shown("text", "One & two"),
        Shown("text", "three"), Shown("caption", "Rates"), Shown("table heading", "case"),
        Shown("table heading", "rate"), Shown("table cell", "a"), Shown("table cell", "1"),
        Shown("table cell", "item/s"), Shown("text", "a chart"), Shown("picture", "0.5"),
    )  # fmt: skip
    assert found.rows == (("case", "rate"), ("a", "1 item/s"))


def test_markup_that_is_not_closed_is_read_all_the_same():
    assert page_text(b"<tr><td>a<td>b").texts == (Shown("table cell", "a"), Shown("table cell", "b"))
    assert page_text(b"</p></td>text").texts == (Shown("text", "text"),)
    assert page_text(b"").texts == ()


def test_cells_and_rows_without_ends_are_those_of_a_browser():
    page = "<table><thead><tr><th>case<th>rate<tbody>" + 600 * "<tr>\n<td>a<td>1 <b>item/s</b>" + "</table><p>after</p>"
    found = page_text(page.encode())
    assert found.rows == (("case", "rate"), *600 * (("a", "1 item/s"),)), "not 500 elements deep"
    assert found.texts[-1] == Shown("text", "after")
    assert page_text(b"<table><tr><td><table><tr><td>in</table>out<td>b</table>").texts[1] == Shown("table cell", "out")


def test_marks_are_told_with_the_names_that_a_group_has_of_their_values():
    page = b'<svg><g data-k="size; ms"><circle data-v="1; 2.3"/></g><g fill="red"><circle r="3"/></g></svg>'
    assert page_text(page).marks == ("g data-k=size; ms", "circle data-v=1; 2.3")
    assert page_text(page, pictures=False).marks == ()


def shown(*texts: str) -> list[Shown]:
    return [Shown("text", text) for text in texts]


def test_each_difference_is_named():
    assert list(differences(shown("a", "b"), shown("a", "b"))) == []
    assert list(differences(shown("a", "x", "c"), shown("a", "b", "c"))) == ["text “x”, the record gives “b”"]
    assert list(differences(shown("a", "c"), shown("a", "b", "c"))) == ["text “b” is missing"]
    assert list(differences(shown("a", "b", "c"), shown("a", "c"))) == ["text “b” does not follow from the record"]
    assert list(differences(shown(), shown("a"))) == ["text “a” is missing"]


def test_pages_that_have_little_in_common_are_told_in_a_line():
    one, other = shown(*(f"a{n}" for n in range(3000))), shown(*(f"b{n}" for n in range(3000)))
    assert list(differences(one, other)) == ["3000 texts from text “a0” on, where 3000 follow"]


def test_carried_files_and_pictures_can_be_left_out():
    tag = b'<script type="application/octet-stream" data-name="a">H4sI</script>'
    assert without_carried(b"<p>" + tag) == b'<p><script type="application/octet-stream" data-name="a"></script>'
    assert without_drawings(b"<p><SVG width=1><path/></svg></p>") == b"<p></p>"


FIGURE = b"""<p>one</p><figure><figcaption>two</figcaption><svg><path d="M0,0" aria-label="x: 1"></path><path d="M9"/>
<circle data-v="y: 2" r="3"/><text>three</text></svg></figure><p>four</p>"""


def test_marks_that_stand_for_values_are_found_with_where_they_are():
    assert page_text(FIGURE).marks == ("path aria-label=x: 1 d=M0,0", "circle data-v=y: 2 r=3")
    assert [one.text for one in page_text(FIGURE).texts] == ["one", "two", "x: 1", "three", "four"]
    assert page_text(FIGURE, pictures=False) == PageText((Shown("text", "one"), Shown("text", "four")), ())


def test_a_page_that_is_nested_without_end_is_refused():
    assert page_text(b"<b>" * 500 + b"x").texts == (Shown("text", "x"),)
    with pytest.raises(UsageError, match="nested more than 500 deep"):
        page_text(b"<b>" * 501)

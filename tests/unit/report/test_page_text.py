"""What a page shows, whatever its markup."""

import time

import pytest

from torchstone.core.errors import UsageError
from torchstone.report.attached import check_bounded, embedded
from torchstone.report.verification import Shown, page_text, text_differences, without_carried

PAGE = b"""<!doctype html><html><head><title>A  report</title><style>p { color: red }</style></head><body>
<h1>Fast <em>enough</em></h1><p>One &amp; two<br>three</p><script>"unseen"</script>
<table><caption>Rates</caption><tr><th>case<th>rate</tr><tr><td>a</td><td>1 <b>item/s</b></td></tr></table>
<img alt="a chart"><svg><text>0.5</text></svg></body></html>"""


def test_texts_are_named_after_where_they_stand():
    found = page_text(PAGE)
    assert found == (
        Shown("title", "A report"), Shown("heading", "Fast"), Shown("heading", "enough"), Shown("text", "One & two"),
        Shown("text", "three"), Shown("caption", "Rates"), Shown("table heading", "case"),
        Shown("table heading", "rate"), Shown("table cell", "a"), Shown("table cell", "1"),
        Shown("table cell", "item/s"), Shown("text", "a chart"),
    )  # fmt: skip


def test_markup_that_is_not_closed_is_read_all_the_same():
    assert page_text(b"<tr><td>a<td>b") == (Shown("table cell", "a"), Shown("table cell", "b"))
    assert page_text(b"</p></td>text") == (Shown("text", "text"),)
    assert page_text(b"") == ()


def test_cells_and_rows_without_ends_are_those_of_a_browser():
    page = "<table><thead><tr><th>case<th>rate<tbody>" + 600 * "<tr>\n<td>a<td>1 <b>item/s</b>" + "</table><p>after</p>"
    found = page_text(page.encode())
    assert len(found) == 2 + 600 * 3 + 1, "not 500 elements deep"
    assert found[-1] == Shown("text", "after")
    assert page_text(b"<table><tr><td><table><tr><td>in</table>out<td>b</table>")[1] == Shown("table cell", "out")


def shown(*texts: str) -> list[Shown]:
    return [Shown("text", text) for text in texts]


def test_each_difference_is_named():
    assert list(text_differences(shown("a", "b"), shown("a", "b"))) == []
    assert list(text_differences(shown("a", "x", "c"), shown("a", "b", "c"))) == ["text “x”, the record gives “b”"]
    assert list(text_differences(shown("a", "c"), shown("a", "b", "c"))) == ["text “b” is missing"]
    assert list(text_differences(shown("a", "b", "c"), shown("a", "c"))) == ["text “b” does not follow from the record"]
    assert list(text_differences(shown(), shown("a"))) == ["text “a” is missing"]


def test_pages_that_have_little_in_common_are_told_in_a_line():
    one, other = shown(*(f"a{n}" for n in range(3000))), shown(*(f"b{n}" for n in range(3000)))
    assert list(text_differences(one, other)) == ["3000 texts from text “a0” on, where 3000 follow"]


def test_carried_files_can_be_left_out():
    tag = b'<script type="application/octet-stream" data-name="a">H4sI</script>'
    assert without_carried(b"<p>" + tag) == b"<p>"


def test_captions_are_texts_and_what_is_drawn_is_not():
    page = b"<p>one</p><figure><figcaption>two</figcaption><svg><text>three</text></svg></figure><p>four</p>"
    assert [one.text for one in page_text(page)] == ["one", "two", "four"]


def test_a_page_that_is_nested_without_end_is_refused():
    assert page_text(b"<b>" * 500 + b"x") == (Shown("text", "x"),)
    with pytest.raises(UsageError, match="nested more than 500 deep"):
        page_text(b"<b>" * 501)


SIZE = 2 * 2**20


@pytest.mark.parametrize("piece", ["<svg ", "x<", "<!--", "<!--x>", "<![CDATA[", "<a b=", "</a ", "<", "<?", "<a b='"])
@pytest.mark.parametrize("read", [page_text, embedded])
def test_markup_that_does_not_end_is_refused_at_once(read, piece):
    began_s = time.process_time()
    with pytest.raises(UsageError, match="no page of torchstone"):
        read(b"<!doctype html>" + piece.encode() * (SIZE // len(piece)))
    assert time.process_time() - began_s < 5.0


@pytest.mark.parametrize("piece", ["<b>x</b>\n", "<br>", "a &lt; b", f"<rect d='{'1,2 ' * 9999}'/>", "<p>1 < 2</p>"])
def test_markup_that_ends_is_read(piece):
    check_bounded(piece.encode() * (SIZE // len(piece)))


def test_a_little_that_does_not_end_is_read_as_a_browser_does():
    assert [one.text for one in page_text(b"<p>1 < 2</p><p>3 <")][:1] == ["1 < 2"]

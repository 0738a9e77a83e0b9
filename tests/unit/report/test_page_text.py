"""What a page shows, whatever its markup."""

from torchstone.report.page_text import Shown, differences, page_text, without_carried, without_pictures

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
    assert without_pictures(b"<p><SVG width=1><path/></svg></p>") == b"<p></p>"

"""A stranger's page is read in a time that grows with its size, or not at all; what it is made of, and may have."""

import time

import pytest
from zoo import ZOO

from torchstone.core.errors import UsageError
from torchstone.report.attached import embedded
from torchstone.report.markup import check_bounded, foreign, foreign_drawing, shape
from torchstone.report.page_text import page_text
from torchstone.report.pictures import drawn
from torchstone.report.rendering import renderer

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
    assert [one.text for one in page_text(b"<p>1 < 2</p><p>3 <").texts][:1] == ["1 < 2"]


FIGURE = (
    b'<title>A</title><p class="a">1</p><figure><svg viewBox="0 0 9 9"><path d="M0,1.5" opacity="1"/>'
    b'<text x="1">two</text></svg></figure><p>3</p>'
)


@pytest.mark.parametrize(
    ("old", "new", "same", "same_without"),
    [
        (b"M0,1.5", b"M7,2", True, True),
        (b'x="1"', b'x="-1e-3"', True, True),
        (b"two", b"four", True, True),
        (b'opacity="1"', b'opacity="0"', False, True),
        (b"<path", b"<g></g><path", False, True),
        (b"<figure>", b"<figure></figure><figure>", False, False),
        (b"</p><figure>", b"</p><svg></svg><figure>", False, False),
        (b'class="a"', b'class="b"', False, False),
        (b"<p>3", b"<!-- --><p>3", False, False),
    ],
)
def test_the_shape_of_a_page_has_all_but_its_texts_and_where_marks_stand(old, new, same, same_without):
    other = FIGURE.replace(old, new)
    assert other != FIGURE
    assert (shape(other) == shape(FIGURE)) is same
    assert (shape(other, pictures=False) == shape(FIGURE, pictures=False)) is same_without


def test_of_what_vl_convert_drew_zeros_and_places_may_be_others():
    drawn = b'<svg viewBox="0 0 9 9"><g transform="translate(0,0)"><rect x="1" opacity="1" d="M0,0V2"/></g></svg>'
    for old, new in (
        (b' x="1"', b""),
        (b' transform="translate(0,0)"', b""),
        (b"M0,0V2", b"M7,1.5V-3"),
        (b"9 9", b"8 8"),
    ):
        assert shape(drawn.replace(old, new)) == shape(drawn)
    for old, new in ((b"translate", b"scale"), (b"V2", b"H2"), (b"<g ", b"<g/><g "), (b' opacity="1"', b"")):
        assert shape(drawn.replace(old, new)) != shape(drawn)
    assert shape(b'<svg><rect x="1"/></svg>') != shape(b'<svg><rect x="2"/></svg>'), "no fonts decide these"


CARRIED = b'<script type="application/octet-stream" data-name="a">H4sI+/=\n</script>'


def test_what_a_page_carries_is_no_script_of_its_own():
    assert list(foreign(FIGURE + CARRIED, FIGURE)) == []
    said = "a script that this version of torchstone does not write"
    assert list(foreign(FIGURE + b"<script>x()</script>", FIGURE)) == [said]
    assert list(foreign(FIGURE + b"<script>x()</script>", None)) == [], "nothing is known of scripts"


@pytest.mark.parametrize(
    "markup",
    [
        b'<p ONCLICK="x()">', b"<p style=color:red>", b"<iframe>", b'<a href="javascript:x()">', b"<!-- -->", b"<?x?>",
        b"<![CDATA[x]]>", b"<p a=='>'>", b"<p a='b'>", b"< p>", b"<p", b"</p x>", b"</ p>", b"<svg><p></p></svg>",
        b'<svg><path fill="URL(//a)"/></svg>', b'<svg><path fill="u\\72l(//a)"/></svg>',
        b'<svg><g x:href="a"></g></svg>',
        b"<title><b></b></title>", b"<script>x</script x></script>", b"<script>", b"<SCRIPT>x</SCRIPT>",
        CARRIED.replace(b"H4sI", b"<svg>"), b'<meta http-equiv="refresh">', b"<!doctype svg>", b"<p a\xa0b>",
        b"\0<\0p\0>",
    ],
)  # fmt: skip
def test_what_is_foreign_in_a_page(markup):
    assert list(foreign(FIGURE + markup, FIGURE)), markup


@pytest.mark.parametrize(
    "markup", [b"<p>", b"<style></style>", b'<g style="a"></g>', b"<title>a</title>", b"<script></script>", b"<!-- -->"]
)
def test_what_is_foreign_in_a_drawing(markup):
    drawn = b'<svg xmlns="http://www.w3.org/2000/svg"><g clip-path="url(#clip0)"></g><use href="#a"/></svg>'
    assert list(foreign_drawing(drawn)) == []
    assert list(foreign_drawing(drawn.replace(b"</svg>", markup + b"</svg>")))


@pytest.mark.parametrize("make", [make for _, make in ZOO], ids=[name for name, _ in ZOO])
def test_nothing_in_a_page_of_ours_is_foreign(make):
    pytest.importorskip("jinja2")
    page = renderer("html").render(make())
    assert list(foreign(page, page)) == []


def test_nothing_in_a_drawing_of_ours_is_foreign():
    pytest.importorskip("vl_convert")
    made = [make() for name, make in ZOO if name.startswith("pictures: ")]
    files = [data for document in made for data in drawn(document, (".svg",)).values()]
    assert len(files) > 10
    assert [line for data in files for line in foreign_drawing(data)] == []

"""The markup of a stranger's page: bounds before Python's parser reads it, what it is made of, and what it may have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from torchstone.core.errors import UsageError

_ENDS = re.compile(rb"[<>]")
_MOST_DECLARATIONS = 64  # "<!": a page of ours has one
_MOST_TAGS = 2**21
_LEAST = 2**20


def check_bounded(page: bytes) -> None:
    """Raise UsageError for a page of very many tags, and of many tags, or comments, that do not end.

    For each of the latter Python's parser reads all that follows: 100 kB of `<svg ` took it 50 s. Of a sound page the
    distances from each < to the next > are together no longer than the page.
    """
    if page.count(b"<!") > _MOST_DECLARATIONS:
        raise UsageError(f"more than {_MOST_DECLARATIONS} comments or declarations: no page of torchstone has them")
    if page.count(b"<") > _MOST_TAGS:
        raise UsageError(f"more than {_MOST_TAGS} tags: no page of torchstone has them")
    most = 4 * len(page) + _LEAST
    waiting = begins = read = 0  # tags that are open, the sum of their places, and what was read for those that ended
    for found in _ENDS.finditer(page):
        place = found.start()
        if found[0] == b"<":
            waiting, begins = waiting + 1, begins + place
        else:
            read, waiting, begins = read + waiting * place - begins, 0, 0
        if read + waiting * place - begins > most:
            break
    if read + waiting * len(page) - begins > most:
        raise UsageError("many of its tags do not end: no page of torchstone")


# ── what a page may have ────────────────────────────────────────────────────────────────────────────────────

# A tag as torchstone writes it. All else browsers and Python's parser read in different ways: `<p a=='><script>'>`.
_TAG = re.compile(
    r"<(?:!doctype html|/[a-z][a-z0-9]*|([a-z][a-z0-9]*)"
    r'(?:[ \t\n\r\f]+[a-z_][a-z0-9_:.-]*(?:="[^"]*"|=[a-z0-9_.%-]+)?)*[ \t\n\r\f]*/?)>',
    re.IGNORECASE | re.ASCII,
)
_WITHOUT_TAGS = ("script", "style", "title")  # in which a browser looks for nothing but their end
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?")
# Of pictures that vl-convert drew, what fonts and their sizes move.
_LAYOUT = frozenset((
    "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "ry", "dx", "dy", "d", "width", "height", "viewbox",
    "transform", "points", "textlength",
))  # fmt: skip
_AT_ZERO = ("#", "translate(#,#)")  # of _LAYOUT, what a picture in a page does not have where it is 0
_DRAWN = frozenset((
    "svg", "g", "defs", "clippath", "path", "rect", "circle", "line", "text", "tspan", "use", "lineargradient", "stop",
))  # fmt: skip
_ELEMENTS = frozenset((
    "html", "head", "meta", "title", "style", "script", "body", "header", "main", "footer", "nav", "section", "div",
    "h1", "h2", "h3", "h4", "h5", "h6", "p", "span", "strong", "b", "code", "pre", "a", "ul", "li", "details",
    "summary", "button", "small", "output", "em", "br", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr",
    "th", "td", "figure", "figcaption", "svg",
))  # fmt: skip
_ADDRESSES = ("href", "src", "srcset", "action", "formaction", "background", "poster", "data", "ping", "base")
_SAYING = ("aria-label", "data-v", "data-k")
_ELSEWHERE = re.compile(r"(?:url|src|image|image-set)\((?!#)|\\", re.IGNORECASE)  # \: by which CSS spells them, too
_OCTETS_ONLY = re.compile(r"[A-Za-z0-9+/=\s]*")
OCTETS = "application/octet-stream"  # a script of this type is a file that the page carries: no browser runs it


def shape(page: bytes, *, pictures: bool = True) -> list[tuple[str, ...]]:
    """Return all of a page but its texts: elements, attributes, scripts, styles, comments. Raises UsageError.

    Of pictures that vl-convert drew without the numbers that fonts decide; `pictures`: with what is in figures.
    """
    return _read(page.decode("utf-8", "replace"), pictures=pictures).parts


def foreign(page: bytes, made: bytes | None) -> Iterator[str]:
    """Yield in a line each what a page has that none of torchstone has, whichever version is said to have written it.

    `made`: the page that is written here, whose scripts, styles and policy are all that may be; None where none can be.
    """
    text = page.decode("utf-8", "replace")
    found = _read(text)
    yield from dict.fromkeys((*_unlike_ours(text), *found.foreign))
    if made is None:
        return
    own = _read(made.decode("utf-8", "replace"))
    yield from dict.fromkeys(
        f"{what} that this version of torchstone does not write" for what, code in found.code
        if (what, code) not in own.code
    )  # fmt: skip
    if page.partition(b"<title>")[0] != made.partition(b"<title>")[0]:
        yield "its beginning (encoding, Content-Security-Policy) is not the one that this version of torchstone writes"


def foreign_drawing(svg: bytes) -> Iterator[str]:
    """Yield in a line each what a file of a picture has that none of torchstone has. Raises UsageError."""
    text = svg.decode("utf-8", "replace")
    found = _read(text, drawing=True)
    acting = (f"{what}: torchstone writes none in a picture" for what, _ in found.code)
    yield from dict.fromkeys((*_unlike_ours(text), *found.foreign, *acting))


def without_numbers(svg: bytes) -> str:
    """Return the file of a picture without its numbers: all that fonts do not decide, and more."""
    return _NUMBER.sub("#", svg.decode("utf-8", "replace"))


def _unlike_ours(text: str) -> Iterator[str]:
    """Yield what is no tag as torchstone writes it: comments, instructions, entities, tags that parsers read apart."""
    place = 0
    while (place := text.find("<", place)) >= 0:
        tag = _TAG.match(text, place)
        if tag is None:
            yield f"markup that no page of torchstone has: {text[place : place + 40]!r}"
            return
        place = tag.end()
        name = (tag[1] or "").lower()
        if name in _WITHOUT_TAGS:
            end = text.find("<" if name == "title" else "</", place)
            while end >= 0 and name != "title" and text[end + 2 : end + 2 + len(name)].lower() != name:
                end = text.find("</", end + 1)
            if end < 0 or text[end : end + len(name) + 3] != f"</{name}>":
                yield f"a <{name}> that does not end as in a page of torchstone"
                return
            place = end


def _read(text: str, *, pictures: bool = True, drawing: bool = False) -> _Shape:
    check_bounded(text.encode("utf-8", "replace"))
    reader = _Shape(pictures=pictures, drawing=drawing)
    reader.feed(text)
    reader.close()
    return reader


class _Shape(HTMLParser):
    """Collects what a page is made of. `code`: scripts, styles and attributes that act, by kind.

    `drawing`: it is a file of a picture.
    """

    def __init__(self, *, pictures: bool, drawing: bool) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[tuple[str, ...]] = []
        self.code: list[tuple[str, str]] = []
        self.foreign: list[str] = []
        self._pictures, self._drawing = pictures, drawing
        self._figures = self._svgs = 0  # that are open
        self._moves = False  # whether fonts decide where the parts of the <svg> stand that was read last
        self._raw = ""  # the script or style that is open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        outside = not self._figures and not self._svgs
        self._figures += tag == "figure"
        self._svgs += tag == "svg"
        told = [(name, value or "") for name, value in attrs]
        if tag == "svg":
            self._moves = any(name == "viewbox" for name, _ in told)
        self._judge(tag, told)
        if tag in ("script", "style"):
            carried = ("type", OCTETS) in told
            self._raw = OCTETS if carried else tag
            self.code += [] if carried else [(f"a {tag}", "")]
            told = [one for one in told if not carried or one[0] == "type"]
        if outside and tag in ("figure", "svg") and not self._pictures:
            self.parts.append((tag, *(name for name, _ in told)))
        elif outside or self._pictures:
            self.parts.append((tag, *self._plain(told)))

    def _plain(self, told: list[tuple[str, str]]) -> Iterator[str]:
        for name, value in told:
            if not (self._svgs and self._moves and name in _LAYOUT):
                yield f"{name}={value}"
            elif (plain := _NUMBER.sub("#", value)) not in _AT_ZERO:
                yield f"{name}={plain}"

    def _judge(self, tag: str, told: list[tuple[str, str]]) -> None:
        if tag not in (_DRAWN if self._svgs or self._drawing else _ELEMENTS):
            self.foreign.append(f"an element <{tag[:40]}>{' in a picture' * bool(self._svgs)}: torchstone writes none")
        for name, value in told:
            if name.startswith("on"):
                self.foreign.append(f"a handler {name[:40]} in <{tag[:40]}>: torchstone writes none")
            elif name in ("srcdoc", "style"):
                self.code.append((f"an attribute {name}", value))
            elif (name.rpartition(":")[2] in _ADDRESSES and not value.startswith("#")) or (
                tag in _DRAWN and name not in _SAYING and _ELSEWHERE.search(value)
            ):
                self.foreign.append(f"an address {value[:80]!r} in <{tag[:40]}>: torchstone writes none")
            elif name == "http-equiv" and value.lower() != "content-security-policy":
                self.foreign.append(f"a <meta http-equiv={value[:40]!r}>: torchstone writes none")

    def handle_endtag(self, tag: str) -> None:
        self._figures = max(0, self._figures - (tag == "figure"))
        self._svgs = max(0, self._svgs - (tag == "svg"))
        if self._pictures or not (self._figures or self._svgs):
            self.parts.append((f"/{tag}",))
        self._raw = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        if self._raw == OCTETS and not _OCTETS_ONLY.fullmatch(data):
            self.foreign.append("a file that it carries is not written as torchstone writes it")
        elif self._raw and self._raw != OCTETS:
            self.parts.append(("text", data))
            self.code[-1] = (self.code[-1][0], self.code[-1][1] + data)

    def handle_comment(self, data: str) -> None:
        self.parts.append(("comment", data))

    def handle_pi(self, data: str) -> None:
        self.parts.append(("instruction", data))

    def handle_decl(self, decl: str) -> None:
        self.parts.append(("declaration", decl))

    def unknown_decl(self, data: str) -> None:
        self.parts.append(("declaration", data))

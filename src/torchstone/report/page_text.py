"""What a page of HTML says: its texts, each with what it stands in.

Only the standard library's parser reads a page here: it may be a stranger's, and nothing in it is run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from difflib import SequenceMatcher
from html.parser import HTMLParser

import msgspec

from torchstone.core.errors import UsageError
from torchstone.report.attached import check_bounded

# What a text is called after: the innermost of these that it stands in.
_PLACES = {
    "title": "title", "h1": "heading", "h2": "heading", "h3": "heading", "h4": "heading", "h5": "heading",
    "h6": "heading", "td": "table cell", "th": "table heading", "caption": "caption", "summary": "summary",
    "pre": "command", "code": "command", "button": "button",
}  # fmt: skip
_UNSEEN = ("script", "style", "template")
_SPOKEN = ("alt", "aria-label", "title")  # what a screen reader says
_VOID = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
))  # fmt: skip
# What an element ends that is still open, as a browser reads it (https://html.spec.whatwg.org/#optional-tags).
_CELLS = ("td", "th")
_ROWS = (*_CELLS, "tr")
_GROUPS = (*_ROWS, "thead", "tbody", "tfoot")
_ENDED = dict.fromkeys(_GROUPS, _GROUPS) | {"tr": _ROWS} | dict.fromkeys(_CELLS, _CELLS)
_DEEPEST = 500  # elements in each other: of a stranger's page, every one would be looked through for every text
_LONG = 2000  # texts that differ: of more, only how many and from where is told
_CARRIED = re.compile(rb'<script type="application/octet-stream"[^>]*>[^<]*</script>\n?')
_SHOWN = 120  # characters of a text that is named


class Shown(msgspec.Struct, frozen=True):
    """A text of a page, its white space as one blank each, and what it stands in."""

    place: str
    text: str


def page_text(page: bytes) -> tuple[Shown, ...]:
    """Return the texts that a page shows, in order; without those in drawings, which fonts place and leave out.

    Raises UsageError for elements that are nested deeper than any page of ours, and for many tags that do not end.
    """
    check_bounded(page)
    reader = _Reader()
    reader.feed(page.decode("utf-8", "replace"))
    reader.close()
    reader.end_text()
    return tuple(reader.texts)


def without_carried(page: bytes) -> bytes:
    """Return a page without the files that it carries: another zlib packs the same in other bytes."""
    return _CARRIED.sub(b"", page)


def text_differences(page: Sequence[Shown], expected: Sequence[Shown]) -> Iterator[str]:
    """Yield in a line each which texts of a page are not those that are expected."""
    same = same_beginning(page, expected)
    page, expected = page[same:], expected[same:]
    tail = same_beginning(page[::-1], expected[::-1])
    page, expected = page[: len(page) - tail], expected[: len(expected) - tail]
    if max(len(page), len(expected)) > _LONG:
        yield f"{len(page)} texts from {_named(page[0] if page else expected[0])} on, where {len(expected)} follow"
        return
    for tag, a, b, c, d in SequenceMatcher(None, page, expected, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for n in range(max(b - a, d - c)):
            yield _difference(page[a + n] if a + n < b else None, expected[c + n] if c + n < d else None)


def same_beginning(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many of the first items are equal: texts of pages, or characters."""
    apart = (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(apart, min(len(one), len(other)))


def _difference(shown: Shown | None, expected: Shown | None) -> str:
    if shown is None and expected is not None:
        return f"{_named(expected)} is missing"
    if expected is None and shown is not None:
        return f"{_named(shown)} does not follow from the record"
    if shown is not None and expected is not None:
        return f"{_named(shown)}, the record gives {_quoted(expected.text)}"
    return ""


def _named(one: Shown) -> str:
    return f"{one.place} {_quoted(one.text)}"


def _quoted(text: str) -> str:
    return f"“{text if len(text) <= _SHOWN else text[:_SHOWN] + '…'}”"


class _Reader(HTMLParser):
    """Collects texts, one for each element and line."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[Shown] = []
        self._open: list[str] = []
        self._data: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_text()
        if ended := _ENDED.get(tag):
            self._end(ended)
        if tag not in _VOID:
            self._open.append(tag)
            if len(self._open) > _DEEPEST:
                raise UsageError(f"elements nested more than {_DEEPEST} deep")
        for name, value in attrs:
            if name in _SPOKEN and value:
                self._add(value)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self.end_text()
        if tag in self._open:  # with what was left open in it
            del self._open[len(self._open) - 1 - self._open[::-1].index(tag) :]

    def _end(self, ended: Collection[str]) -> None:
        """End what is open of these in the innermost table, with what was left open in it."""
        within = len(self._open) - self._open[::-1].index("table") if "table" in self._open else 0
        first = next((n for n in range(within, len(self._open)) if self._open[n] in ended), len(self._open))
        del self._open[first:]

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] not in _UNSEEN:
            self._data.append(data)

    def end_text(self) -> None:
        """Keep the text that was read since the last tag."""
        text, self._data = "".join(self._data), []
        self._add(text)

    def _add(self, text: str) -> None:
        if (words := " ".join(text.split())) and "svg" not in self._open:
            place = next((_PLACES[tag] for tag in reversed(self._open) if tag in _PLACES), "text")
            self.texts.append(Shown(place, words))

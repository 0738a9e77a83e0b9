"""A Document as data for pages.typ: blocks in the order of reading, every text a string."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import assert_never

import msgspec

from torchstone.core.plain_text import plain
from torchstone.core.schema.estimate import Severity
from torchstone.report.document import (
    Attachment,
    Chart,
    Command,
    Document,
    Doubt,
    Facts,
    Part,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers._measuring import breakable, glued
from torchstone.report.renderers._typeface import shortened, typeface
from torchstone.report.renderers.pdf.page_pictures import pictures
from torchstone.report.renderers.pdf.tables import ACROSS, Block, Drafting, drafted
from torchstone.report.translation.spoken import said, speaking

DATA = "document.json"
_MOST_CELLS = 60_000  # of tables, with a fact, a paragraph and a title as one each: a dozen seconds, hundreds of pages
_REST = "The report continues: torchstone report --format md"
_MOST_CHARACTERS, _MOST_OF_A_TITLE = 4_000, 300
_SIZE, _SIZE_OF_TITLES = 9.5, 17.0  # points, as in pages.typ
_NAMES, _MOST_OF_NAMES = 60.0, 150.0  # points for the names of facts: at least, at most
_FEW_FACTS, _SHORT_FACTS = 12, 1_200  # facts, and characters of their values, that stay on one page
_DEEPEST = 6  # level of a heading
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")


class Pages(msgspec.Struct, frozen=True):
    """Files by name: `DATA`, and those that it names. `lacking`: some text has characters of another typeface."""

    files: Mapping[str, bytes]
    lacking: bool


def pages(document: Document, *, any_font: bool = False) -> Pages:
    """Return what pages.typ draws. `any_font`: no character becomes its code."""
    with speaking(document.language):
        return _pages(document, any_font=any_font)


def _pages(document: Document, *, any_font: bool) -> Pages:
    draft = _Draft(any_font=any_font)
    title = draft.text(document.title, _MOST_OF_A_TITLE) or said("Report")
    blocks = list(_together(draft.blocks(document.parts, 2)))
    if draft.is_cut:
        blocks.append({"kind": "rest", "text": said(_REST)})
    attached = [draft.attached(number, one) for number, one in enumerate(document.attachments)]
    data = {
        "title": title, "heading": draft.broken(title, _SIZE_OF_TITLES), "running": shortened(title, 90),
        "blocks": blocks, "attachments": attached, "language": document.language, "note": said("Note"),
        "page": said("{0} of {1}"),
    }  # fmt: skip
    return Pages({DATA: msgspec.json.encode(data), **draft.files}, draft.lacking)


class _Draft(Drafting):
    """Makes blocks, and keeps what they need beside them: files, and how many cells may follow.

    `lacking`: some text has characters of another typeface; `is_cut`: parts are left out.
    """

    def __init__(self, *, any_font: bool) -> None:
        self._any_font = any_font
        self.lacking = self.is_cut = False
        self.files: dict[str, bytes] = {}
        self.cells_left = _MOST_CELLS
        self._attached: set[str] = set()

    def text(self, text: object, most: int = _MOST_CHARACTERS) -> str:
        """Return text of one line in characters that can be drawn."""
        line = shortened(plain(text).strip(), most)
        if not typeface().lacks(line):
            return line
        self.lacking = True
        return line if self._any_font else typeface().shown(line)

    def broken(self, line: str, size: float = _SIZE, room: float = ACROSS) -> str:
        """Return a line whose words break where they are wider than the room, with the indents of all blocks."""
        return breakable(glued(line), 0.85 * room, lambda word: typeface().width(word, size))

    def copied(self, words: str) -> str:
        """Return words as they are typed; they break only where one is wider than the page."""
        return breakable(self.text(words), 0.85 * ACROSS, lambda word: typeface().width(word, _SIZE))

    def blocks(self, parts: Sequence[Part], level: int) -> Iterator[Block]:
        """Yield the blocks of parts below a heading of the level above."""
        titled = False
        for part in parts:
            if self.cells_left <= 0:
                self.is_cut = True
                return
            self.cells_left -= 1
            if titled and not isinstance(part, Section):
                yield {"kind": "gap"}
            titled = isinstance(part, Section) and bool(part.title)
            yield from self._part(part, level)

    def attached(self, number: int, attachment: Attachment) -> Block:
        """Return how a file is attached, and keep it."""
        file = f"attachment-{number}"
        self.files[file] = attachment.content
        name = re.sub(r"[^A-Za-z0-9._-]", "_", attachment.name).strip(".")[-100:] or file
        if name in self._attached:
            name = f"{number}-{name}"
        self._attached.add(name)
        is_known = _MEDIA_TYPE.fullmatch(attachment.media_type) is not None
        return {"file": file, "name": name, "type": attachment.media_type if is_known else "application/octet-stream"}

    def _part(self, part: Part, level: int) -> Iterator[Block]:
        match part:
            case Text():
                yield {"kind": str(part.role), "text": self.broken(self.text(part.text))}
            case Command():
                yield {"kind": "command", "text": self.copied(part.words)}
            case Facts():
                yield self._facts(part)
            case Table():
                yield from drafted(part, self)
            case Chart():
                yield from pictures(part, self)
            case Doubt():
                yield self._doubt(part)
            case Section():
                if title := self.broken(self.text(part.title, _MOST_OF_A_TITLE), _SIZE_OF_TITLES):
                    yield {"kind": "heading", "level": min(level, _DEEPEST), "text": title}
                yield from self.blocks(part.parts, level + 1 if title else level)
            case _:
                assert_never(part)

    def _facts(self, part: Facts) -> Block:
        rows = part.rows[: self.cells_left]
        self.cells_left -= len(rows)
        self.is_cut = self.is_cut or len(rows) < len(part.rows)
        names = [self.text(name, _MOST_OF_A_TITLE) for name, _ in rows]
        widest = max((typeface().width(name, _SIZE) for name in names), default=0.0)
        width = min(max(widest, _NAMES), _MOST_OF_NAMES)
        values = [self.broken(self.text(value), room=ACROSS - width) for _, value in rows]
        shown = [self.broken(name, room=width) for name in names]
        together = len(rows) <= _FEW_FACTS and sum(map(len, values)) <= _SHORT_FACTS
        pairs = [list(row) for row in zip(shown, values, strict=True)]
        return {"kind": "facts", "width": width, "together": together, "rows": pairs}

    def _doubt(self, part: Doubt) -> Block:
        label = said("Note" if part.severity == Severity.INFO else str(part.severity).capitalize())
        text = self.text(f"{part.subject}: {part.message}. {part.advice}")
        return {"kind": "doubt", "severity": str(part.severity), "label": label, "text": self.broken(text)}


def _together(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the blocks; a table on a page that is turned takes what introduces it along."""
    waiting: list[Block] = []
    turned: list[Block] = []
    for block in blocks:
        if block.get("turned"):
            turned += [*waiting, block]
            waiting = []
        elif block["kind"] == "rest" and turned and not waiting:
            turned.append(block)
        elif block["kind"] in ("heading", "detail"):
            waiting.append(block)
        else:
            yield from _turned(turned)
            turned = []
            yield from waiting
            yield block
            waiting = []
    yield from _turned(turned)
    yield from waiting


def _turned(blocks: Sequence[Block]) -> Iterator[Block]:
    if blocks:
        yield {"kind": "turned", "blocks": list(blocks)}

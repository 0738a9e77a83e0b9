"""The parts of a Document as blocks of a page: neighbours of one kind are one list, sections have levels and places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple, assert_never

from torchstone.report.document import Chart, CommandLine, Document, Doubt, Fields, Part, Role, Section, Table, Text
from torchstone.report.renderers.html.charts import Drawings, figure
from torchstone.report.renderers.html.legend import gathered
from torchstone.report.renderers.html.tables import grid
from torchstone.report.translation.language import localized

_CROWD = 3  # sections of sections, from which on they are folded below the first level: those of each case
_CONTENTS = 4  # sections, from which on a page has contents


class Block(NamedTuple):
    """One thing on the page. `kind` names the macro that draws it (blocks.html)."""

    kind: str
    content: Any


class Placed(NamedTuple):
    """A section. `place`: its id in the page; `level`: of its heading, 2 to 6."""

    place: str
    title: str
    level: int
    folded: bool
    blocks: tuple[Block, ...]


class Laid(NamedTuple):
    """A page: the answer, what follows it, place and title of its sections; `columns`: the most that a table has."""

    answer: tuple[str, ...]
    blocks: tuple[Block, ...]
    contents: tuple[tuple[str, str], ...]
    columns: int


def laid_out(document: Document, drawn: Drawings | None = None, level: int = 2) -> Laid:
    """Return the page of a Document. Draws its pictures where vl-convert is there, else says what is missing.

    `drawn`: what there is room for; `level`: of the first headings.
    """
    parts = list(_flat(document.parts))
    answer: list[str] = []
    for part in parts:
        if not (isinstance(part, Text) and part.role == Role.HEADLINE):
            break
        answer.append(part.text)
    layout = _Layout(drawn or Drawings(), level)
    blocks = tuple(layout.blocks(parts[len(answer) :], document.title, level))
    sections = [(b.content.place, b.content.title) for b in blocks if b.kind == "section"]
    return Laid(tuple(answer), blocks, tuple(sections) if len(sections) >= _CONTENTS else (), layout.columns)


def _flat(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield the parts, in place of a section without a title those in it."""
    for part in parts:
        if isinstance(part, Section) and not part.title and not part.folded:
            yield from _flat(part.parts)
        else:
            yield part


def _kind(part: Part) -> str:
    if isinstance(part, Text):
        return str(part.role)
    return str(part.__struct_config__.tag)


class _Layout:
    """Counts what has to be told apart in one page."""

    def __init__(self, drawn: Drawings, level: int) -> None:
        self.columns = 1
        self._sections = count(1)
        self._drawn, self._first = drawn, level

    def blocks(self, parts: Sequence[Part], title: str, level: int) -> Iterator[Block]:
        """Yield the blocks of parts below a heading of this title; sections among them have headings of `level`."""
        flat = list(_flat(parts))
        crowd = level > self._first and sum(map(_has_sections, flat)) >= _CROWD
        if crowd:
            flat = gathered(flat)
        for kind, group in groupby(flat, key=_kind):
            found = list(group)
            texts = [part.text for part in found if isinstance(part, Text)]
            if texts:
                yield Block(kind, texts)
            elif kind == "doubt":
                yield Block(kind, found)
            elif kind == "chart" and len(found) > 1:
                yield Block("charts", [self._block(part, title, level, crowd=crowd) for part in found])
            else:
                for part in found:
                    yield self._block(part, title, level, crowd=crowd)

    def _block(self, part: Part, title: str, level: int, *, crowd: bool) -> Block:
        match part:
            case CommandLine():
                return Block("command", part.words)
            case Fields():
                return Block("facts", part.rows)
            case Table():
                self.columns = max(self.columns, len(part.columns))
                return Block("table", grid(part, title))
            case Chart():
                drawn = figure(part, self._drawn)
                self.columns = max([self.columns, *(len(one.values.heads) for one in (*drawn.panels, *drawn.folded))])
                return Block("chart", drawn)
            case Section():
                folded = part.folded or (crowd and _has_sections(part))
                place = f"s{next(self._sections)}"
                inside = tuple(self.blocks(part.parts, part.title, min(level + 1, 6)))
                return Block("section", Placed(place, part.title or localized("more"), level, folded, inside))
            case Text() | Doubt():
                raise ValueError(f"a {_kind(part)} is laid out with the texts beside it")
            case _:
                assert_never(part)


def _has_sections(part: Part) -> bool:
    return isinstance(part, Section) and any(isinstance(one, Section) and one.title for one in part.parts)

"""The parts of a Document as blocks of a page: neighbours of one kind are one list, sections have levels and places.

The figures of many cases are explained once; of very many cases one table, a row a case, is in place of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import Any, NamedTuple, assert_never

import msgspec

from torchstone.report.document import (
    Chart,
    Column,
    CommandLine,
    Document,
    Doubt,
    Fields,
    Part,
    Role,
    Section,
    Table,
    Text,
)
from torchstone.report.renderers.html.charts import Drawings, figure
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


# ── what many tables say, said once ───────────────────────────────────────────────────────────────────────────


_MANY = 12  # tables that say the same of a figure, from which on it is said once
_VERY_MANY = 48  # cases, from which on their figures are one table: 336 with tables of their own are too large a page
_FIRST_COLUMNS = 3  # figures that are shown on a phone, too


def gathered(parts: Sequence[Part]) -> list[Part]:
    """Return parts, among them sections of cases, without what their figures have in common, which is put before them.

    Only tables without titles are meant, whose first column names a figure and whose last says what it is. What a name
    means in several ways stays where it is.
    """
    words = _explained(parts)
    if not words:
        return list(parts)
    cases = [part for part in parts if isinstance(part, Section) and any(_tables(part.parts))]
    columns = (
        Column(localized("figure"), tuple(words), left=True),
        Column(localized("what it is"), tuple(words.values()), left=True),
    )
    legend: Part = Section(localized("What the figures are"), (Table(columns),), folded=True)
    if len(cases) < _VERY_MANY:
        own = [_without(part, words) for part in parts]
    else:
        legend = Section(localized("Figures of all cases"), (_one_table(cases, words), legend))
        own = [kept for part in parts if (kept := _without_figures(part, words)) is not None]
    first = next(n for n, part in enumerate(parts) if part in cases)
    return [*own[:first], legend, *(own[first:] if len(cases) < _VERY_MANY else _together(own[first:]))]


def _explained(parts: Sequence[Part]) -> dict[str, str]:
    told: dict[str, dict[str, int]] = {}
    for table in _tables(parts):
        for name, words in zip(table.columns[0].cells, table.columns[-1].cells, strict=True):
            if name and words:
                one = told.setdefault(name, {})
                one[words] = one.get(words, 0) + 1
    return {name: next(iter(one)) for name, one in told.items() if len(one) == 1 and max(one.values()) >= _MANY}


def _is_explained(part: Part) -> bool:
    return (
        isinstance(part, Table)
        and len(part.columns) == 3
        and part.columns[-1].left
        and not any(column.title for column in part.columns)
    )


def _tables(parts: Sequence[Part]) -> Iterator[Table]:
    for part in parts:
        if isinstance(part, Section):
            yield from _tables(part.parts)
        elif isinstance(part, Table) and _is_explained(part):
            yield part


# ── each table without the words ────────────────────────────────────────────────────────────────────────────


def _without(part: Part, words: Mapping[str, str]) -> Part:
    if isinstance(part, Section):
        return msgspec.structs.replace(part, parts=tuple(_without(one, words) for one in part.parts))
    if not isinstance(part, Table) or not _is_explained(part):
        return part
    name, value, last = part.columns
    cells = tuple("" if words.get(of) == cell else cell for of, cell in zip(name.cells, last.cells, strict=True))
    columns = (name, value, *((msgspec.structs.replace(last, cells=cells),) if any(cells) else ()))
    return msgspec.structs.replace(part, columns=columns)


# ── one table of all ────────────────────────────────────────────────────────────────────────────────────────


def _one_table(cases: Sequence[Section], words: Mapping[str, str]) -> Table:
    found: dict[str, list[str]] = {name: [""] * len(cases) for name in words}
    for place, case in enumerate(cases):
        for table in _tables(case.parts):
            for name, value, _ in zip(*(column.cells for column in table.columns), strict=True):
                if name in found:
                    found[name][place] = value
    figures = (
        Column(name, tuple(cells), rank=int(n >= _FIRST_COLUMNS)) for n, (name, cells) in enumerate(found.items())
    )
    return Table((Column(localized("case"), tuple(case.title for case in cases), left=True), *figures))


def _without_figures(part: Part, words: Mapping[str, str]) -> Part | None:
    """Return a part without the figures that are in the one table, folded; None where nothing is left of it."""
    if isinstance(part, Section) and any(_tables(part.parts)):
        kept = tuple(one for each in part.parts if (one := _without_figures(each, words)) is not None)
        return msgspec.structs.replace(part, parts=kept, folded=True) if kept else None
    if not isinstance(part, Table) or not _is_explained(part):
        return part
    rows = [row for row in zip(*(c.cells for c in part.columns), strict=True) if row[0] not in words]
    if not rows:
        return None
    columns = zip(part.columns, zip(*rows, strict=True), strict=True)
    return msgspec.structs.replace(part, columns=tuple(msgspec.structs.replace(c, cells=cells) for c, cells in columns))


# ── what is left of each ────────────────────────────────────────────────────────────────────────────────────


def _together(parts: Sequence[Part]) -> Iterator[Part]:
    """Yield parts, for cases of which only explained tables are left one table of each block: a row a figure."""
    alone = [part for part in parts if isinstance(part, Section) and part.parts and all(map(_is_block, part.parts))]
    if len(alone) < _VERY_MANY:
        yield from parts
        return
    blocks: dict[str, list[tuple[str, ...]]] = {}
    for case in alone:
        for block in case.parts:
            if isinstance(block, Section):
                told = [row for table in _tables(block.parts) for row in _joined(table)]
                blocks.setdefault(block.title, []).extend((case.title, *row) for row in told)
    titles = (localized("case"), localized("figure"), localized("value"), localized("what it is"))
    for title, rows in blocks.items():
        columns = zip(titles, zip(*rows, strict=True), strict=True)
        yield Section(title, (Table(tuple(Column(name, cells, left=True) for name, cells in columns)),), folded=True)
    yield from (part for part in parts if part not in alone)


def _is_block(part: Part) -> bool:
    return isinstance(part, Section) and all(map(_is_explained, part.parts)) and any(_tables(part.parts))


def _joined(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a table: of one without a name, what it tells is part of the row above."""
    row: tuple[str, str, str] | None = None
    for name, value, words in zip(*(column.cells for column in table.columns), strict=True):
        if row is not None and not name and not value:
            row = (*row[:2], f"{row[2]}; {words}")
            continue
        if row is not None:
            yield row
        row = (name, value, words)
    if row is not None:
        yield row

"""A Document on a terminal: as wide as that is, the answer first, columns left out by rank where they do not fit."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from torchstone.core.schema.estimate import Severity
from torchstone.core.units import MISSING
from torchstone.report.document import Chart, Column, Command, Document, Doubt, Facts, Part, Role, Section, Table, Text
from torchstone.report.renderers.shortening import shortened, with_room

_GAP = 2  # characters between columns
_TITLE = 12  # characters that a line of a column's title may have before it is broken
_NAME = 9  # characters of a fact's name


def terminal(document: Document, width: int, *, every: bool = False) -> str:
    """Return the text, each line with its end. `every`: with what is folded."""
    return "".join(f"{line}\n" for line in _lines(document.parts, width, every=every))


def plain(text: object) -> str:
    """Return text that a record may have brought from a stranger, without what could steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def _lines(parts: Sequence[Part], width: int, *, every: bool) -> Iterator[str]:
    before: Part | None = None
    for part in parts:
        drawn = list(_part(part, width, every=every))
        if drawn and before is not None and _apart(before, part):
            yield ""
        yield from drawn
        before = part if drawn else before


def _apart(before: Part, part: Part) -> bool:
    """Say whether an empty line stands between two parts."""
    if isinstance(part, Text) and part.role == Role.DETAIL:
        return False
    if isinstance(before, Text) and isinstance(part, Text):
        return before.role == Role.HEADLINE or part.role != before.role
    return (not isinstance(part, Command) and type(before) is not type(part)) or isinstance(part, Section | Table)


def _part(part: Part, width: int, *, every: bool) -> Iterator[str]:
    match part:
        case Text():
            yield from _text(part, width)
        case Command():
            yield f"  {plain(part.words)}"  # whole, so that it can be copied
        case Facts():
            yield from _facts(part, width)
        case Table():
            yield from _table(part, width, every=every)
        case Doubt():
            said = f"{part.severity} {part.subject}: {part.message}. {part.advice}"
            yield from _wrapped(said if part.severity != Severity.INFO else f"note: {said}", width, "  ")
        case Chart():
            yield from _wrapped(f"{part.name}: {part.says}", width, "  ")
        case Section():
            yield from _section(part, width, every=every)


def _text(part: Text, width: int) -> Iterator[str]:
    if part.role == Role.NOTE:
        yield from _wrapped(f"note: {part.text}", width, "  ")
    elif part.role == Role.DETAIL:
        yield from _wrapped(f"  {part.text}", width, "    ")
    else:
        yield from _wrapped(part.text, width, "" if part.role == Role.HEADLINE else "  ")


def _section(part: Section, width: int, *, every: bool) -> Iterator[str]:
    if part.folded and not every:
        yield from _wrapped(f"{part.title}: {part.how}", width, "  ")
        return
    if part.title:
        yield plain(part.title)
    yield from _lines(part.parts, width, every=every)


def _facts(part: Facts, width: int) -> Iterator[str]:
    names = max([_NAME, *(len(name) for name, _ in part.rows)])
    for name, value in part.rows:
        yield from _wrapped(f"{name:<{names}} {value}", width, " " * (names + 1))


def _wrapped(text: str, width: int, indent: str) -> Iterator[str]:
    lead = text[: len(text) - len(text.lstrip())]
    yield from textwrap.wrap(
        plain(text.strip()), width, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────


def _table(part: Table, width: int, *, every: bool) -> Iterator[str]:
    most = None if every else part.most
    kept, gone = fitting(part.columns, width)
    kept = with_room(kept, width + _GAP - sum(_width(shortened(column)) + _GAP for column in kept))
    titles = [textwrap.wrap(plain(column.title), _TITLE) or [""] for column in kept]
    cells = [[plain(cell) for cell in column.cells] for column in kept]
    widths = [max(map(len, (*title, *column))) for title, column in zip(titles, cells, strict=True)]
    height = max((len(title) for title in titles), default=0)
    headed = [[""] * (height - len(title)) + title for title in titles]
    for row in zip(*headed, strict=True):
        yield _row(row, widths, kept)
    yield "─" * (sum(widths) + _GAP * (len(widths) - 1))
    rows = list(zip(*cells, strict=True))
    for row in rows[:most]:
        yield _row(row, widths, kept)
    if most is not None and len(rows) > most:
        yield f"and {len(rows) - most} more: {part.how}"
    if gone:
        names = ", ".join(plain(column.title) for column in sorted(gone, key=lambda c: c.rank) if column.of is None)
        if names:
            yield from _wrapped(f"hidden (terminal too narrow): {names}", width, "  ")


def _row(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    laid = (
        f"{cell:<{width}}" if column.left else f"{cell:>{width}}"
        for cell, width, column in zip(cells, widths, columns, strict=True)
    )
    return (" " * _GAP).join(laid).rstrip()


def fitting(columns: Sequence[Column], width: int) -> tuple[list[Column], list[Column]]:
    """Return the columns that fit into `width` characters, and those that say something and do not.

    What has no value in any row is neither: it is not there.
    """
    kept = [c for c in columns if c.rank == 0 or _says_something(c)]
    gone: list[Column] = []
    while sum(_width(shortened(c)) + _GAP for c in kept) - _GAP > width and any(c.rank for c in kept):
        highest = max(c.rank for c in kept)
        gone += [c for c in kept if c.rank == highest]
        kept = [c for c in kept if c.rank != highest]
    missing = {number for number, column in enumerate(columns) if column not in kept}
    return [c for c in kept if c.of not in missing], gone


def _says_something(column: Column) -> bool:
    nothing = ("",) if column.of is not None else ("", MISSING)  # a dash in place of an interval has its reason
    return any(cell not in nothing for cell in column.cells)


def _width(column: Column) -> int:
    title = textwrap.wrap(plain(column.title), _TITLE) or [""]
    return max(map(len, (*title, *map(plain, column.cells))))

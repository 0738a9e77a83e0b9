"""Tables that fit a terminal: columns leave by rank until the rest fits, and what left is named below the table.

On a page the important columns come first, and widths are counted in characters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from math import ceil
from typing import Literal

import msgspec

from torchstone.core.units import MISSING, plain
from torchstone.report.document import Column, Table
from torchstone.report.translation.language import localized

# First and last of the blocks in which every character takes one cell: Latin, dashes and dots, arrows and signs, boxes.
_SINGLE = (("\x20", "\u02ff"), ("\u2010", "\u2027"), ("\u2190", "\u22ff"), ("\u2500", "\u25a0"), ("\ufffd", "\ufffd"))
_NARROWEST = 8  # cells that a line has beside its indent, however narrow the terminal is
_WORDS = re.compile(r" +(?!%)")  # a number and its percent sign are one word


def cell_width(text: str) -> int:
    """Return how many cells of a terminal a text takes."""
    if text.isascii() or all(map(_is_single, text)):
        return len(text)  # rich's tables of widths take longer to load than all else
    from rich.cells import cell_len

    return cell_len(text)


def _is_single(character: str) -> bool:
    return any(first <= character <= last for first, last in _SINGLE)


def wrapped(text: object, width: int, *, first: str = "", rest: str = "", whole: bool = False) -> Iterator[str]:
    """Yield a text in lines of at most `width` cells, the first one behind `first`, the others behind `rest`.

    `whole`: a word that is wider than a line stays in one piece, as it is there to be copied; else it is cut.
    """
    shown = plain(text).strip()
    if cell_width(first) + cell_width(shown) <= width:
        yield (first + shown).rstrip()
        return
    room = max(width - max(cell_width(first), cell_width(rest)), _NARROWEST)
    line, begun = first, False
    for word in _WORDS.split(shown):
        for piece in [word] if whole or cell_width(word) <= room else _pieces(word, room):
            if begun and cell_width(line) + 1 + cell_width(piece) > width:
                yield line
                line, begun = rest, False
            line += f" {piece}" if begun else piece
            begun = True
    yield line


def with_what_to_type(text: str, words: str, width: int) -> Iterator[str]:
    """Yield "text: words" on one line, or where that is too narrow the words on a line of their own, in one piece."""
    line = plain(f"{text}: {words}")
    if cell_width(line) <= width:
        yield line
        return
    yield from wrapped(f"{text}:", width, rest="  ")
    yield f"  {plain(words)}"


def _pieces(word: str, room: int) -> Iterator[str]:
    piece = ""
    for character in word:
        if piece and cell_width(piece + character) > room:
            yield piece
            piece = ""
        piece += character
    yield piece


_GAP = 2  # cells between columns
_LEAST = 6  # cells of a column, below which a table cannot be read
_READABLE = 16  # cells of a column of sentences, below which its neighbours are broken, too
_TITLE = 24  # most cells of a line of a column's title
_MARKS = ("*", "=")  # behind a number: the best of its column, and what is not significantly different from it
_BLANK = "\ue000"  # stands for a blank that rich would strip; `plain` lets no such character through


def table(part: Table, width: int, *, every: bool) -> Iterator[str]:
    """Yield the lines of a table, which has no head where no column has a title. `every`: all of its rows."""
    most = None if every else part.most
    kept, _ = fit_columns(part.columns, width)
    kept = widened(kept, width + _GAP - sum(_width(shortened(column)) + _GAP for column in kept))
    if kept:
        narrowest = sum(min(_width(column), _LEAST) + _GAP for column in kept) - _GAP
        yield from _drawn(kept, width, most) if narrowest <= width else _listed(kept, width, most)
    rows = max((len(column.cells) for column in part.columns), default=0)
    if most is not None and rows > most:
        yield from with_what_to_type(localized(f"and {rows - most} more"), part.how, width)
    if every and (names := hidden(part.columns, width)):
        yield from wrapped(f"{localized('hidden (terminal too narrow)')}: {', '.join(names)}", width, rest="  ")


def hidden(columns: Sequence[Column], width: int) -> list[str]:
    """Return the titles of the columns that do not fit."""
    _, gone = fit_columns(columns, width)
    return [column.title for column in sorted(gone, key=lambda c: c.rank) if column.of is None and column.title]


def fit_columns(
    columns: Sequence[Column], width: float, taken: Callable[[Sequence[Column]], float] | None = None
) -> tuple[list[Column], list[Column]]:
    """Return the columns that fit into `width` cells, and those that say something and do not.

    `taken`: how much columns take of a width in another unit.

    What has no value in any row is neither: it is not there. An interval leaves with its value, and never before it.
    Columns of a rank leave together, those of the last one by one.
    """
    kept = [n for n, column in enumerate(columns) if says_something(column) or (column.rank == 0 and column.of is None)]
    kept = [n for n in kept if columns[n].of is None or columns[n].of in kept]
    gone: list[int] = []
    takes = taken or _cells_of
    ranks = {n: columns[n].rank if (of := columns[n].of) is None else columns[of].rank for n in kept}
    while takes([columns[n] for n in kept]) > width and (highest := max(ranks[n] for n in kept)):
        leaving = [n for n in kept if ranks[n] == highest]
        if all(ranks[n] in (0, highest) for n in kept):  # the figures themselves: one by one, lest none is left
            last = max(n for n in leaving if columns[n].of is None)
            leaving = [n for n in leaving if last in (n, columns[n].of)]
        gone += leaving
        kept = [n for n in kept if n not in leaving]
    return [columns[n] for n in kept], [columns[n] for n in gone]


def _cells_of(columns: Sequence[Column]) -> int:
    return sum(_width(shortened(column)) + _GAP for column in columns) - _GAP


def says_something(column: Column) -> bool:
    """Say whether any cell has a value."""
    nothing = ("",) if column.of is not None else ("", MISSING)  # a dash in place of an interval has its reason
    return any(cell not in nothing for cell in column.cells)


def _width(column: Column) -> int:
    return max(map(cell_width, (*_title(column), *_shown(column))), default=0)


def _shown(column: Column) -> list[str]:
    """Return the cells. Where some numbers have a mark behind them, the others get a blank: the digits stay in line."""
    shown = [plain(cell).strip() for cell in column.cells]
    if column.left or not any(cell.endswith(_MARKS) for cell in shown):
        return shown
    return [cell if cell.endswith(_MARKS) else cell + _BLANK for cell in shown]


def _title(column: Column) -> list[str]:
    """Return the lines of a title: two where that makes the column narrower, one where its cells are as wide."""
    words = plain(column.title).split()
    if not words:
        return []
    broken = [(" ".join(words[:n]), " ".join(words[n:])) for n in range(1, len(words))] or [(words[0], "")]
    narrowest = min(max(cell_width(above), cell_width(below)) for above, below in broken)
    below = max(map(cell_width, _shown(column)), default=0)
    return list(wrapped(" ".join(words), max(min(narrowest, _TITLE), below)))


def _drawn(columns: Sequence[Column], width: int, most: int | None) -> Iterator[str]:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    titles = [_title(column) for column in columns]
    grid = Grid(box=SIMPLE_HEAD, show_header=any(titles), show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    broken = _broken(columns, width)
    for n, (column, title) in enumerate(zip(columns, titles, strict=True)):
        justify: Literal["left", "right"] = "left" if column.left else "right"
        grid.add_column(Text("\n".join(title)), justify=justify, overflow="fold", no_wrap=broken not in (None, n))
    for row in zip(*(_shown(column)[:most] for column in columns), strict=True):
        grid.add_row(*map(Text, row))
    file = StringIO()
    # Height, terminal and notebook are named lest rich look at the surroundings: the text is the same everywhere.
    console = Console(
        file=file,
        width=width,
        height=100,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,
        highlight=False,
        legacy_windows=False,
    )
    console.print(grid)
    for line in file.getvalue().removesuffix("\n").split("\n"):
        yield line.replace(_BLANK, " ").rstrip()


def _broken(columns: Sequence[Column], width: int) -> int | None:
    """Return the only column whose cells are to be broken where not all fit: the widest; None where all have to be."""
    widths = [_width(column) for column in columns]
    widest = max(range(len(widths)), key=widths.__getitem__)
    left = width - sum(widths[n] + _GAP for n in range(len(widths)) if n != widest)
    return widest if left >= _READABLE else None


def _listed(columns: Sequence[Column], width: int, most: int | None) -> Iterator[str]:
    """Yield each row as lines of "title: value", where even the columns that never leave have no room."""
    for row in zip(*(column.cells[:most] for column in columns), strict=True):
        for place, (column, cell) in enumerate(zip(columns, row, strict=True)):
            text = f"{column.title}: {cell}" if column.title else cell
            yield from wrapped(text, width, first="  " if place else "", rest="    ")


# ── names of any length: they lose their middle before another column has to leave ──────────────────────────

_SHORTEST = 16  # characters that a name keeps


def shortened(column: Column, most: int = _SHORTEST) -> Column:
    """Return a column whose cells have at most so many characters, if it may be shortened; else the column as it is."""
    if not column.shorten:
        return column
    return msgspec.structs.replace(column, cells=tuple(_cut(cell, most) for cell in column.cells))


def widened(columns: Sequence[Column], spare: int) -> list[Column]:
    """Return the columns; names get `spare` characters, in equal parts, beside the least that each of them has."""
    each = max(0, spare) // max(1, sum(column.shorten for column in columns))
    return [shortened(column, _SHORTEST + each) for column in columns]


def _cut(text: str, most: int) -> str:
    """Return text of at most so many characters; a longer one loses its middle: names differ at both ends."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


# ── tables of a page ──────────────────────────────────────────────────────────────────────────────────────────


_LONGEST, _FEWEST = 44, 6  # characters of a column at most, and at least
_BESIDE = 2  # characters between columns
_LONGEST_NUMBER = 24  # characters of a cell that stays in one piece


def that_fit(columns: Sequence[Column], room: int) -> tuple[list[Column], int]:
    """Return the columns that fit into a number of characters, and the number of those that do not."""
    kept, gone = fit_columns(important_first(columns), room, lambda some: sum(map(column_width, some)))
    return kept, sum(one.of is None for one in gone)


def important_first(columns: Sequence[Column]) -> list[Column]:
    """Return the columns by their rank, each interval behind its value: settings, what was asked for, its status."""
    ranked = next((n for n, column in enumerate(columns) if column.rank), len(columns))

    def place(n: int) -> tuple[int, int, int]:
        of = columns[n].of
        value = n if of is None else of
        return columns[value].rank or int(value > ranked), value, n

    order = sorted(range(len(columns)), key=place)
    return [
        msgspec.structs.replace(one, of=None if one.of is None else order.index(one.of))
        for one in (columns[n] for n in order)
    ]


def column_width(column: Column) -> int:
    """Return how many characters wide a column is: its longest cell, a word of its title or half of that."""
    title = max((len(word) + 1 for word in column.title.split()), default=0)  # titles are bold
    longest = max(map(len, column.cells), default=0)
    return min(_LONGEST, max(_FEWEST, title, longest, ceil(len(column.title) / 2))) + _BESIDE


def in_one_piece(cell: str) -> str:
    """Return the cell of a column of numbers, which has no place to break unless it is a sentence."""
    return cell.replace(" ", "\N{NO-BREAK SPACE}") if len(cell) <= _LONGEST_NUMBER else cell

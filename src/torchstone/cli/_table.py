"""Tables that fit the terminal: columns leave by rank until the rest fits; what left is named below the table."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import msgspec

GAP = 2  # characters between columns


class Column(msgspec.Struct, frozen=True):
    """One column. Rank 0 never leaves; the highest rank leaves first, all columns of that rank together."""

    title: str
    cells: Sequence[str]
    rank: int = 0
    left: bool = False

    @property
    def width(self) -> int:
        """Characters of the widest line."""
        return max((len(line) for text in (self.title, *self.cells) for line in text.split("\n")), default=0)


def terminal_width() -> int:
    """Return the columns of the terminal; 100 where there is none."""
    return shutil.get_terminal_size((100, 24)).columns


def plain(text: object) -> str:
    """Return text that a record may have brought from a stranger, without what could steer a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def fit(columns: Sequence[Column], width: int) -> tuple[list[Column], list[Column]]:
    """Return the columns that fit into `width` characters and those that had to leave. Empty columns always leave."""
    kept = [c for c in columns if c.rank == 0 or any(cell not in _nothing(c) for cell in c.cells)]
    gone: list[Column] = []
    while sum(c.width + GAP for c in kept) > width and any(c.rank for c in kept):
        highest = max(c.rank for c in kept)
        gone += [c for c in kept if c.rank == highest]
        kept = [c for c in kept if c.rank != highest]
    return kept, gone


def _nothing(column: Column) -> tuple[str, ...]:
    """Return the cells that say nothing; a dash in place of an interval says that there is none to be believed."""
    return ("",) if column.title == "±" else ("", "–")


def show(columns: Sequence[Column], width: int | None = None) -> None:
    """Print the table to stdout, and below it the names of the columns for which there was no room."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    width = width or terminal_width()
    kept, gone = fit(columns, width)
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in kept:
        table.add_column(Text(column.title), justify="left" if column.left else "right", vertical="bottom")
    for cells in zip(*(c.cells for c in kept), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    console = Console(width=width, highlight=False)
    with console.capture() as drawn:  # rich itself would end the command with 1 when `head` has seen enough
        console.print(table)
        if any(column.title != "±" for column in gone):
            left = [c.title.replace("-\n", "").replace("\n", " ") for c in sorted(gone, key=lambda c: c.rank)]
            names = ", ".join(name for name in left if name != "±")
            console.print(Text(f"not shown, the terminal is too narrow: {names}"), style="dim")
    print(drawn.get(), end="")

"""The first table that a command printed, read by its columns."""

from __future__ import annotations

from itertools import takewhile


def under(printed: str, title: str) -> list[str]:
    """The cells under a title's last line, marks and all. Raises ValueError where the table has no such column.

    For columns whose titles end where their cells end, as those of numbers do.
    """
    before, _, after = printed.partition("───")
    titles = before.splitlines()[-1]
    if title not in titles.split():
        raise ValueError(f"no column {title} in: {titles}")
    end = titles.index(title) + len(title)
    rows = takewhile(lambda line: line.startswith(" "), after.splitlines()[1:])
    return [row[:end].split()[-1] for row in rows]


def number(cell: str) -> float:
    """The number of a cell, without its mark."""
    return float(cell.rstrip("*=").replace(",", ""))

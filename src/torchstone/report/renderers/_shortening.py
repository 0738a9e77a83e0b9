"""Columns of names of any length: names lose their middle before another column has to leave."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from torchstone.report.document import Column

_LEAST = 16  # characters that a name keeps


def shortened(column: Column, most: int = _LEAST) -> Column:
    """Return a column whose cells have at most so many characters, if it may be shortened; else the column as it is."""
    if not column.shorten:
        return column
    return msgspec.structs.replace(column, cells=tuple(_cut(cell, most) for cell in column.cells))


def with_room(columns: Sequence[Column], spare: int) -> list[Column]:
    """Return the columns; names get `spare` characters, in equal parts, beside the least that each of them has."""
    each = max(0, spare) // max(1, sum(column.shorten for column in columns))
    return [shortened(column, _LEAST + each) for column in columns]


def _cut(text: str, most: int) -> str:
    """Return text of at most so many characters; a longer one loses its middle: names differ at both ends."""
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"
